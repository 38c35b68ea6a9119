//! One self-contained page from folders of results: tables, and plots that its script draws. The
//! page loads nothing.
//!
//! Plots are data (`plot`, `fabric`, `data`). `charts`, `over_time`, `over_keys` and `choice` build
//! them from the results (`read`, `flows`, `series`, `means`), and the page embeds them as JSON.
//! Text and tables are HTML (`page`, `sweeps`, `claims`). The script (`page/*.js`) draws the plots
//! and adds interaction to both.

mod charts;
mod choice;
mod claims;
mod configurations;
mod data;
mod differences;
mod fabric;
mod figures;
mod files;
mod flows;
mod html;
mod jobs;
mod live;
mod markup;
mod means;
mod over_keys;
mod over_time;
mod page;
mod read;
mod series;
mod sweeps;
mod titles;
mod workload;

pub(crate) use figures::drawing_hash;
pub use figures::{FigureScheme, FigureWidth, write_pdf, write_svg};
pub(crate) use files::is_archive;
pub use live::{live_page, live_state};
pub use workload::{completions_page, workload_page};

use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate_results::Partial;

use crate::reproduce::Reproduction;
use data::Data;
use means::Means;
use read::Run;
pub(crate) use read::{Found, NO_RESULTS, RESULTS_EXPECTED, reproduction as read_reproduction};
use tidegate_runs::Error;
use tidegate_runs::destination::{CLAIMS, FIGURES, PLOTS};

/// Maximum number of configurations drawn: more cannot be distinguished.
const DRAWN_MAX: usize = 16;

/// A page about the results in `folders`: runs, comparisons, sweeps and reproductions.
///
/// `warn` receives the files and folders that are missing; the page lists them, too.
///
/// # Errors
/// When a folder holds no results, or the results cannot be read.
pub fn report(folders: &[PathBuf], warn: &dyn Fn(&str)) -> Result<String, Error> {
    let (mut runs, mut all_means, mut reproductions) = (Vec::new(), Vec::new(), Vec::new());
    let (mut warnings, mut lacking) = (Vec::new(), Vec::new());
    for folder in folders {
        if folder.exists() && !folder.is_dir() {
            let path = folder.display();
            let message = format!(
                "{path} is a file, and a report is made from folders of results: name the folder \
                 that `tidegate run {path} --out FOLDER` writes"
            );
            let message = match folder.extension() {
                Some(ending) if ending == "toml" => message,
                _ if is_archive(folder) => format!(
                    "{path} is an archive, and a report is made from folders of results: unpack \
                     it, for example with `unzip {path} -d FOLDER`, and name FOLDER/results"
                ),
                _ => format!(
                    "{path} is not a folder, and a report is made from folders of results: name \
                     a folder that --out has written"
                ),
            };
            return Err(Error::Usage { option: "report", message });
        }
        if let Some(reproduction) = read::reproduction(folder)? {
            reproductions.push(reproduction);
        } else if let Some(mut means) = Means::read(folder)? {
            let (there, missing) = means.folders(folder);
            lacking.extend(missing);
            for below in there {
                runs.extend(read::runs(&below, &mut lacking)?);
            }
            // Warnings of the runs appear in the section of the runs.
            let own = || runs.iter().flat_map(|run| &run.summary.warnings);
            means.warnings.retain(|text| !own().any(|own| text.ends_with(own.as_str())));
            all_means.push(means);
        } else {
            runs.extend(read::runs(folder, &mut lacking)?);
            warnings.extend(read::warnings_of_comparison(folder)?);
        }
    }
    lacking.extend(runs.iter().flat_map(Run::missing_files));
    for path in lacking {
        let warning = format!("{} is missing: the page lacks its content", path.display());
        warn(&warning);
        warnings.push(warning);
    }
    titles::name_apart(&mut runs);
    let mut names: Vec<&str> = Vec::new();
    let of_means = all_means.iter().map(|means| means.name.as_str());
    for name in of_means.chain(runs.iter().map(|run| run.summary.name.as_str())) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let title =
        if names.is_empty() { "Reproduction of papers".to_owned() } else { names.join(", ") };
    let groups = configurations::grouped(&runs);
    for group in groups.iter().take(DRAWN_MAX) {
        for (i, &run) in group.iter().enumerate() {
            runs[run].load(i == 0)?;
        }
    }
    let all = configurations::configurations(&runs, &groups);
    let drawn = &all[..all.len().min(DRAWN_MAX)];
    let mut data = Data::of(drawn);
    let mut body = sweeps::sections(&all_means, &mut data);
    if !runs.is_empty() {
        body.push_str(&page::runs(&runs, (&all, drawn), &warnings, &mut data));
    }
    for found in &reproductions {
        let Found { claims, papers, pictures } = found;
        body.push_str(&claims::reproduction(claims, papers, pictures, &mut data));
    }
    Ok(page(&title, &body, data))
}

/// The complete page, with a note if lines were thinned.
fn page(title: &str, body: &str, mut data: Data) -> String {
    data.thin();
    if data.thinned {
        let text = "Long lines over time are thinned: a point is the mean of its neighbours. The \
                    folders hold all points.";
        return html::whole(title, &format!("{body}{}", html::note(text)), &data);
    }
    html::whole(title, body, &data)
}

/// Files of a reproduction: (name, content).
pub fn reproduction_files(result: &Reproduction) -> Vec<(String, Vec<u8>)> {
    let (mut claims, mut figures) = (Vec::new(), Vec::new());
    tidegate_results::write_json(&result.claims, &mut claims).expect("memory can be written");
    tidegate_results::write_json(&result.papers, &mut figures).expect("memory can be written");
    let plots: Vec<_> =
        result.pictures.iter().map(|picture| (&picture.name, &picture.plot)).collect();
    let plots = serde_json::to_vec(&plots).expect("every key is a string");
    let mut data = Data::default();
    let body = claims::reproduction(&result.claims, &result.papers, &result.pictures, &mut data);
    let page = page("Reproduction of papers", &body, data);
    let documents = result.documents().into_iter();
    let mut files: Vec<_> =
        documents.map(|(name, text)| (name.to_owned(), text.into_bytes())).collect();
    files.push(("report.html".to_owned(), page.into_bytes()));
    let records = result.records.iter();
    files.extend(
        records.map(|kept| (format!("{}.record.json", kept.paper), kept.json.clone().into_bytes())),
    );
    files.push((PLOTS.to_owned(), plots));
    files.push((FIGURES.to_owned(), figures));
    // Last: its presence shows that the others are complete.
    files.push((CLAIMS.to_owned(), claims));
    files
}

/// Writes the page `html` to `path`, completely or not at all.
///
/// # Errors
/// When the file exists and is not a report of tidegate, or cannot be written.
pub fn write_report(path: &Path, html: &str) -> Result<(), Error> {
    if path.exists() && !is_ours(path) {
        let message = format!(
            "{} exists and is not a report of tidegate; choose another file",
            path.display()
        );
        return Err(Error::Usage { option: "--out", message });
    }
    let mut partial = Partial::new(path.to_owned()).map_err(Error::cannot_open(path))?;
    let write = move || {
        partial.write_all(html.as_bytes())?;
        partial.publish()
    };
    write().map_err(Error::output(path))
}

/// Whether a file is a page of tidegate: it ends with the signature line.
fn is_ours(path: &Path) -> bool {
    let page = tidegate_scenario::files::read(path, u64::MAX).unwrap_or_default();
    let end = String::from_utf8_lossy(&page[page.len().saturating_sub(300)..]).into_owned();
    end.contains(html::SIGNATURE)
}
