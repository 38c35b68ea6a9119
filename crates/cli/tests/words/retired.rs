//! Words that terms of the glossary replaced, and how they are found in names, comments and
//! messages.

use std::collections::BTreeSet;

use super::pieces::Piece::{self, Code, Prose};
use super::pieces::names;
use Scope::{Everywhere, Files, Names, Types};

/// Where a retired word must not be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scope {
    /// In names in code and of files, and in comments and messages.
    Everywhere,
    /// In names in code and of files. In sentences, the word has its ordinary meaning.
    Names,
    /// In names of types.
    Types,
    /// In names of files.
    Files,
}

/// A word that a term of the glossary replaced.
pub(super) struct Retired {
    /// In lower case, singular. Plurals are found, too.
    pub(super) word: &'static str,
    /// Its other inflections, which are retired, too. Plurals of these are not found.
    inflections: &'static [&'static str],
    scope: Scope,
    /// What to write.
    instead: &'static str,
    /// Beginnings of paths, from the root, in which the word is retired; elsewhere it is a term.
    within: &'static str,
    /// Uses with a standard meaning: parts of names, or of paths if they contain a slash.
    pub(super) except: &'static [&'static str],
}

const fn retired(word: &'static str, scope: Scope, instead: &'static str) -> Retired {
    Retired { word, inflections: &[], scope, instead, within: "./", except: &[] }
}

impl Retired {
    const fn inflected(self, inflections: &'static [&'static str]) -> Retired {
        Retired { inflections, ..self }
    }

    const fn within(self, within: &'static str) -> Retired {
        Retired { within, ..self }
    }

    const fn except(self, except: &'static [&'static str]) -> Retired {
        Retired { except, ..self }
    }
}

pub(super) const RETIRED: &[Retired] = &[
    retired("habit", Everywhere, "connection defaults").inflected(&["habitual"]),
    retired("equipment", Everywhere, "fabric requirements"),
    retired("wish", Everywhere, "fabric requirements").inflected(&["wished", "wishing"]),
    retired("deed", Everywhere, "action"),
    retired("ears", Everywhere, "observers"),
    retired("heard", Everywhere, "observed"),
    retired("told", Everywhere, "reported, observer table"),
    retired("hazard", Everywhere, "link impairment"),
    retired("hazardous", Everywhere, "with link impairments"),
    retired("fate", Everywhere, "link impairment, outcome").inflected(&["fated"]),
    retired("greet", Everywhere, "request a session").inflected(&[
        "greeted",
        "greeting",
        "greetings",
    ]),
    retired("torment", Everywhere, "stress"),
    retired("bake", Names, "create, derive"),
    retired("believe", Names, "estimate").inflected(&["believed"]),
    retired("deaf", Names, "the outage or the missing application"),
    retired("glance", Names, "preview"),
    retired("hindrance", Names, "exclusion"),
    retired("intrude", Names, "open a session"),
    retired("lent", Names, "pooled"),
    retired("mischief", Names, "fault"),
    retired("shelf", Names, "destination"),
    retired("whom", Names, "peer, destination"),
    retired("card", Names, "protocol information"),
    retired("parcel", Names, "packet"),
    // The former name of a key, which results can still have.
    retired("said", Names, "the name of what was printed or reported")
        .inflected(&["say", "says", "saying"])
        .except(&["src/plot.rs"]),
    retired("hear", Names, "observe").inflected(&["hearing"]),
    // The search asks and tells Optuna, whose interface has these names.
    retired("tell", Names, "report")
        .inflected(&["telling"])
        .except(&["/_tune/search.py", "/tests/test_tune_search.py"]),
    // Candidates of a search meet constraints, and machines meet requirements.
    retired("meet", Names, "barrier, satisfy").inflected(&["met", "unmet", "meeting"]).except(&[
        "/_tune/",
        "/tests/test_tune",
        "/preflight.rs",
        "/kernel.rs",
        "kernel/tests/loading.rs",
        "/p4_lab.py",
    ]),
    // The pictures of all figures have the digest of `plots.js`, which turns plots.
    retired("turn", Names, "node batch, scheduling round, position")
        .inflected(&["turned", "turning"])
        .except(&["/plots.js"]),
    // Stretch acknowledgements: RFC 2525.
    retired("stretch", Names, "run interval")
        .inflected(&["stretched", "stretching"])
        .except(&["stretch_ack"]),
    // QuickAdapt of NSCC has a gate in the specification of Ultra Ethernet.
    retired("gate", Names, "sentinel packet")
        .inflected(&["gated", "gating"])
        .except(&["quick_adapt_gate", "cc/nscc.rs"]),
    retired("border", Names, "partition boundary, backend").inflected(&["bordered", "bordering"]),
    retired("stranger", Names, "unknown source, attacker"),
    // The settling time of control theory is a word of its own.
    retired("settle", Names, "resolve, converge"),
    retired("settled", Names, "resolved, steady"),
    retired("testbed", Names, "harness").within("./crates/algos/"),
    // The profile of a workload: its distributions of sizes, gaps and loads.
    retired("profile", Types, "operating point").inflected(&["profiled"]).except(&["/workload"]),
    retired("facts", Types, "fabric properties"),
    retired("part", Types, "partition"),
    retired("begun", Types, "action"),
    retired("beside", Types, "the name of the second protocol"),
    retired("exchanged", Types, "boundary exchange"),
    // Requests and replies are exchanges, too, in the code of closed loops.
    retired("exchange", Files, "interop, boundary exchange").except(&["boundary_exchange"]),
    retired("exchange", Names, "interop, boundary exchange")
        .inflected(&["exchanged", "exchanging"])
        .within("./crates/scenario/"),
];

