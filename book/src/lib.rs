//! Builds a site from the documents, with mdBook.
//!
//! `docs/SUMMARY.md` lists the pages, including files of the repository's root. Links that mdBook
//! does not convert and that would be broken on the site are fixed here: links to a file of the
//! root lead to its page, links to code and scenarios become plain text.

use std::collections::BTreeMap;
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
/// # Errors If a page of the summary cannot be read, or the site cannot be written.
pub fn build(root: &Path, out: &Path) -> Result<()> {
    let mut book = MDBook::load(root.join(DOCS))?;
    book.config.build.build_dir = std::path::absolute(out)?;
    let mut pages = BTreeMap::new();
    book.book.for_each_chapter_mut(|chapter| {
        let Some(listed) = &chapter.path else { return };
        let source = normal(&Path::new(DOCS).join(listed));
        let page = source.strip_prefix(DOCS).unwrap_or(&source).to_owned();
        chapter.path = Some(page.clone());
        pages.insert(source, page);
    });
    let site = Site { root, pages };
    book.book.for_each_chapter_mut(|chapter| {
        let from = site.pages.iter().find(|(_, page)| Some(*page) == chapter.path.as_ref());
        if let Some((source, page)) = from {
            chapter.content = site.relinked(&chapter.content, source, page);
        }
    });
    Ok(book.build()?)
}

struct Site<'a> {
    root: &'a Path,
    /// Maps a file below the root to its page below the site.
    pages: BTreeMap<PathBuf, PathBuf>,
}

impl Site<'_> {
    /// Converts the text of the file `source` for `page`: links lead to their target on the site,
    /// or are replaced by their label.
    fn relinked(&self, text: &str, source: &Path, page: &Path) -> String {
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
            out += &match self.place(&target) {
                Some(place) => {
                    let up = "../".repeat(page.components().count() - 1);
                    let link = format!("{up}{}{anchor}", place.display());
                    let before = whole.rfind(&destination).unwrap_or(whole.len());
                    format!("{}{link}{}", &whole[..before], &whole[before + destination.len()..])
                }
                None => label(whole).to_owned(),
            };
        }
        out + &text[done..]
    }

    /// The place of a file below the root on the site, if any.
    fn place(&self, target: &Path) -> Option<PathBuf> {
        let page = self.pages.get(target).cloned();
        // mdBook copies all files beside the pages, except Markdown files that are not pages.
        let is_text = target.extension().is_some_and(|extension| extension == "md");
        page.or_else(|| {
            let beside = target.strip_prefix(DOCS).ok().filter(|_| !is_text)?;
            self.root.join(target).is_file().then(|| beside.to_owned())
        })
    }
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

/// The label of a link.
fn label(link: &str) -> &str {
    let end = link.rfind("](").unwrap_or(link.len());
    link[..end].trim_start_matches('!').trim_start_matches('[')
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
    use super::*;

    #[test]
    fn relinked_to_pages_or_plain_text() {
        let page = |source: &str, page: &str| (PathBuf::from(source), PathBuf::from(page));
        let site = Site {
            root: Path::new("/nowhere"),
            pages: [page("README.md", "README.md"), page("docs/a/b.md", "a/b.md")].into(),
        };
        let relinked = |text| site.relinked(text, Path::new("docs/a/b.md"), Path::new("a/b.md"));
        let cases = [
            ("See [the start](../../README.md#x).", "See [the start](../README.md#x)."),
            ("[`code`](../../crates/core) and on", "`code` and on"),
            ("[out](https://example.org/a) `[x](y)` [here](#below)", ""),
            ("|a|\n|-|\n|[b](b.md)|\n", "|a|\n|-|\n|[b](../a/b.md)|\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(relinked(text), if expected.is_empty() { text } else { expected });
        }
        let start =
            site.relinked("[b](docs/a/b.md)", Path::new("README.md"), Path::new("README.md"));
        assert_eq!(start, "[b](a/b.md)");
    }
}
