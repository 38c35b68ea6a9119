//! Text as HTML.

use std::borrow::Cow;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

/// Text in place of a missing value.
pub(crate) const NONE: &str = "–";

/// Text that is safe between tags.
pub(crate) fn escaped(text: &str) -> String {
    let text = isolated(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Isolates a text that runs from right to left, or changes the direction of the following text, by
/// directional marks. The marks work in pages, pictures and titles.
pub(crate) fn isolated(text: &str) -> Cow<'_, str> {
    let marks = |c: char| {
        matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}')
    };
    let runs_left = |c: char| {
        matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
            | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
    };
    if !text.contains(|c| marks(c) || runs_left(c)) {
        return Cow::Borrowed(text);
    }
    // Marks inside the text could end the isolation.
    Cow::Owned(format!("\u{2068}{}\u{2069}", text.replace(marks, "\u{fffd}")))
}

/// Markdown as HTML. A link becomes its text, because its target is not in the page. Tags are shown
/// as text.
pub(crate) fn marked_up(text: &str) -> String {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
            Some(Event::Text(isolated(&text).into_owned().into()))
        }
        Event::Code(text) => Some(Event::Code(isolated(&text).into_owned().into())),
        Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::HtmlBlock)
        | Event::End(TagEnd::Link | TagEnd::Image | TagEnd::HtmlBlock) => None,
        other => Some(other),
    });
    let mut page = String::with_capacity(text.len() * 5 / 4);
    html::push_html(&mut page, events);
    page
}

/// Markdown for a table cell: a single paragraph has no tags.
pub(crate) fn marked_up_line(text: &str) -> String {
    let html = marked_up(text);
    let html = html.trim_end();
    let inner = html.strip_prefix("<p>").and_then(|rest| rest.strip_suffix("</p>"));
    inner.filter(|inner| !inner.contains("<p>")).unwrap_or(html).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_emphasis_and_code_are_marked_up() {
        assert_eq!(
            marked_up("List:\n* one\n  more\n* [two](x.md)\n\nEnd * of *it*, in `code`."),
            "<p>List:</p>\n<ul>\n<li>one\nmore</li>\n<li>two</li>\n</ul>\n\
             <p>End * of <em>it</em>, in <code>code</code>.</p>\n"
        );
        assert_eq!(marked_up_line("within *a* tenth"), "within <em>a</em> tenth");
        assert_eq!(marked_up_line("one\n\ntwo"), "<p>one</p>\n<p>two</p>");
    }

    #[test]
    fn text_creates_no_tags_or_links() {
        for text in
            ["<script>no()</script>", "a <b>c</b> <img src=x onerror=no()>", "<div>\n<p>x\n</div>"]
        {
            let html = marked_up(text);
            let safe = html.replace("<p>", "").replace("</p>", "");
            assert!(!safe.contains('<') && safe.contains("&lt;"), "{html}");
        }
        let linked = marked_up("[words](javascript:no()) ![picture](http://x/y.png) <http://z>");
        assert!(!linked.contains("href") && !linked.contains("src"), "{linked}");
        assert!(linked.contains("words") && linked.contains("picture"), "{linked}");
        // Text that changes the writing direction is isolated.
        assert!(marked_up("a \u{202e}b").contains('\u{2068}'));
    }
}
