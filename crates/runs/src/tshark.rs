//! Reads tshark's view of capture files, for tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tidegate_core::wire::{Format, Kind, START_BYTES, Shown};

/// Values by field name; several if the field repeats. Bytes are hexadecimal.
pub(crate) type Fields = BTreeMap<String, Vec<String>>;

/// Whether tshark is installed; reports the skipped test if not.
pub(crate) fn has_tshark() -> bool {
    let version = Command::new("tshark").arg("--version").stderr(Stdio::null()).output();
    let found = version.is_ok_and(|output| output.status.success());
    let demanded = std::env::var("TIDEGATE_TSHARK").is_ok_and(|value| value == "required");
    assert!(found || !demanded, "TIDEGATE_TSHARK=required, but there is no tshark in PATH");
    if !found {
        eprintln!("SKIPPED: there is no tshark in PATH");
    }
    found
}

fn prefix(format: &Format, kind: &Kind) -> String {
    format!("tidegate_{}.{}.", format.name, kind.name.to_lowercase())
}

/// All fields of a format, with their names in the dissector and their types.
pub(crate) fn fields(format: &Format) -> Vec<(String, Shown)> {
    let of_kind = |kind: &Kind| {
        let own = prefix(format, kind);
        let flags = kind.flags.iter().map(|flag| (flag.name, Shown::Number));
        let fields = kind.fields.iter().chain(kind.list).map(|field| (field.name, field.shown));
        let all = flags.chain(fields).map(|(name, shown)| (format!("{own}{name}"), shown));
        all.collect::<Vec<_>>()
    };
    format.kinds.iter().flat_map(of_kind).collect()
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes the header at the beginning of `bytes` by the tables and adds its fields to `found`.
/// Returns the bytes after the header.
pub(crate) fn header<'a>(format: &Format, bytes: &'a [u8], found: &mut Fields) -> &'a [u8] {
    let kind = format.kinds.iter().find(|kind| kind.number == bytes[1]).unwrap();
    let own = prefix(format, kind);
    for (bit, flag) in kind.flags.iter().enumerate() {
        let is_set = bytes[2] >> bit & 1;
        found.insert(format!("{own}{}", flag.name), vec![is_set.to_string()]);
    }
    let (header, rest) = bytes.split_at(4 * bytes[3] as usize);
    let mut left = &header[START_BYTES..];
    for field in kind.fields.iter().chain(kind.list.iter().cycle()) {
        if left.is_empty() {
            break;
        }
        let (value, behind) = left.split_at(field.bytes);
        let text = match field.shown {
            Shown::Bytes => hexadecimal(value),
            _ => value.iter().fold(0, |all, &byte| all << 8 | u64::from(byte)).to_string(),
        };
        found.entry(format!("{own}{}", field.name)).or_default().push(text);
        left = behind;
    }
    rest
}

/// The values of `fields` in each packet of a file, as tshark decodes them with our dissector.
///
/// # Panics
/// When tshark fails or reports a problem.
pub(crate) fn seen(file: &Path, fields: &[(String, Shown)]) -> Vec<Fields> {
    let folder = file.parent().unwrap();
    let script = folder.join("tidegate.lua");
    fs::write(&script, crate::dissector()).unwrap();
    let wrong = ["_ws.malformed", "_ws.expert.message", "_ws.lua.error"];
    let mut tshark = Command::new("tshark");
    // Without these, tshark would load the user's plugins and settings.
    tshark.env("HOME", folder).env("XDG_CONFIG_HOME", folder);
    tshark.arg("-r").arg(file).arg("-X").arg(format!("lua_script:{}", script.display()));
    tshark.args(["-T", "fields", "-E", "separator=|", "-E", "occurrence=a"]);
    for name in wrong.into_iter().chain(fields.iter().map(|(name, _)| name.as_str())) {
        tshark.args(["-e", name]);
    }
    let output = tshark.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    let packet = |line: &str| {
        let mut columns = line.split('|');
        let complaint: String = columns.by_ref().take(wrong.len()).collect();
        assert_eq!(complaint, "", "{line}");
        let shown = fields.iter().zip(columns).filter(|(_, values)| !values.is_empty());
        let value = |(name, shown): &(String, Shown), values: &str| {
            let values = values.split(',').map(|text| match shown {
                Shown::Bytes => text.replace(':', ""),
                _ => number(text).to_string(),
            });
            (name.clone(), values.collect())
        };
        shown.map(|(field, values)| value(field, values)).collect()
    };
    String::from_utf8(output.stdout).unwrap().lines().map(packet).collect()
}

/// Value of a decimal, a hexadecimal number or a flag.
fn number(text: &str) -> u64 {
    match (text, text.strip_prefix("0x")) {
        ("True", _) => 1,
        ("False", _) => 0,
        (_, Some(hex)) => u64::from_str_radix(hex, 16).unwrap(),
        (decimal, None) => decimal.parse().unwrap_or_else(|_| panic!("{decimal}")),
    }
}
