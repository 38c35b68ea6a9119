//! The pages of protocols: description, figures, shares against other protocols, parameters.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::pictures::{FIGURES, figures};
use super::{document, is_current, root, text};
use crate::common::answer;

/// Scenarios that the pages show: a standard one, and one for protocols that need circuits.
const STEPS: &str = "Four flows to one receiver start 0.5 ms after each other. At 2.25 ms, 16 \
    messages of 64 KB arrive at once, and from 3 ms on, flows end. All links have 100 Gbit/s, the \
    base RTT is 17 us, and all parameters have their defaults \
    ([scenario](../../scenarios/demo/steps.toml)).";
const CIRCUITS: &str = "Four flows cross from one rack to another. For 180 us of each 600 us, a \
    circuit of 80 Gbit/s connects the racks; the packet network has 10 Gbit/s. All parameters have \
    their defaults ([scenario](../../scenarios/demo/circuits.toml)).";

/// The figures of a protocol.
fn behaviour(protocol: &Value) -> String {
    let [name, title] = ["name", "title"].map(|key| text(protocol, key));
    let on_circuits = list(&protocol["needs"]).contains("circuit");
    let scenario = if on_circuits { CIRCUITS } else { STEPS };
    let mut out = format!("\n## Behaviour\n\n{scenario}\n");
    let images: Vec<String> = figures(name)
        .into_iter()
        .map(|(kind, file)| format!("![{kind} over time under {title}](figures/{file})"))
        .collect();
    out += &format!("\n{}\n", images.join("\n"));
    if images.len() < FIGURES.len() {
        out += "\nNo window limits the flows: goodput shows the rates that senders set or \
            receivers grant.\n";
    }
    out
}

