//! GOAL schedules in their text form, as LogGOPSim's `txt2bin` accepts them (`spcl/LogGOPSim`,
//! commit 76451de, `src/LogGOPSim/txt2bin.re`).
//!
//! A file has the number of ranks (`num_ranks 2`) and a block per rank (`rank 0 { … }`). A line of
//! a block is an operation, with a label or without, or a dependency between two labels:
//!
//! ```text
//! l1: calc 1500 cpu 0
//! l2: send 4096b to 1 tag 7 cpu 0 nic 0
//! l3: recv 64b from 1 tag 8
//! l2 requires l1
//! l3 irequires l2
//! ```

use std::collections::BTreeMap;
use std::str::SplitWhitespace;

use tidegate_core::Span;
use tidegate_core::job::Program;

use super::draft::{At, Draft};
use super::{Computing, MOST_BYTES, Source, Terms, fits};
use crate::error::Error;
use crate::files;
use crate::read::keys::LONGEST;

/// Largest number of compute streams of a rank. GOAL numbers processors with 8 bits.
const MOST_STREAMS: u64 = 256;
/// Number of characters of a line that a message shows.
const SHOWN: usize = 60;

/// Reads a schedule.
pub(super) fn read(source: &Source, terms: &Terms) -> Result<Program, Error> {
    let whole = |found: String, expected: &str| Err(Error::whole(&source.name, found, expected));
    let text = match std::str::from_utf8(&source.bytes) {
        Ok(text) => files::without_mark(text),
        Err(error) => {
            let found = format!("no UTF-8 at byte {}", error.valid_up_to());
            return whole(found, "a GOAL file in its text form, as before `txt2bin`");
        }
    };
    let mut reader = Reader {
        file: &source.name,
        line: 0,
        terms,
        draft: Draft::default(),
        ranks: None,
        block: None,
        comment: None,
    };
    for (number, line) in (1..).zip(text.lines()) {
        reader.line = number;
        reader.line(line)?;
    }
    let Some((ranks, _)) = reader.ranks else {
        return whole("no num_ranks".into(), "the line \"num_ranks N\" before the first rank");
    };
    if let Some(line) = reader.comment {
        reader.line = line;
        return Err(reader.error("a comment without an end", "*/ at the end of the comment"));
    }
    if let Some(block) = &reader.block {
        let found = format!("rank {} without a closing brace", block.rank);
        reader.line = block.line;
        return Err(reader.error(found, "} after the last operation of each rank"));
    }
    while reader.draft.ranks() < ranks {
        reader.draft.rank();
    }
    let name = |At { rank, place }| {
        let line = text.lines().nth(place as usize - 1).unwrap_or_default();
        format!("rank {rank}, line {place} ({})", shown(line.trim()))
    };
    reader
        .draft
        .finish()
        .map_err(|fault| fault.error(|at| (source.name.clone(), at.place as u32), name))
}

struct Reader<'a> {
    file: &'a str,
    /// From 1.
    line: u32,
    terms: &'a Terms,
    draft: Draft,
    /// Number of ranks, and their computing times.
    ranks: Option<(u32, Computing)>,
    block: Option<Block<'a>>,
    /// Line at which a comment begins that has not ended.
    comment: Option<u32>,
}

/// The operations of one rank.
struct Block<'a> {
    rank: u32,
    /// Its first line.
    line: u32,
    labels: BTreeMap<&'a str, u32>,
    /// Dependencies: labels and line.
    orders: Vec<(&'a str, &'a str, bool, u32)>,
}

/// Words of a line. A colon and a brace are words of their own.
struct Words<'a> {
    rest: SplitWhitespace<'a>,
    /// Remainder of a word.
    part: &'a str,
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.part.is_empty() {
            self.part = self.rest.next()?;
        }
        let end = match self.part.find([':', '{', '}']) {
            Some(0) => 1,
            Some(end) => end,
            None => self.part.len(),
        };
        let (word, rest) = self.part.split_at(end);
        self.part = rest;
        Some(word)
    }
}

impl<'a> Reader<'a> {
    fn error(&self, found: impl Into<String>, expected: impl Into<Box<str>>) -> Error {
        let mut error = Error::whole(self.file, found.into(), expected);
        error.line = self.line;
        error
    }

    /// An error about the word at the place of something.
    fn wrong(&self, found: Option<&str>, expected: impl Into<Box<str>>) -> Error {
        let found = found.map_or("the end of the line".to_owned(), |word| {
            format!("{:?}", word.chars().take(SHOWN).collect::<String>())
        });
        self.error(found, expected)
    }

    /// Reads a line without its comments.
    fn line(&mut self, mut line: &'a str) -> Result<(), Error> {
        while !line.is_empty() {
            if self.comment.is_some() {
                let Some((_, rest)) = line.split_once("*/") else { return Ok(()) };
                (line, self.comment) = (rest, None);
                continue;
            }
            let end = line.find("//").unwrap_or(line.len());
            let begin = line.find("/*").filter(|&begin| begin < end);
            let text = &line[..begin.unwrap_or(end)];
            self.words(Words { rest: text.split_whitespace(), part: "" })?;
            let Some(begin) = begin else { return Ok(()) };
            (line, self.comment) = (&line[begin + 2..], Some(self.line));
        }
        Ok(())
    }

