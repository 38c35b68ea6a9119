//! Exports the figures of a page as files: a headless browser opens the page with another script,
//! which draws the figures one by one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use tidegate_results::Partial;

use super::html::{LIBRARY, MAIN};
use crate::plot::Plot;
use tidegate_runs::Error;
use tidegate_runs::machine::Stopwatch;

/// The script that replaces [`MAIN`].
const PAPER: &str = include_str!("page/paper.js");
/// The scripts that draw figures. The page's style has no effect on them.
const DRAWING: [&str; 5] = [
    LIBRARY,
    include_str!("page/data.js"),
    include_str!("page/axes.js"),
    include_str!("page/plots.js"),
    PAPER,
];
/// Start of the element in which [`PAPER`] stores the figures as text.
const FIGURES: &str = "<script type=\"application/json\" id=\"figures\">";
/// Supported browsers.
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// Time limit of the browser.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Width of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureWidth {
    /// One column of a two-column page: 3.33 inches.
    Column,
    /// Both columns: 7 inches.
    Page,
    /// A document on a screen: 4 inches, so that text is readable on a phone, too.
    Screen,
}

impl FigureWidth {
    fn inches(self) -> &'static str {
        match self {
            FigureWidth::Column => "3.33",
            FigureWidth::Page => "7",
            FigureWidth::Screen => "4",
        }
    }
}

/// Colours of SVG figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureScheme {
    /// Black on white, for papers.
    Light,
    /// The light or dark setting of the reader, for documents.
    Auto,
}

impl FigureScheme {
    fn name(self) -> &'static str {
        match self {
            FigureScheme::Light => "light",
            FigureScheme::Auto => "auto",
        }
    }
}

/// A figure as stored in the page.
#[derive(Deserialize)]
struct Figure {
    name: String,
    svg: String,
}

/// Hash of a plot and of the scripts that draw it: a picture with another hash is outdated.
pub(crate) fn drawing_hash(plot: &Plot) -> String {
    static SCRIPTS: LazyLock<Sha256> = LazyLock::new(|| {
        DRAWING.iter().fold(Sha256::new(), |hash, script| hash.chain_update(script))
    });
    let mut plot = plot.clone();
    plot.make_readable();
    let hash = SCRIPTS.clone().chain_update(serde_json::json!(plot).to_string()).finalize();
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Writes every figure of a page as SVG to a folder, which is created. Returns their number.
///
/// # Errors
/// When there is no browser, the browser fails, or a file cannot be written.
pub fn write_svg(
    page: &str,
    width: FigureWidth,
    scheme: FigureScheme,
    folder: &Path,
) -> Result<usize, Error> {
    let option = "--svg";
    let wrong = |message: String| Error::Usage { option, message };
    let shown = browse(page, (width, scheme), option, |_| vec!["--dump-dom".into()])?;
    let dom = fs::read_to_string(shown.path().join(SHOWN)).unwrap_or_default();
    let json = dom.rsplit_once(FIGURES).and_then(|(_, rest)| rest.split_once("</script>"));
    let figures: Vec<Figure> = json
        .and_then(|(json, _)| serde_json::from_str(json).ok())
        .ok_or_else(|| Error::Run("the browser did not draw the figures".to_owned()))?;
    let write = || {
        fs::create_dir_all(folder)?;
        let mut taken: Vec<String> = Vec::new();
        let mut files = Vec::new();
        for figure in &figures {
            let mut file = Partial::new(folder.join(file_name(&figure.name, &mut taken)))?;
            file.write_all(figure.svg.as_bytes())?;
            files.push(file);
        }
        files.into_iter().try_for_each(Partial::publish)
    };
    write().map_err(|error: std::io::Error| wrong(format!("{}: {error}", folder.display())))?;
    Ok(figures.len())
}

/// Writes the figures of a page to a PDF, one figure per page.
///
/// # Errors
/// When the file exists and is not a PDF, there is no browser, the browser fails, or the file
/// cannot be written.
pub fn write_pdf(page: &str, width: FigureWidth, path: &Path) -> Result<(), Error> {
    let option = "--pdf";
    let wrong = |message: String| Error::Usage { option, message };
    if path.exists() && !fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"%PDF")) {
        return Err(wrong(format!(
            "{} exists and is not a PDF; choose another file",
            path.display()
        )));
    }
    let print = |folder: &Path| {
        let mut to = OsString::from("--print-to-pdf=");
        to.push(folder.join(PRINTED));
        vec![to, "--no-pdf-header-footer".into()]
    };
    let printed = browse(page, (width, FigureScheme::Light), option, print)?;
    let bytes = fs::read(printed.path().join(PRINTED))
        .map_err(|error| Error::Run(format!("the browser did not print the page: {error}")))?;
    let write = || {
        let mut file = Partial::new(path.to_owned())?;
        file.write_all(&bytes)?;
        file.publish()
    };
    write().map_err(|error: std::io::Error| wrong(format!("{}: {error}", path.display())))
}