/// The cells of the first table in a text, by row.
fn table(text: &str) -> Vec<Vec<&str>> {
    let cells = |line| str::trim_matches(line, '|').split('|').map(str::trim).collect();
    let lines = text.lines().skip_while(|line| !line.starts_with('|'));
    lines.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// The table of shares from a section of a reproduction page: names of the other protocols, and
/// goodput beside them. `None`: the section has no shares of this protocol.
fn shares(name: &str, section: &str) -> Option<[Vec<String>; 2]> {
    let owned = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect();
    if let Some((_, beside)) = section.split_once("Goodput of the four flows of Tide or SIRD, in") {
        let mut rows = table(beside).into_iter();
        let column = rows.next()?.iter().position(|&cell| cell == name)?;
        let rows = rows.skip(1).map(|row| [row[0], row[column]].map(str::to_owned));
        let (others, values) = rows.map(|[other, value]| (other, value)).unzip();
        return Some([others, values]);
    }
    let rows = table(section);
    let row = rows.iter().find(|row| row[0] == name)?;
    Some([owned(&rows[0][1..]), owned(&row[1..])])
}

/// The goodput of a protocol beside each of the others, or the reason why there is none.
fn coexistence(protocol: &Value) -> String {
    let name = text(protocol, "name");
    // Tide's page has the shares of Tide; the matrix was measured before.
    let (paper, figure) = if name == "tide" { ("tide", "one-link") } else { ("beyond", "mixes") };
    let page = document(&format!("docs/papers/{paper}/reproduction.md"));
    let (_, section) = page.split_once(&format!("### Figure {figure}:")).expect("the figure");
    let section = section.split("\n### ").next().expect("a section");
    let Some([others, values]) = shares(name, section) else {
        let why = match name {
            "dctcp-rate" => ": DCTCP stands for both of its forms there",
            "open-loop" => ": it does not react to congestion",
            "retcp" => ": it is made for [circuits](../papers/etalon/reproduction.md)",
            _ if list(&protocol["needs"]).contains("trimming") => {
                ": it needs switches that trim packets, and is compared on \
                 [fabrics that have them](../ultra-ethernet.md)"
            }
            _ => panic!("{name}: why is it not in the matrix?"),
        };
        return format!(
            "\n## Coexistence\n\nIt is not in the [matrix of shares beside \
             others](../papers/beyond/reproduction.md){why}.\n"
        );
    };
    let banner = page.split_once("**Partly outdated.**").map_or("", |(_, rest)| rest);
    let outdated = if banner.split("\n\n").next().is_some_and(|names| names.contains(figure)) {
        " These values are outdated."
    } else {
        ""
    };
    format!(
        "\n## Coexistence\n\nGoodput of four flows that share a link with four of \
         another protocol, in per cent of half of the link: 100 is fair \
         ([all shares](../papers/{paper}/reproduction.md)).{outdated}\n\n\
         | against | {} |\n|---|{}\n| {name} | {} |\n",
        others.join(" | "),
        "--:|".repeat(others.len()),
        values.join(" | ")
    )
}

fn protocol_table(protocols: &[Value]) -> String {
    let bytes = |value: &Value| match (value["fixed"].as_u64(), value["per_hop"].as_u64()) {
        (Some(0), Some(0)) => "-".to_string(),
        (Some(fixed), Some(0)) => format!("{fixed} B"),
        (Some(0), Some(hop)) => format!("{hop} B per switch"),
        (fixed, hop) => format!("{} B + {} B per switch", fixed.unwrap_or(0), hop.unwrap_or(0)),
    };
    let or_dash = |text: String| if text.is_empty() { "-".to_string() } else { text };
    let mut out = "\n| protocol | family | switch requirements | in data | in acks | description \
        |\n| --- | --- | --- | --- | --- | --- |\n"
        .to_string();
    for protocol in protocols {
        out += &format!(
            "| [{0}](protocols/{0}.md) | {1} | {2} | {3} | {4} | {5} |\n",
            text(protocol, "name"),
            text(protocol, "family"),
            or_dash(list(&protocol["needs"])),
            bytes(&protocol["telemetry_bytes"]),
            bytes(&protocol["echo_bytes"]),
            text(protocol, "summary")
        );
    }
    out
}

/// The page of a protocol: description, parameters, and a link to further documentation.
fn protocol_page(protocol: &Value) -> String {
    let name = text(protocol, "name");
    let mut out = format!(
        "# {}\n\n`{name}`: {}\n\n{}.\n",
        text(protocol, "title"),
        text(protocol, "summary"),
        text(protocol, "citation").trim_end_matches('.')
    );
    let needs = list(&protocol["needs"]);
    if !needs.is_empty() {
        out += &format!("\nSwitch requirements: {needs}.\n");
    }
    if let Some(marking) = protocol["marking"].as_str() {
        out += &format!("\nDefault: {marking} if `switch.ecn` is not set.\n");
    }
    if root(&format!("docs/{name}.md")).exists() {
        out += &format!("\nMore: [how it behaves](../{name}.md).\n");
    }
    out += &behaviour(protocol);
    out += &coexistence(protocol);
    let parameters = protocol["parameters"].as_array().unwrap();
    if !parameters.is_empty() {
        out += "\n## Parameters\n\n| parameter | default | allowed | meaning | source of the \
            default |\n| --- | --- | --- | --- | --- |\n";
    }
    for parameter in parameters {
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let allowed = match (&parameter["min"], &parameter["max"]) {
            (Value::Null, _)
                if parameter["choices"].as_array().is_some_and(|all| !all.is_empty()) =>
            {
                list(&parameter["choices"])
            }
            (Value::Null, _) => text(parameter, "kind").replace("flag", "true, false"),
            (min, max) => format!("{} to {}", plain(min), plain(max)),
        };
        let needs = parameter["needs"].as_array().unwrap().iter().filter_map(Value::as_str);
        let needs = needs.collect::<Vec<_>>().join(" and ");
        let only = if needs.is_empty() { needs } else { format!(" Only with `{needs}`.") };
        out += &format!(
            "| `{}` | {} | {allowed} | {}{only} | {} |\n",
            text(parameter, "name"),
            plain(&parameter["default"]),
            text(parameter, "meaning").replace('|', "\\|"),
            text(parameter, "source").replace('|', "\\|")
        );
    }
    let presets = protocol["presets"].as_array().unwrap();
    if presets.len() > 1 {
        out += "\n## Presets\n\nA preset sets these parameters; all others have their defaults.\n\n\
            | preset | parameters | source |\n| --- | --- | --- |\n";
    }
    for preset in presets.iter().skip(1) {
        let set = preset["parameters"].as_object().unwrap();
        let set = set.iter().map(|(name, value)| format!("`{name} = {value}`"));
        out += &format!(
            "| {} | {} | {} |\n",
            text(preset, "name"),
            set.collect::<Vec<_>>().join(", "),
            text(preset, "source").replace('|', "\\|")
        );
    }
    out
}

/// Words of a list.
fn list(value: &Value) -> String {
    value.as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

#[test]
fn protocol_pages_are_current() {
    let protocols = answer(&["protocols", "--json"]).json();
    let protocols = protocols.as_array().unwrap();
    is_current("docs/protocols.md", &protocol_table(protocols));
    let page = |protocol: &Value| format!("{}.md", text(protocol, "name"));
    for protocol in protocols {
        is_current(&format!("docs/protocols/{}", page(protocol)), &protocol_page(protocol));
    }
    let pages = fs::read_dir(root("docs/protocols")).unwrap();
    let pages = pages.map(|page| page.unwrap().file_name().into_string().unwrap());
    let pages: BTreeSet<_> = pages.filter(|name| name != "figures").collect();
    assert_eq!(pages, protocols.iter().map(page).collect());
}