    fn words(&mut self, mut words: Words<'a>) -> Result<(), Error> {
        while let Some(word) = words.next() {
            match (word, &self.block) {
                ("num_ranks", None) => self.num_ranks(&mut words)?,
                ("rank", None) => self.begin(&mut words)?,
                ("}", Some(_)) => self.end()?,
                (word, Some(_)) => self.statement(word, &mut words)?,
                (word, None) => {
                    return Err(self.wrong(Some(word), "\"num_ranks N\" or \"rank R {\""));
                }
            }
        }
        Ok(())
    }

    fn number(&self, word: Option<&str>, what: &str, most: u64) -> Result<u64, Error> {
        let number = word.and_then(|word| word.parse().ok()).filter(|&number| number <= most);
        number.ok_or_else(|| self.wrong(word, format!("{what}: a whole number up to {most}")))
    }

    fn num_ranks(&mut self, words: &mut Words<'a>) -> Result<(), Error> {
        let ranks = self.number(words.next(), "the number of ranks", u64::from(u32::MAX))?;
        if self.ranks.is_some() {
            return Err(self.error("a second num_ranks", "one num_ranks: remove the others"));
        }
        if ranks == 0 {
            return Err(self.error("0 ranks", "at least 1 rank"));
        }
        fits(self.file, ranks, self.terms).map_err(|error| Error { line: self.line, ..error })?;
        let ranks = ranks as u32;
        self.ranks = Some((ranks, Computing::new(self.terms, ranks)));
        Ok(())
    }

    fn begin(&mut self, words: &mut Words<'a>) -> Result<(), Error> {
        let Some((ranks, _)) = self.ranks else {
            return Err(self.error("a rank before num_ranks", "num_ranks before the first rank"));
        };
        let rank = self.number(words.next(), "a rank", u64::from(u32::MAX))?;
        self.known(rank)?;
        if rank < u64::from(self.draft.ranks()) {
            let expected = "ranks in rising order, each once: sort the blocks";
            return Err(self.error(format!("rank {rank} after a later one, or again"), expected));
        }
        match words.next() {
            Some("{") => {}
            other => return Err(self.wrong(other, format!("{{ after rank {rank}"))),
        }
        debug_assert!(rank < u64::from(ranks));
        while u64::from(self.draft.rank()) < rank {}
        let (line, labels, orders) = (self.line, BTreeMap::new(), Vec::new());
        self.block = Some(Block { rank: rank as u32, line, labels, orders });
        Ok(())
    }

    /// Refuses a rank beyond the number of ranks.
    fn known(&self, rank: u64) -> Result<(), Error> {
        match self.ranks {
            Some((ranks, _)) if rank < u64::from(ranks) => Ok(()),
            Some((ranks, _)) => Err(self.error(
                format!("rank {rank}"),
                format!("a rank from 0 to {}, because num_ranks is {ranks}", ranks - 1),
            )),
            None => Ok(()),
        }
    }

    /// Ends a block: its labels are known.
    fn end(&mut self) -> Result<(), Error> {
        let Some(block) = self.block.take() else { return Ok(()) };
        for (after, before, on_start, line) in block.orders {
            let find = |label: &str| {
                let found = block.labels.get(label).copied();
                found.ok_or_else(|| {
                    let expected = format!("a label of an operation of rank {}", block.rank);
                    let near = crate::error::nearest(label, block.labels.keys().copied());
                    let error = self.wrong(Some(label), expected).suggest(near);
                    Error { line, ..error }
                })
            };
            let (before, after) = (find(before)?, find(after)?);
            if on_start {
                self.draft.follow_start(before, after);
            } else {
                self.draft.follow(before, after);
            }
        }
        Ok(())
    }

    /// Reads an operation or a dependency, up to the end of the line.
    fn statement(&mut self, first: &'a str, words: &mut Words<'a>) -> Result<(), Error> {
        let is_label = first.starts_with(|c: char| c.is_ascii_alphabetic())
            && first.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if matches!(first, "calc" | "send" | "recv") {
            self.operation(first, words)?;
            return Ok(());
        }
        if !is_label {
            let expected = "an operation (calc, send or recv), a label, or }";
            return Err(self.wrong(Some(first), expected));
        }
        match words.next() {
            Some(":") => {
                let kind = words.next();
                let operation = match kind {
                    Some(kind @ ("calc" | "send" | "recv")) => self.operation(kind, words)?,
                    _ => return Err(self.wrong(kind, "calc, send or recv after the label")),
                };
                let Some(block) = &mut self.block else { return Ok(()) };
                if block.labels.insert(first, operation).is_some() {
                    let expected = "labels that differ within a rank: rename one of them";
                    return Err(self.error(format!("the label {first:?} again"), expected));
                }
                Ok(())
            }
            Some(kind @ ("requires" | "irequires")) => {
                let Some(other) = words.next() else {
                    return Err(self.wrong(None, format!("a label after {kind}")));
                };
                self.ends(words)?;
                let (line, on_start) = (self.line, kind == "irequires");
                if let Some(block) = &mut self.block {
                    block.orders.push((first, other, on_start, line));
                }
                Ok(())
            }
            other => Err(self.wrong(
                other,
                format!("\":\", \"requires\" or \"irequires\" after the label {first}"),
            )),
        }
    }

