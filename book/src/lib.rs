//! Builds a site from the documents, with mdBook.
//!
//! `docs/SUMMARY.md` lists the pages, including files of the repository's root. Links that mdBook
//! does not convert and that would be broken on the site are fixed here: links to a file of the
//! root lead to its page. Links to scenarios, sources and folders lead to pages with their text,
//! which the site carries, so that it is complete without a network.

mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use mdbook_driver::MDBook;
use mdbook_markdown::pulldown_cmark::{Event, Tag};
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};

/// Result with errors of mdBook, which name the file.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Folder of the documents below the repository's root.
const DOCS: &str = "docs";

/// Builds the site of the repository at `root` in the folder `out`, whose contents are replaced.
///
/// # Errors
/// If a page of the summary cannot be read, a link leads to no file, git does not list the files of
/// a linked folder, or the site cannot be written.
pub fn build(root: &Path, out: &Path) -> Result<()> {
    let mut book = MDBook::load(root.join(DOCS))?;
    book.config.build.build_dir = std::path::absolute(out)?;
    let mut pages = BTreeMap::new();
    book.book.for_each_chapter_mut(|chapter| {
        let Some(listed) = &chapter.path else { return };
        let source = normal(&Path::new(DOCS).join(listed));
        let page = source.strip_prefix(DOCS).unwrap_or(&source).to_owned();
        chapter.path = Some(page.clone());
        pages.insert(page, source);
    });
    let mut site = Site::new(root, &pages);
    let mut broken = Vec::new();
    book.book.for_each_chapter_mut(|chapter| {
        let Some((page, source)) = chapter.path.as_ref().and_then(|page| pages.get_key_value(page))
        else {
            return;
        };
        match site.relinked(&chapter.content, source, page) {
            Ok(text) => chapter.content = text,
            Err(why) => broken.push(why),
        }
    });
    if !broken.is_empty() {
        return Err(broken.join("\n").into());
    }
    book.build()?;
    Ok(files::write(&mut site, out)?)
}

struct Site<'a> {
    root: &'a Path,
    /// Maps a file below the root to its page below the site.
    pages: BTreeMap<PathBuf, PathBuf>,
    /// Files and folders below the root whose text the site carries.
    carried: BTreeSet<PathBuf>,
}

impl Site<'_> {
    /// A site whose pages have these sources.
    fn new<'a>(root: &'a Path, sources: &BTreeMap<PathBuf, PathBuf>) -> Site<'a> {
        let pages = sources.iter().map(|(page, source)| (source.clone(), page.clone())).collect();
        Site { root, pages, carried: BTreeSet::new() }
    }

    /// Converts the text of the file `source` for `page`: links lead to their target on the site.
    fn relinked(
        &mut self,
        text: &str,
        source: &Path,
        page: &Path,
    ) -> std::result::Result<String, String> {
        let mut out = String::new();
        let mut done = 0;
        for (destination, at) in links(text) {
            if at.start < done {
                continue;
            }
            out += &text[done..at.start];
            done = at.end;
            let whole = &text[at];
            let (path, anchor) =
                destination.split_at(destination.find('#').unwrap_or(destination.len()));
            let target = normal(&source.parent().unwrap_or(Path::new("")).join(path));
            let place = self.place(&target).ok_or_else(|| {
                format!("{}: the link {destination} leads to no file", source.display())
            })?;
            let link = format!("{}{}{anchor}", up(page), place.display());
            let before = whole.rfind(&destination).unwrap_or(whole.len());
            out += &format!("{}{link}{}", &whole[..before], &whole[before + destination.len()..]);
        }
        Ok(out + &text[done..])
    }

    /// The place on the site of a file or folder below the root, if it exists.
    fn place(&mut self, target: &Path) -> Option<PathBuf> {
        if let Some(page) = self.pages.get(target) {
            return Some(page.clone());
        }
        let source = self.root.join(target);
        // mdBook copies all files beside the pages, except Markdown files that are not pages.
        if let Ok(beside) = target.strip_prefix(DOCS)
            && source.is_file()
            && !files::is_markdown(target)
        {
            return Some(beside.to_owned());
        }
        let place = files::page(target, source.is_dir());
        source.exists().then(|| {
            self.carried.insert(target.to_owned());
            place
        })
    }
}

/// The relative link from a page to the root of the site.
fn up(page: &Path) -> String {
    "../".repeat(page.components().count() - 1)
}

/// Links and pictures of a text that lead to files: destination and position.
fn links(text: &str) -> Vec<(String, Range<usize>)> {
    let parser = new_cmark_parser(text, &MarkdownOptions::default());
    let found = parser.into_offset_iter().filter_map(|(event, at)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some((dest_url.into_string(), at))
        }
        _ => None,
    });
    let is_file = |link: &String| !link.starts_with('#') && !link.contains(':');
    found.filter(|(link, _)| is_file(link)).collect()
}

/// Removes `.` and `..` from a path.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn relinked_to_pages_and_carried_files() {
        let place = tempfile::tempdir().unwrap();
        for folder in ["docs/a", "crates/core"] {
            std::fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        for file in ["LICENSE", "crates/core/lib.rs", "docs/a/data.json"] {
            std::fs::write(place.path().join(file), "1 < 2").unwrap();
        }
        let page = |page: &str, source: &str| (PathBuf::from(page), PathBuf::from(source));
        let sources = [page("README.md", "README.md"), page("a/b.md", "docs/a/b.md")].into();
        let mut site = Site::new(place.path(), &sources);
        let mut relinked =
            |text| site.relinked(text, Path::new("docs/a/b.md"), Path::new("a/b.md"));
        let cases = [
            ("See [the start](../../README.md#x).", "See [the start](../README.md#x)."),
            ("[`code`](../../crates/core) on", "[`code`](../files/crates/core/index.html) on"),
            ("[text](../../LICENSE)", "[text](../files/LICENSE.html)"),
            ("[data](data.json)", "[data](../a/data.json)"),
            ("[out](https://example.org/a) `[x](y)` [here](#below)", ""),
            ("|a|\n|-|\n|[b](b.md)|\n", "|a|\n|-|\n|[b](../a/b.md)|\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(relinked(text).unwrap(), if expected.is_empty() { text } else { expected });
        }
        let none = relinked("[none](../../crates/none.rs)").unwrap_err();
        assert!(none.contains("docs/a/b.md") && none.contains("crates/none.rs"), "{none}");
        let start =
            site.relinked("[b](docs/a/b.md)", Path::new("README.md"), Path::new("README.md"));
        assert_eq!(start.unwrap(), "[b](a/b.md)");

        for arguments in [&["init", "--quiet"][..], &["add", "."]] {
            let git = Command::new("git").arg("-C").arg(place.path()).args(arguments).status();
            assert!(git.unwrap().success());
        }
        std::fs::write(place.path().join("crates/core/untracked.rs"), "").unwrap();
        files::write(&mut site, &place.path().join("site")).unwrap();
        let read = |name: &str| std::fs::read_to_string(place.path().join("site/files").join(name));
        assert!(read("LICENSE.html").unwrap().contains("1 &lt; 2"));
        let folder = read("crates/core/index.html").unwrap();
        assert!(folder.contains("href=\"../../../files/crates/core/lib.rs.html\""), "{folder}");
        assert!(read("crates/core/lib.rs.html").is_ok());
        assert!(!folder.contains("untracked"), "{folder}");
    }
}
