//! One self-contained page from folders of results: tables, plots, nothing from the network and no
//! script.

mod charts;
mod differences;
mod markup;
mod page;
pub(crate) mod plot;
mod read;

pub(crate) use read::files_of_reproduction;

use std::io::Write;
use std::path::{Path, PathBuf};

use tidegate_results::Partial;

use crate::Error;
use crate::reproduce::Reproduction;

/// A page about the results in `folders`: of runs, comparisons and reproductions.
///
/// # Errors
/// When a folder holds no results, or they cannot be read.
pub fn report(folders: &[PathBuf]) -> Result<String, Error> {
    let mut runs = Vec::new();
    let mut reproductions = Vec::new();
    for folder in folders {
        if let Some(reproduction) = read::reproduction(folder)? {
            reproductions.push(reproduction);
        } else {
            runs.extend(read::runs(folder)?);
        }
    }
    read::name_apart(&mut runs);
    let mut names: Vec<&str> = Vec::new();
    for run in &runs {
        if !names.contains(&run.summary.name.as_str()) {
            names.push(&run.summary.name);
        }
    }
    let title =
        if names.is_empty() { "Reproduction of papers".to_owned() } else { names.join(", ") };
    let mut body = String::new();
    if !runs.is_empty() {
        body.push_str(&page::runs(&runs));
    }
    for found in &reproductions {
        body.push_str(&page::reproduction(&found.claims, &found.papers, &found.pictures));
    }
    Ok(page::whole(&title, &body))
}

/// Files of a reproduction: (name, content).
pub fn reproduction_files(result: &Reproduction) -> Vec<(String, Vec<u8>)> {
    let (mut claims, mut figures) = (Vec::new(), Vec::new());
    tidegate_results::write_json(&result.claims, &mut claims).expect("memory can be written");
    tidegate_results::write_json(&result.papers, &mut figures).expect("memory can be written");
    let body = page::reproduction(&result.claims, &result.papers, &result.pictures);
    let page = page::whole("Reproduction of papers", &body);
    let documents = result.documents().into_iter();
    let mut files: Vec<_> =
        documents.map(|(name, text)| (name.to_owned(), text.into_bytes())).collect();
    files.push(("report.html".to_owned(), page.into_bytes()));
    let pictures = result.pictures.iter();
    files.extend(
        pictures.map(|picture| (format!("{}.svg", picture.name), picture.svg.clone().into_bytes())),
    );
    let records = result.records.iter();
    files.extend(
        records.map(|kept| (format!("{}.record.json", kept.paper), kept.json.clone().into_bytes())),
    );
    files.push((read::FIGURES.to_owned(), figures));
    // Last: where it is, the others are.
    files.push((read::CLAIMS.to_owned(), claims));
    files
}

/// Writes the page `html` to `path`, which has it whole or not at all.
///
/// # Errors
/// When it is there and no report of ours, or cannot be written.
pub fn write_report(path: &Path, html: &str) -> Result<(), Error> {
    if path.exists() && !is_ours(path) {
        let message =
            format!("{} is there and is no report of tidegate; name another file", path.display());
        return Err(Error::Usage { option: "--out", message });
    }
    let mut partial = Partial::new(path.to_owned()).map_err(Error::cannot_open(path))?;
    let write = move || {
        partial.write_all(html.as_bytes())?;
        partial.publish()
    };
    write().map_err(Error::output(path))
}

/// Whether a file is a page that we wrote: it ends with our line.
fn is_ours(path: &Path) -> bool {
    let page = tidegate_scenario::files::read(path, u64::MAX).unwrap_or_default();
    let end = String::from_utf8_lossy(&page[page.len().saturating_sub(300)..]).into_owned();
    end.contains(page::SIGNATURE)
}