/// File with the browser's output, in its working folder.
const SHOWN: &str = "shown.html";
const PRINTED: &str = "printed.pdf";

/// Opens a page so that it contains only its figures, and waits for the browser to end.
fn browse(
    page: &str,
    (width, scheme): (FigureWidth, FigureScheme),
    option: &'static str,
    arguments: impl FnOnce(&Path) -> Vec<OsString>,
) -> Result<tempfile::TempDir, Error> {
    let Some(browser) = browser() else {
        let message = format!(
            "figures are drawn by a browser, and PATH has none of {}; or open the page, and save \
             them by the button above each",
            BROWSERS.join(", ")
        );
        return Err(Error::Usage { option, message });
    };
    let failed = |error: std::io::Error| Error::Run(format!("{}: {error}", browser.display()));
    let work = tempfile::tempdir().map_err(failed)?;
    let paper = PAPER
        .replace("WIDTH_IN_INCHES", width.inches())
        .replace("\"SCHEME\"", &format!("\"{}\"", scheme.name()));
    let path = work.path().join("page.html");
    fs::write(&path, page.replacen(MAIN, &paper, 1)).map_err(failed)?;
    let mut profile = OsString::from("--user-data-dir=");
    profile.push(work.path().join("profile"));
    let mut child = Command::new(&browser)
        // A root user needs the option, and the page is our own.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update"])
        // The page's timers use virtual time; this is their budget.
        .arg("--virtual-time-budget=600000")
        .arg(profile)
        .args(arguments(work.path()))
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(File::create(work.path().join(SHOWN)).map_err(failed)?)
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let watch = Stopwatch::start();
    loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => return Ok(work),
            Some(status) => {
                return Err(Error::Run(format!("{} failed: {status}", browser.display())));
            }
            None if watch.wall() > TIMEOUT => {
                // The process may have ended meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Err(Error::Run(format!("timeout: {} did not end", browser.display())));
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The browser of this machine, if there is one.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let in_folder = |folder: PathBuf| BROWSERS.map(|name| folder.join(name));
    std::env::split_paths(&path).flat_map(in_folder).find(|program| program.is_file())
}

/// A unique file name for a figure: letters, digits and hyphens.
fn file_name(title: &str, taken: &mut Vec<String>) -> String {
    let plain: String = title
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    let base: String = words.join("-").chars().take(100).collect();
    let base = if base.is_empty() { "figure".to_owned() } else { base };
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken.contains(name));
    let name = name.unwrap_or(base.clone());
    taken.push(name.clone());
    format!("{name}.svg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_unique() {
        let mut taken = Vec::new();
        let mut name = |title: &str| file_name(title, &mut taken);
        assert_eq!(
            name("Slowdown by size, 99th percentile"),
            "slowdown-by-size-99th-percentile.svg"
        );
        assert_eq!(name("../a.b"), "a-b.svg");
        assert_eq!(name("A b"), "a-b-2.svg");
        assert_eq!(name("שלום"), "figure.svg");
    }
}
