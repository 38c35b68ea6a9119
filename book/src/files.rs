//! Pages with the text of files that documents link and that are not documents: scenarios, sources,
//! licences. A page of a folder lists its files. Browsers display HTML but may save other files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Site, up};

/// Folder of these pages below the site.
const FILES: &str = "files";

const STYLE: &str = "body { overflow-wrap: anywhere; } pre { overflow-x: auto; }";

/// The page of a file or folder, below the site.
pub(crate) fn page(target: &Path, is_folder: bool) -> PathBuf {
    let page = Path::new(FILES).join(target);
    if is_folder {
        page.join("index.html")
    } else if is_markdown(target) {
        // mdBook converts `.md` in links to `.html`, also if more follows.
        page.with_extension("html")
    } else {
        page.with_added_extension("html")
    }
}

pub(crate) fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Writes a page for each carried file and folder, and for the files in these folders.
pub(crate) fn write(site: &mut Site<'_>, out: &Path) -> io::Result<()> {
    let folders: Vec<PathBuf> =
        site.carried.iter().filter(|path| site.root.join(path).is_dir()).cloned().collect();
    for folder in folders {
        let page = page(&folder, true);
        let mut list = String::new();
        for file in texts(site.root, &folder)? {
            let Some(place) = site.place(&file) else { continue };
            // mdBook converts only links of its own pages.
            let place = if is_markdown(&place) { place.with_extension("html") } else { place };
            let name = file.strip_prefix(&folder).unwrap_or(&file);
            list += &format!(
                "<li><a href=\"{}{}\">{}</a></li>\n",
                up(&page),
                escaped(&place.display().to_string()),
                escaped(&name.display().to_string())
            );
        }
        write_page(out, &folder, &page, &format!("<ul>\n{list}</ul>"))?;
    }
    let is_file = |path: &&PathBuf| site.root.join(path).is_file();
    for file in site.carried.iter().filter(is_file) {
        let text = String::from_utf8_lossy(&fs::read(site.root.join(file))?).into_owned();
        write_page(out, file, &page(file, false), &format!("<pre>{}</pre>", escaped(&text)))?;
    }
    Ok(())
}

/// The text files in a folder and its subfolders that git tracks, in order of their names. Others,
/// such as results of runs and of builds, are not part of the repository.
fn texts(root: &Path, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut list = Command::new("git");
    list.arg("-C").arg(root).args(["ls-files", "-z", "--"]).arg(folder);
    let listed = list.output()?;
    if !listed.status.success() {
        let why = String::from_utf8_lossy(&listed.stderr).into_owned();
        return Err(io::Error::other(format!("git ls-files {}: {why}", folder.display())));
    }
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let files = names.split_terminator('\0').map(PathBuf::from);
    Ok(files.filter(|file| fs::read_to_string(root.join(file)).is_ok()).collect())
}

fn write_page(out: &Path, target: &Path, page: &Path, content: &str) -> io::Result<()> {
    let path = out.join(page);
    fs::create_dir_all(path.parent().unwrap_or(out))?;
    let name = escaped(&target.display().to_string());
    let html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{name}</title>\n\
         <style>{STYLE}</style></head>\n\
         <body><p><a href=\"{}index.html\">tidegate</a></p>\n<h1>{name}</h1>\n\
         {content}\n</body></html>\n",
        up(page)
    );
    fs::write(path, html)
}

/// Text that is safe between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
