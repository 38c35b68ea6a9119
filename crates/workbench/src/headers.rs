//! Headers as people read of them.

use std::fmt::Write;

use tidegate_algos::Protocol;
use tidegate_core::wire::{Field, Format, START_BYTES, Shown, meaning, telemetry};

/// The headers there are: telemetry, and those of each transport, and which protocols have them.
pub(crate) fn formats() -> Vec<(&'static Format, Vec<&'static str>)> {
    let mut all: Vec<(&Format, Vec<&str>)> = vec![(&telemetry::FORMAT, Vec::new())];
    for protocol in Protocol::ALL {
        let (format, name) = (protocol.headers(), protocol.card().name);
        match all.iter_mut().find(|(known, _)| known.name == format.name) {
            Some((_, names)) => names.push(name),
            None => all.push((format, vec![name])),
        }
    }
    all
}

fn shown(field: &Field) -> &'static str {
    match field.shown {
        Shown::Number => "number",
        Shown::Bits => "bits",
        Shown::Bytes => "bytes",
        Shown::Picoseconds => "ps",
        Shown::BitsPerSecond => "bit/s",
    }
}

/// Every header in Markdown, field by field.
pub fn headers() -> String {
    let mut out = String::new();
    for (format, protocols) in formats() {
        let title = format.name.replace('_', " ");
        write!(out, "\n## {title}\n\n{}", meaning(format.doc)).expect("memory");
        if !protocols.is_empty() {
            let (protocols, port) = (protocols.join(", "), format.port);
            write!(out, " Protocols: {protocols}. UDP port {port}.").expect("memory");
        }
        writeln!(out, " Version {}.", format.version).expect("memory");
        for kind in format.kinds {
            writeln!(out, "\n### {title}: {}\n\n{}\n", kind.name, meaning(kind.doc))
                .expect("memory");
            out += "| byte | field | is | meaning |\n| --- | --- | --- | --- |\n";
            writeln!(out, "| 1 | kind | {:#04x} | |", kind.number).expect("memory");
            for (bit, flag) in kind.flags.iter().enumerate() {
                let doc = meaning(flag.doc);
                writeln!(out, "| 2 | `{}` | bit {bit} | {doc} |", flag.name).expect("memory");
            }
            let mut at = START_BYTES;
            for (fields, again) in [(kind.fields, ""), (kind.list, " of each record")] {
                for field in fields {
                    let (name, last, doc) = (field.name, at + field.bytes - 1, meaning(field.doc));
                    writeln!(
                        out,
                        "| {at} to {last}{again} | `{name}` | {} | {doc} |",
                        shown(field)
                    )
                    .expect("memory");
                    at += field.bytes;
                }
                at = 0;
            }
        }
    }
    out
}
