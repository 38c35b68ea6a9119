//! Markdown in a page.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

use super::plot::isolated;

/// A text as HTML. Links keep their words alone, for what they point at is not in the page, and
/// tags are shown as they are written.
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

/// The same for a cell of a table: one paragraph stands without its tags.
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
            marked_up("Said:\n* one\n  more\n* [two](x.md)\n\nEnd * of *it*, in `code`."),
            "<p>Said:</p>\n<ul>\n<li>one\nmore</li>\n<li>two</li>\n</ul>\n\
             <p>End * of <em>it</em>, in <code>code</code>.</p>\n"
        );
        assert_eq!(marked_up_line("within *a* tenth"), "within <em>a</em> tenth");
        assert_eq!(marked_up_line("one\n\ntwo"), "<p>one</p>\n<p>two</p>");
    }

    #[test]
    fn nothing_of_a_text_becomes_a_tag_or_a_link() {
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
        // What turns the direction of text keeps to itself.
        assert!(marked_up("a \u{202e}b").contains('\u{2068}'));
    }
}
