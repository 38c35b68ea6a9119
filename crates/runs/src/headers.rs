//! Documentation of packet headers.

use std::fmt::Write;

use tidegate_algos::Protocol;
use tidegate_core::wire::{Field, Format, Header as _, START_BYTES, Shown, meaning, telemetry};
use tidegate_endpoint::message::Head;
use tidegate_endpoint::session::header::{Header, control::ControlMessage};

/// Position of a header in a datagram.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// First, if telemetry is requested or echoed.
    Telemetry,
    /// Next: the header of the transport of these protocols.
    Transport(Vec<&'static str>),
    /// Next, in live UDP mode: the header of the session, or only that.
    Session,
    /// Last: encrypted, readable with the session key.
    Sealed,
}

/// All headers and their positions.
pub(crate) fn formats() -> Vec<(&'static Format, Place)> {
    let mut all: Vec<(&Format, Place)> = vec![(&telemetry::FORMAT, Place::Telemetry)];
    for protocol in Protocol::ALL {
        let (format, name) = (protocol.headers(), protocol.info().name);
        match all.iter_mut().find(|(known, _)| known.name == format.name) {
            Some((_, Place::Transport(names))) => names.push(name),
            _ => all.push((format, Place::Transport(vec![name]))),
        }
    }
    all.push((&Header::FORMAT, Place::Session));
    all.extend([(&ControlMessage::FORMAT, Place::Sealed), (&Head::FORMAT, Place::Sealed)]);
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

/// Markdown documentation of every header, field by field.
pub fn headers() -> String {
    let mut out = String::new();
    for (format, place) in formats() {
        let title = format.name.replace('_', " ");
        write!(out, "\n## {title}\n\n{}", meaning(format.doc)).expect("memory");
        let port = format.port;
        match place {
            Place::Telemetry => {}
            Place::Transport(protocols) => {
                let protocols = protocols.join(", ");
                write!(out, " Protocols: {protocols}. UDP port {port}.").expect("memory");
            }
            Place::Session => {
                write!(out, " Default UDP port {port}.").expect("memory");
            }
            Place::Sealed => out += " Encrypted: readable with the session key only.",
        }
        writeln!(out, " Version {}.", format.version).expect("memory");
        for kind in format.kinds {
            writeln!(out, "\n### {title}: {}\n\n{}\n", kind.name, meaning(kind.doc))
                .expect("memory");
            out += "| byte | field | type | meaning |\n| --- | --- | --- | --- |\n";
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
