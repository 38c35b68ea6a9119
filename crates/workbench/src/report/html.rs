//! The page around what it says, and its parts.

use std::fmt::Write;

use super::data::Data;
use super::markup::escaped;
use super::plot::Plot;

/// What the last line of a page begins with.
pub(crate) const SIGNATURE: &str = "<p class=\"quiet\">tidegate ";

/// What stands in a cell without a value.
pub(crate) const NONE: &str = "–";

/// How plots are explored.
const HOW: &str = "<p class=\"quiet how\">In plots: drag to zoom, double-click to go back. Click a \
    name in a legend to hide its line, double-click it to see it alone. Tables are sorted by a \
    click on a head.</p>\n";

const STYLE: &str = include_str!("page/style.css");
const LIBRARY: &str = include_str!("../../vendor/plotly/plotly-basic.min.js");
/// Begins everything.
pub(crate) const MAIN: &str = include_str!("page/main.js");
const SCRIPTS: [&str; 8] = [
    include_str!("page/data.js"),
    include_str!("page/plots.js"),
    include_str!("page/tables.js"),
    include_str!("page/flows.js"),
    include_str!("page/fabric.js"),
    include_str!("page/sweeps.js"),
    include_str!("page/filters.js"),
    MAIN,
];

/// The page around `body`.
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
         <noscript><p>Plots are drawn by a script, which is in this page and asks nobody \
         else.</p></noscript>\n{how}{body}</main>\n\
         <script type=\"application/json\" id=\"data\">{json}</script>\n\
         <script>{LIBRARY}</script>\n<script>\n\"use strict\";\n(() => {{\n"
    );
    SCRIPTS.iter().for_each(|script| html.push_str(script));
    let _ = writeln!(
        html,
        "}})();\n</script>\n{SIGNATURE}{} ({}); plots by Plotly, MIT license</p></body></html>",
        env!("CARGO_PKG_VERSION"),
        crate::revision::get()
    );
    html
}

/// Something under a title, which the bar of contents names.
pub(crate) fn section(title: &str, html: &str) -> String {
    format!("<section><h2>{}</h2>\n{html}</section>\n", escaped(title))
}

/// A quiet remark.
pub(crate) fn note(text: &str) -> String {
    format!("<p class=\"quiet\">{}</p>\n", escaped(text))
}

/// Remarks, a paragraph each; of more than `most` the others are counted: `And 3 MORE`.
pub(crate) fn notes(all: &[String], most: usize, more: &str) -> String {
    let left_out = all.len().saturating_sub(most);
    let told = all.iter().take(most).map(|text| note(text));
    let rest = (left_out > 0).then(|| note(&format!("And {left_out} {more}")));
    told.chain(rest).collect()
}

/// A row of a table: what filters go by, and cells as HTML.
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

/// A table, without the columns in which no row has anything. Columns are titles, with whether
/// they have numbers.
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

/// Places for plots, which the script draws: (name of a file, plot).
pub(crate) fn figures(
    data: &mut Data,
    plots: impl Iterator<Item = (Option<String>, Plot)>,
) -> String {
    let mut html = String::new();
    for (name, plot) in plots {
        let name = name.unwrap_or_else(|| plot.title.clone());
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
