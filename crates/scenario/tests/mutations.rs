//! Whatever a file says, loading it ends in a plan or a message.
#![allow(missing_docs)]

mod common;

use common::{GRAPH, RACKS, beside};
use tidegate_core::{Domain, Rng};
use tidegate_scenario::{Override, load};

/// What texts are broken with.
const SCRAPS: &[&str] = &[
    "\"",
    "'",
    "=",
    "[",
    "]",
    "{",
    "}",
    "[[",
    "]]",
    ",",
    ".",
    "\n",
    " ",
    "#",
    "-",
    "+",
    "0",
    "1",
    "9",
    "e",
    "E",
    "inf",
    "nan",
    "true",
    "1e400",
    "18446744073709551615",
    "-1",
    "99999999999999999999999",
    "0x7f",
    "1979-05-27",
    "\"\"",
    "\"0B\"",
    "\"1us\"",
    "\"1Gbps\"",
    "\"1e-30s\"",
    "\"999999s\"",
    "\"inf\"",
    "\"*\"",
    "\"[0-9]\"",
    "\"h0\"",
    "µ",
    "\u{3bc}s",
    "🙂",
    "\u{0}",
    "\u{feff}",
    "\\",
    "\\u0000",
    "kind",
    "preset = \"poseidon-clos\"\n",
    "kind = \"fat-tree\"\n",
    "kind = \"clos\"\n",
    "k = 8\n",
    "params = {}",
    "null",
    "\r\n",
    "\t",
];

fn pick<'a>(rng: &mut Rng, items: &[&'a str]) -> &'a str {
    items[rng.below(items.len() as u64) as usize]
}

/// A place between two characters.
fn place(rng: &mut Rng, text: &str) -> usize {
    let at = rng.below(text.len() as u64 + 1) as usize;
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap()
}

fn mutated(rng: &mut Rng, text: &str) -> String {
    let mut text = text.to_string();
    for _ in 0..=rng.below(4) {
        let (a, b) = (place(rng, &text), place(rng, &text));
        let (a, b) = (a.min(b), a.max(b).min(a.min(b) + 40));
        let b = (b..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap();
        match rng.below(6) {
            0 => text.insert_str(a, pick(rng, SCRAPS)),
            1 => text.replace_range(a..b, ""),
            2 => text.replace_range(a..b, pick(rng, SCRAPS)),
            3 => text.insert_str(b, &text.clone()[a..b]),
            // A value of another key.
            4 => {
                let values: Vec<&str> = text
                    .split(['=', ',', '\n'])
                    .map(str::trim)
                    .filter(|value| !value.is_empty())
                    .collect();
                if !values.is_empty() {
                    let (from, to) =
                        (pick(rng, &values).to_string(), pick(rng, &values).to_string());
                    text = text.replacen(&from, &to, 1);
                }
            }
            // A line less.
            _ => {
                let lines: Vec<&str> = text.lines().collect();
                if !lines.is_empty() {
                    let gone = rng.below(lines.len() as u64) as usize;
                    text = lines
                        .iter()
                        .enumerate()
                        .filter(|(i, _)| *i != gone)
                        .flat_map(|(_, line)| [*line, "\n"])
                        .collect();
                }
            }
        }
    }
    text
}

#[test]
fn broken_files_never_panic() {
    let mut rng = Rng::stream(1, Domain::Faults, 0);
    let (mut good, mut bad) = (0, 0);
    for round in 0..20_000 {
        let text = mutated(&mut rng, if round % 2 == 0 { GRAPH } else { RACKS });
        match load(&text, &beside("x.toml"), &[]) {
            Ok(_) => good += 1,
            Err(error) => {
                bad += 1;
                let shown = error.to_string();
                assert!(!error.expected.is_empty() && !error.found.is_empty(), "{shown}\n{text}");
                assert!(
                    !shown.starts_with("default") && !shown.contains("preset poseidon-clos:"),
                    "{shown}\n{text}"
                );
                assert!(shown.lines().count() == 1, "{shown}\n{text}");
            }
        }
    }
    assert!(good > 100 && bad > 1000, "{good} {bad}");
}

#[test]
fn broken_options_never_panic() {
    let mut rng = Rng::stream(2, Domain::Faults, 0);
    let options = [
        "transport.params.m=0.5",
        "flows.0.size=1MB",
        "fabric.links[2].rate=10Gbps",
        "switch.ecn={ kmin = \"30KB\" }",
    ];
    for _ in 0..3_000 {
        let option = pick(&mut rng, &options);
        let option = mutated(&mut rng, option);
        if let Err(error) =
            Override::set(&option).and_then(|change| load(GRAPH, "x.toml", &[change]))
        {
            assert!(!error.to_string().is_empty());
        }
    }
}
