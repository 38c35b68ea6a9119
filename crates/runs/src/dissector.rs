//! A dissector for Wireshark, generated from the header tables.

use std::fmt::Write;

use tidegate_core::wire::{Field, Flag, Kind, Shown, meaning, telemetry};

use crate::headers::{Place, formats};

#[cfg(test)]
mod tests;

/// The part of the dissector that is the same for all tables.
const CODE: &str = include_str!("dissector.lua");

/// A Lua plugin for Wireshark and tshark that decodes captures.
pub fn dissector() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!("-- Headers of tidegate {version}, by `tidegate dissector`.\n\n");
    out += "local formats = {\n";
    for (format, place) in formats() {
        let (place, protocols) = match place {
            Place::Telemetry => ("telemetry", Vec::new()),
            Place::Transport(protocols) => ("transport", protocols),
            Place::Session => ("session", Vec::new()),
            Place::Sealed => continue,
        };
        let (name, version, port) = (quoted(format.name), format.version, format.port);
        let first = telemetry::FIRST_KIND;
        let protocols: Vec<_> = protocols.into_iter().map(quoted).collect();
        let protocols = protocols.join(", ");
        writeln!(
            out,
            "  {{ name = {name}, version = {version}, port = {port}, first = {first},\n    \
             place = \"{place}\", protocols = {{ {protocols} }}, kinds = {{"
        )
        .expect("memory");
        format.kinds.iter().for_each(|kind| table(&mut out, kind));
        out += "  } },\n";
    }
    out + "}\n\n" + CODE
}

/// A kind of header.
fn table(out: &mut String, kind: &Kind) {
    let name = quoted(kind.name);
    writeln!(out, "    {{ number = {}, name = {name}, flags = {{", kind.number).expect("memory");
    for Flag { name, doc } in kind.flags {
        let (name, doc) = (quoted(name), quoted(&meaning(doc)));
        writeln!(out, "      {{ name = {name}, doc = {doc} }},").expect("memory");
    }
    for (list, fields) in [("fields", kind.fields), ("list", kind.list)] {
        writeln!(out, "    }}, {list} = {{").expect("memory");
        fields.iter().for_each(|field| row(out, field));
    }
    *out += "    } },\n";
}

fn row(out: &mut String, field: &Field) {
    let (shown, unit) = match field.shown {
        Shown::Number => ("number", None),
        Shown::Bits => ("bits", None),
        Shown::Bytes => ("bytes", None),
        Shown::Picoseconds => ("time", Some("ps")),
        Shown::BitsPerSecond => ("rate", Some("bit/s")),
    };
    let unit = unit.map(|unit| format!(", unit = {}", quoted(unit))).unwrap_or_default();
    let (name, doc) = (quoted(field.name), quoted(&meaning(field.doc)));
    let bytes = field.bytes;
    writeln!(
        out,
        "      {{ name = {name}, bytes = {bytes}, shown = \"{shown}\"{unit}, doc = {doc} }},"
    )
    .expect("memory");
}

/// A Lua string literal.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
