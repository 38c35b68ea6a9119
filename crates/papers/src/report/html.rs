//! Frame and elements of a page.

use std::fmt::Write;

use super::data::Data;
use super::markup::{NONE, escaped};
use crate::plot::Plot;
use tidegate_runs::warnings::Merged;

/// Start of a page's last line.
pub(crate) const SIGNATURE: &str = "<p class=\"quiet\">tidegate ";

/// Help for plots and tables.
const HOW: &str = "<p class=\"quiet how\">In plots, drag to zoom and double-click to reset. \
    Click a legend entry to hide its line; double-click it to show only this line. Click a column \
    head to sort a table.</p>\n";

const STYLE: &str = include_str!("page/style.css");
pub(super) const LIBRARY: &str = include_str!("../../vendor/plotly/plotly-basic.min.js");
/// Starts the scripts.
pub(crate) const MAIN: &str = include_str!("page/main.js");
const SCRIPTS: [&str; 11] = [
    include_str!("page/data.js"),
    include_str!("page/address.js"),
    include_str!("page/axes.js"),
    include_str!("page/plots.js"),
    include_str!("page/save.js"),
    include_str!("page/tables.js"),
    include_str!("page/flows.js"),
    include_str!("page/fabric.js"),
    include_str!("page/sweeps.js"),
    include_str!("page/filters.js"),
    MAIN,
];

/// The complete page with `body`.
pub(crate) fn whole(title: &str, body: &str, data: &Data) -> String {
    let title = escaped(title);
    let json = data.json();
    let how = if data.plots.is_empty() && data.sweeps.is_empty() { "" } else { HOW };
    let mut html = String::with_capacity(body.len() + json.len() + LIBRARY.len() + 100_000);
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title>\n<style>\n{STYLE}</style></head>\n\
         <body><nav id=\"contents\" aria-label=\"Contents\"></nav>\n<main>\n<h1>{title}</h1>\n\
         <noscript><p>Plots need JavaScript. The script is part of this page and loads \
         nothing.</p></noscript>\n{how}{body}</main>\n\
         <script type=\"application/json\" id=\"data\">{json}</script>\n\
         <script>{LIBRARY}</script>\n<script>\n\"use strict\";\n(() => {{\n"
    );
    SCRIPTS.iter().for_each(|script| html.push_str(script));
    let _ = writeln!(
        html,
        "}})();\n</script>\n{SIGNATURE}{} ({}); plots by Plotly, MIT license</p></body></html>",
        env!("CARGO_PKG_VERSION"),
        tidegate_runs::revision::get()
    );
    html
}

/// The page of runs that go on.
pub(crate) fn live() -> String {
    let data = include_str!("page/data.js");
    let live = include_str!("page/live.js");
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>tidegate</title>\n\
         <style>\n{STYLE}</style></head>\n\
         <body><h1>Runs</h1>\n<p id=\"state\">Waiting for the state of the runs.</p>\n\
         <div class=\"plots\"><div id=\"goodput\"></div><div id=\"queue\"></div></div>\n\
         <script type=\"application/json\" id=\"data\">{{}}</script>\n\
         <script>{LIBRARY}</script>\n<script>\n\"use strict\";\n(() => {{\n{data}{live}}})();\n\
         </script></body></html>\n"
    )
}

/// A titled section, which the table of contents lists.
pub(crate) fn section(title: &str, html: &str) -> String {
    format!("<section><h2>{}</h2>\n{html}</section>\n", escaped(title))
}

/// A note in small print.
pub(crate) fn note(text: &str) -> String {
    format!("<p class=\"quiet\">{}</p>\n", escaped(text))
}

/// Maximum number of runs listed below a warning.
const EACH_MAX: usize = 100;

/// Warnings, at most `most`, each with those of single runs in a folded list. The number of others
/// follows: `And 3 MORE`.
pub(crate) fn warnings(
    all: impl ExactSizeIterator<Item = Merged>,
    most: usize,
    more: &str,
) -> String {
    let left_out = all.len().saturating_sub(most);
    let shown = all.take(most).map(|Merged { text, each }| {
        if each.is_empty() {
            return format!("<p>{}</p>\n", escaped(&text));
        }
        let others = each.len().saturating_sub(EACH_MAX);
        let item = |(place, text): &(String, String)| {
            format!("<li>{}: {}</li>\n", escaped(place), escaped(text))
        };
        let items: String = each.iter().take(EACH_MAX).map(item).collect();
        let rest =
            if others > 0 { format!("<li>And {others} more.</li>\n") } else { String::new() };
        let summary = format!("<summary>{}</summary>", escaped(&text));
        format!("<details>{summary}\n<ul>\n{items}{rest}</ul></details>\n")
    });
    let mut html: String = shown.collect();
    if left_out > 0 {
        let _ = writeln!(html, "<p>And {left_out} {}</p>", escaped(more));
    }
    if html.is_empty() { html } else { format!("<div class=\"warnings\">\n{html}</div>\n") }
}

/// A text as a warning of its own.
pub(crate) fn alone(text: &str) -> Merged {
    Merged { text: text.to_owned(), each: Vec::new() }
}

/// A row of a table: the values that filters use, and cells as HTML.
pub(crate) struct Row {
    pub(crate) protocol: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) cells: Vec<String>,
}

impl From<Vec<String>> for Row {
    fn from(cells: Vec<String>) -> Row {
        Row { protocol: None, label: None, cells }
    }
}

/// A table without its empty columns. `titles` holds each column's title, and whether it is
/// numeric.
pub(crate) fn table(titles: &[(&str, bool)], rows: impl Iterator<Item = Row>) -> String {
    let rows: Vec<Row> = rows.collect();
    let used =
        |column: &usize| rows.is_empty() || rows.iter().any(|row| row.cells[*column] != NONE);
    let columns: Vec<usize> = (0..titles.len()).filter(used).collect();
    let class = |number: bool| if number { " class=\"n\"" } else { "" };
    let mut html = String::from("<div class=\"wide\"><table><thead><tr>");
    for (title, number) in columns.iter().map(|column| titles[*column]) {
        let _ = write!(html, "<th{}>{title}</th>", class(number));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in &rows {
        html.push_str("<tr");
        for (key, value) in [("protocol", &row.protocol), ("label", &row.label)] {
            if let Some(value) = value {
                let _ = write!(html, " data-{key}=\"{}\"", escaped(value));
            }
        }
        html.push('>');
        for column in &columns {
            let _ = write!(html, "<td{}>{}</td>", class(titles[*column].1), row.cells[*column]);
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// Elements for plots, which the script draws: (name of a file, plot).
pub(crate) fn figures(
    data: &mut Data,
    plots: impl Iterator<Item = (Option<String>, Plot)>,
) -> String {
    let mut html = String::new();
    for (name, mut plot) in plots {
        let name = name.unwrap_or_else(|| plot.title.clone());
        plot.make_readable();
        let title = escaped(&plot.title);
        let number = data.plot(plot);
        let _ = write!(
            html,
            "<figure class=\"plot\" data-plot=\"{number}\" data-name=\"{}\">\
             <figcaption>{title}</figcaption></figure>",
            escaped(&name)
        );
    }
    if html.is_empty() { html } else { format!("<div class=\"plots\">{html}</div>\n") }
}
