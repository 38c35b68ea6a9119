//! One self-contained page from folders of results: tables, plots, nothing from the network and no script.

mod charts;
mod page;
pub(crate) mod plot;
mod read;

use std::path::{Path, PathBuf};

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
    let title = if names.is_empty() { "Reproduction of papers".to_owned() } else { names.join(", ") };
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
    let mut files: Vec<_> = documents.map(|(name, text)| (name.to_owned(), text.into_bytes())).collect();
    files.push(("report.html".to_owned(), page.into_bytes()));
    let pictures = result.pictures.iter();
    files.extend(pictures.map(|picture| (format!("{}.svg", picture.name), picture.svg.clone().into_bytes())));
    let records = result.records.iter();
    files.extend(records.map(|(paper, json)| (format!("{paper}.record.json"), json.clone().into_bytes())));
    files.push((read::FIGURES.to_owned(), figures));
    // Last: where it is, the others are.
    files.push((read::CLAIMS.to_owned(), claims));
    files
}

/// Writes files into a folder, each under its name only when it is complete. A folder that holds results is refused without `force`.
///
/// # Errors
/// When the folder is occupied or cannot be written.
pub fn write_files(folder: &Path, files: &[(String, Vec<u8>)], force: bool) -> Result<(), Error> {
    check_free(folder, force)?;
    let write = || {
        std::fs::create_dir_all(folder)?;
        for (name, content) in files {
            let partial = folder.join(format!(".{name}.partial"));
            std::fs::write(&partial, content)?;
            std::fs::rename(&partial, folder.join(name))?;
        }
        Ok(())
    };
    write().map_err(Error::output(folder))
}

/// Whether a reproduction may be written to `folder`.
///
/// # Errors
/// When it is no folder, or holds results and `force` is not set.
pub fn check_free(folder: &Path, force: bool) -> Result<(), Error> {
    if !force && folder.join(read::CLAIMS).exists() {
        return Err(Error::Occupied(folder.to_owned()));
    }
    crate::run::check_free(folder, force)
}