    /// Expects the end of a line.
    fn ends(&self, words: &mut Words<'a>) -> Result<(), Error> {
        match words.next() {
            None => Ok(()),
            more => Err(self.wrong(more, "the end of the line")),
        }
    }

    /// Reads an operation of this kind, and returns its index.
    fn operation(&mut self, kind: &str, words: &mut Words<'a>) -> Result<u32, Error> {
        let most = self.terms.operations;
        if u64::from(self.draft.len()) >= most {
            return Err(self.error("a further operation", format!("at most {most} operations")));
        }
        let place = u64::from(self.line);
        let rank = self.block.as_ref().map_or(0, |block| block.rank);
        if kind == "calc" {
            let most = LONGEST.as_ps() / 1_000;
            let word = words.next();
            let count = self.number(word, "a computing time in nanoseconds", most)?;
            let Clauses { stream, .. } = self.clauses(words, &["cpu"])?;
            let span = self
                .ranks
                .as_ref()
                .and_then(|(_, computing)| computing.span(rank, count, Span::ns(1)));
            let Some(span) = span else {
                let expected = format!("at most {LONGEST} with compute_scale and straggler_factor");
                return Err(self.wrong(word, expected));
            };
            return Ok(self.draft.compute(place, span, stream));
        }
        let bytes = self.bytes(words)?;
        let (preposition, direction) =
            if kind == "send" { ("to", "receives it") } else { ("from", "sends it") };
        match words.next() {
            Some(word) if word == preposition => {}
            other => return Err(self.wrong(other, format!("{preposition:?} and a rank"))),
        }
        let word = words.next();
        if word == Some("-1") {
            let expected = "the rank that sends the message: a receive from any rank is not \
                            supported";
            return Err(self.wrong(word, expected));
        }
        let what = format!("the rank that {direction}");
        let peer = self.number(word, &what, u64::from(u32::MAX))?;
        self.known(peer)?;
        let Clauses { tag, .. } = self.clauses(words, &["tag", "cpu", "nic"])?;
        let peer = peer as u32;
        Ok(match kind {
            "send" => self.draft.send(place, peer, tag, bytes),
            _ => self.draft.receive(place, peer, tag, bytes),
        })
    }

    /// Reads a size: `10b` or `10 b`.
    fn bytes(&self, words: &mut Words<'a>) -> Result<u64, Error> {
        let word = words.next();
        let digits = match word.and_then(|word| word.strip_suffix('b')) {
            Some(digits) => Some(digits),
            None if words.next() == Some("b") => word,
            None => None,
        };
        let bytes = digits.and_then(|digits| digits.parse().ok());
        bytes.filter(|&bytes| bytes <= MOST_BYTES).ok_or_else(|| {
            self.wrong(word, format!("a size in bytes, such as \"4096b\", up to {MOST_BYTES}b"))
        })
    }

    /// Reads the clauses that may follow in this order, up to the end of the line.
    fn clauses(&self, words: &mut Words<'a>, mut allowed: &[&str]) -> Result<Clauses, Error> {
        let mut clauses = Clauses { stream: 0, tag: 0 };
        while let Some(word) = words.next() {
            let Some(at) = allowed.iter().position(|&clause| clause == word) else {
                let or = if allowed.is_empty() { "" } else { ", or " };
                let expected = format!("the end of the line{or}{}", allowed.join(", "));
                return Err(self.wrong(Some(word), expected));
            };
            allowed = &allowed[at + 1..];
            let value = words.next();
            match word {
                "tag" if value == Some("-1") => {
                    let expected = "the tag of the message: a receive with any tag is not \
                                    supported";
                    return Err(self.wrong(value, expected));
                }
                "tag" => clauses.tag = self.number(value, "a tag", u64::from(u32::MAX))?,
                "cpu" => {
                    clauses.stream = self.number(value, "a processor", MOST_STREAMS - 1)? as u32;
                }
                _ => _ = self.number(value, "a network interface", MOST_STREAMS - 1)?,
            }
        }
        Ok(clauses)
    }
}

/// Values that follow an operation.
struct Clauses {
    stream: u32,
    tag: u64,
}

fn shown(line: &str) -> String {
    let mut shown: String = line.chars().take(SHOWN).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}