impl Retired {
    /// Whether `name` has the word as a segment, in this scope.
    fn is_in(&self, name: &str, is_file: bool) -> bool {
        let is_type =
            name.starts_with(char::is_uppercase) && name.contains(|c: char| c.is_lowercase());
        let may = match self.scope {
            Everywhere | Names => true,
            Types => is_type && !is_file,
            Files => is_file,
        };
        may && segments(name).any(|segment| self.is_word(segment))
    }

    /// Whether `text` is the word, its plural, or an inflection.
    fn is_word(&self, text: &str) -> bool {
        let rest = text.get(self.word.len()..).filter(|_| {
            text.get(..self.word.len()).is_some_and(|of| of.eq_ignore_ascii_case(self.word))
        });
        rest.is_some_and(|rest| ["", "s", "es"].iter().any(|end| rest.eq_ignore_ascii_case(end)))
            || self.inflections.iter().any(|other| text.eq_ignore_ascii_case(other))
    }

    /// Whether the letters of the word or of an inflection are in `text`, which is in lower case.
    fn may_be_in(&self, text: &str) -> bool {
        text.contains(self.word) || self.inflections.iter().any(|other| text.contains(other))
    }

    /// The exception that allows it, by number; `None` if it is not allowed.
    fn exception(&self, path: &str, name: &str) -> Option<usize> {
        self.except.iter().position(|allowed| match allowed.contains('/') {
            true => path.contains(allowed),
            false => name.contains(allowed),
        })
    }
}

/// The segments of a name: words between underscores and at changes of case.
fn segments(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').flat_map(|part| {
        let of: Vec<(usize, char)> = part.char_indices().collect();
        let begins = |i: usize| {
            let is = |i: usize| of.get(i).is_some_and(|(_, c)| c.is_lowercase());
            of[i].1.is_uppercase() && (!of[i - 1].1.is_uppercase() || is(i + 1))
        };
        let ends = (1..of.len()).filter(|&i| begins(i)).map(|i| of[i].0).chain([part.len()]);
        let mut from = 0;
        let cut = ends.map(|end| &part[std::mem::replace(&mut from, end)..end]);
        cut.collect::<Vec<_>>()
    })
}

/// Exceptions that were needed: the number of the retired word, and that of the exception.
pub(super) type Used = BTreeSet<(usize, usize)>;

/// The words of [`RETIRED`] that a file may have, by number: their letters are in its text.
pub(super) fn candidates(path: &str, text: &str) -> Vec<usize> {
    let lower = text.to_ascii_lowercase();
    let is_in = |of: &Retired| path.starts_with(of.within) && of.may_be_in(&lower);
    (0..RETIRED.len()).filter(|&number| is_in(&RETIRED[number])).collect()
}

/// The retired word in a piece of a line.
pub(super) fn retired_in(
    path: &str,
    piece: Piece<'_>,
    candidates: &[usize],
    used: &mut Used,
) -> Option<String> {
    let (Code(text) | Prose(text)) = piece;
    let lower = text.to_ascii_lowercase();
    for &number in candidates.iter().filter(|&&number| RETIRED[number].may_be_in(&lower)) {
        let retired = &RETIRED[number];
        let is_found = |name: &&str| match piece {
            Code(_) => retired.is_in(name, false),
            Prose(_) => retired.scope == Everywhere && retired.is_word(name),
        };
        for name in names(text).filter(is_found) {
            match retired.exception(path, name) {
                Some(exception) => _ = used.insert((number, exception)),
                None => return Some(format!("{name:?} is retired: {}", retired.instead)),
            }
        }
    }
    None
}

/// The retired word in the name of a file or of its folders.
pub(super) fn retired_in_path(path: &str, used: &mut Used) -> Option<String> {
    for (number, retired) in RETIRED.iter().enumerate() {
        let is_found = |name: &&str| path.starts_with(retired.within) && retired.is_in(name, true);
        for name in names(path).filter(is_found) {
            match retired.exception(path, name) {
                Some(exception) => _ = used.insert((number, exception)),
                None => return Some(format!("{name:?} is retired: {}", retired.instead)),
            }
        }
    }
    None
}

#[test]
fn names_are_cut_into_segments() {
    let cut = |name| segments(name).collect::<Vec<_>>();
    assert_eq!(cut("from_strangers"), ["from", "strangers"]);
    assert_eq!(cut("TG_ASKED"), ["TG", "ASKED"]);
    assert_eq!(cut("HTTPServerAt2x"), ["HTTP", "Server", "At2x"]);
    assert_eq!(cut("isBeside"), ["is", "Beside"]);
    assert_eq!(cut("_tell"), ["", "tell"]);
    assert_eq!(cut("ÜberTold"), ["Über", "Told"]);
}
