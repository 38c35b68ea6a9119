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
    for (claims, pictures) in &reproductions {
        body.push_str(&page::reproduction(claims, pictures));
    }
    Ok(page::whole(&title, &body))
}

/// Files of a reproduction: (name, content).
pub fn reproduction_files(result: &Reproduction) -> Vec<(String, Vec<u8>)> {
    let mut json = Vec::new();
    tidegate_results::write_json(&result.claims, &mut json).expect("memory can be written");
    let pictures: Vec<(String, String)> =
        result.pictures.iter().map(|picture| (picture.name.clone(), picture.svg.clone())).collect();
    let page = page::whole("Reproduction of papers", &page::reproduction(&result.claims, &pictures));
    let documents = result.documents().into_iter();
    let mut files: Vec<_> = documents.map(|(name, text)| (name.to_owned(), text.into_bytes())).collect();
    files.push(("report.html".to_owned(), page.into_bytes()));
    files.extend(pictures.into_iter().map(|(name, svg)| (format!("{name}.svg"), svg.into_bytes())));
    // Last: where it is, the others are.
    files.push((read::CLAIMS.to_owned(), json));
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
