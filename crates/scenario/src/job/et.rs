//! Reader of Chakra execution traces, one file per rank.
//!
//! Nodes of a rank are taken in order of their IDs, which is that of their execution. A node waits
//! until the nodes that it depends on are complete; dependencies of control flow can be left out.
//! The nth send to a rank with a tag matches the nth receive there, and the nth collective of a
//! process group is the same at all its ranks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use prost::Message;
use tidegate_core::Span;
use tidegate_core::job::Program;

use super::chakra::{Attribute, Kind, Metadata, Node, Operation, Value};
use super::draft::{At, Draft, Fault};
use super::expand::Expansion;
use super::{Computing, Dependencies, MOST_BYTES, Source, Terms, fits, ranks_of};
use crate::error::{Error, nearest};
use crate::read::keys::LONGEST;

/// Setting that leaves the dependencies of control flow out.
const REMEDY: &str = "dependencies = \"data\", which ignores ctrl_deps";
/// Compute streams of a rank.
const ACCELERATOR: u32 = 0;
const PROCESSOR: u32 = 1;

/// A process group, and the number of a collective in it.
type Call = (Option<String>, u32);

/// Reads the traces of all ranks, in order of rank.
pub(super) fn read(sources: &[Source], terms: &Terms) -> Result<Program, Error> {
    fits(&sources[0].name, sources.len() as u64, terms)?;
    read_with(terms.dependencies, sources, terms)
}

/// As `read`, with these dependencies.
fn read_with(
    dependencies: Dependencies,
    sources: &[Source],
    terms: &Terms,
) -> Result<Program, Error> {
    let mut reader = Reader {
        sources,
        terms,
        dependencies,
        computing: Computing::new(terms, sources.len() as u32),
        draft: Draft::default(),
        calls: BTreeMap::new(),
        everyone: (0..sources.len() as u32).collect(),
    };
    for (rank, source) in (0..).zip(sources) {
        reader.rank(rank, &nodes(source)?)?;
    }
    reader.finish()
}

/// Decodes the nodes of a file, in order of their IDs.
fn nodes(source: &Source) -> Result<Vec<Node>, Error> {
    let wrong = |found: String, expected: &str| Error::whole(&source.name, found, expected);
    if source.bytes.starts_with(&[0x1f, 0x8b]) {
        let expected = "a Chakra trace without compression: run gunzip first";
        return Err(wrong("a file compressed by gzip".into(), expected));
    }
    let mut rest = &source.bytes[..];
    let damaged = |at: usize, number: usize, why: &str| {
        let what = match number {
            0 => "the metadata".to_owned(),
            number => format!("message {number} after the metadata"),
        };
        let found = format!("damage in {what}, which begins at byte {at}: {why}");
        wrong(found, "a complete Chakra trace (.et): record or copy it again")
    };
    let (mut nodes, mut number) = (Vec::new(), 0);
    while !rest.is_empty() {
        let at = source.bytes.len() - rest.len();
        let length = prost::decode_length_delimiter(&mut rest)
            .map_err(|why| damaged(at, number, &why.to_string()))?;
        let Some((message, after)) = rest.split_at_checked(length) else {
            let why = format!("it has {length} bytes, and the file only {} more", rest.len());
            return Err(damaged(at, number, &why));
        };
        rest = after;
        if number == 0 {
            Metadata::decode(message).map_err(|why| damaged(at, number, &why.to_string()))?;
        } else {
            let node =
                Node::decode(message).map_err(|why| damaged(at, number, &why.to_string()))?;
            nodes.push(node);
        }
        number += 1;
    }
    if number == 0 {
        return Err(wrong("an empty file".into(), "a Chakra trace: metadata and nodes"));
    }
    nodes.sort_by_key(|node| node.id);
    if let Some(pair) = nodes.windows(2).find(|pair| pair[0].id == pair[1].id) {
        let found = format!("node {} twice", pair[0].id);
        return Err(wrong(found, "a different ID for each node of a rank"));
    }
    Ok(nodes)
}

struct Reader<'a> {
    sources: &'a [Source],
    terms: &'a Terms,
    dependencies: Dependencies,
    computing: Computing,
    draft: Draft,
    /// Collectives, each with the rank and node of its first call.
    calls: BTreeMap<Call, (Expansion, At)>,
    /// All ranks.
    everyone: Vec<u32>,
}

/// A node and its file.
#[derive(Clone, Copy)]
struct NodeInFile<'a> {
    file: &'a str,
    rank: u32,
    node: &'a Node,
}

impl NodeInFile<'_> {
    fn error(self, found: impl AsRef<str>, expected: impl Into<Box<str>>) -> Error {
        let Node { id, name, .. } = self.node;
        let found = format!("{} in node {id} ({name})", found.as_ref());
        Error::whole(self.file, found, expected)
    }

    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.node.attr.iter().find(|attribute| attribute.name == name)
    }

    fn is_on_processor(&self) -> bool {
        let attribute = self.attribute("is_cpu_op");
        attribute.is_some_and(|attribute| attribute.value == Some(Value::Bool(true)))
    }

    /// The number in an attribute, at most `most`; `None` if there is none.
    fn number(self, name: &str, most: u64) -> Result<Option<u64>, Error> {
        let Some(attribute) = self.attribute(name) else { return Ok(None) };
        let number = attribute.whole().filter(|&number| number <= most);
        number.map(Some).ok_or_else(|| {
            let expected = format!("a whole number up to {most} in the attribute {name}");
            self.error(attribute.to_string(), expected)
        })
    }

    fn required(self, name: &str, most: u64) -> Result<u64, Error> {
        let number = self.number(name, most)?;
        number.ok_or_else(|| {
            self.error(format!("no {name}"), format!("the attribute {name}, a whole number"))
        })
    }

    /// The rank in an attribute, one of `ranks`.
    fn peer(self, name: &str, ranks: usize) -> Result<u32, Error> {
        let rank = self.required(name, u64::MAX)?;
        let known = u32::try_from(rank).ok().filter(|&rank| (rank as usize) < ranks);
        known.ok_or_else(|| self.error(format!("{name} = {rank}"), ranks_of(ranks)))
    }

    /// Refuses an attribute with another rank than that of the file.
    fn own(self, name: &str) -> Result<(), Error> {
        let NodeInFile { rank, .. } = self;
        match self.number(name, u64::MAX)? {
            Some(other) if other != u64::from(rank) => {
                let expected = format!("{rank}, the rank of the file, or no {name}");
                Err(self.error(format!("{name} = {other}"), expected))
            }
            _ => Ok(()),
        }
    }

    /// The process group of a collective; `None` for all ranks.
    fn group(&self) -> Result<Option<&str>, Error> {
        let Some(attribute) = self.attribute("pg_name") else { return Ok(None) };
        match &attribute.value {
            Some(Value::Text(name)) => Ok(Some(name.as_str()).filter(|name| !name.is_empty())),
            _ => Err(self.error(attribute.to_string(), "text in the attribute pg_name")),
        }
    }
}

impl Reader<'_> {
    fn rank(&mut self, rank: u32, nodes: &[Node]) -> Result<(), Error> {
        self.draft.rank();
        let sources = self.sources;
        let file = &sources[rank as usize].name;
        // First and last operation of each node.
        let mut operations: Vec<(u32, u32)> = Vec::with_capacity(nodes.len());
        let mut numbers: BTreeMap<Option<String>, u32> = BTreeMap::new();
        for node in nodes {
            let here = NodeInFile { file, rank, node };
            operations.push(self.node(here, &mut numbers)?);
        }
        for (node, &(first, _)) in nodes.iter().zip(&operations) {
            let mut before = node.data_deps.clone();
            if self.dependencies == Dependencies::All {
                before.extend(&node.ctrl_deps);
            }
            before.sort_unstable();
            before.dedup();
            for id in before {
                let Ok(at) = nodes.binary_search_by_key(&id, |node| node.id) else {
                    let mut expected = match self.dependencies {
                        Dependencies::All => "IDs of nodes of this file in ctrl_deps and data_deps",
                        Dependencies::Data => "IDs of nodes of this file in data_deps",
                    }
                    .to_owned();
                    if !node.data_deps.contains(&id) {
                        expected = format!("{expected}, or {REMEDY}");
                    }
                    let here = NodeInFile { file, rank, node };
                    return Err(here.error(format!("a dependency on node {id}"), expected));
                };
                self.draft.follow(operations[at].1, first);
            }
        }
        Ok(())
    }

    /// Adds a node, and returns its first and its last operation.
    fn node(
        &mut self,
        here: NodeInFile<'_>,
        numbers: &mut BTreeMap<Option<String>, u32>,
    ) -> Result<(u32, u32), Error> {
        let NodeInFile { node, rank, .. } = here;
        if u64::from(self.draft.len()) >= self.terms.operations {
            return Err(too_many(here, self.terms));
        }
        let ranks = self.sources.len();
        let operation = match Kind::try_from(node.kind) {
            Ok(Kind::Metadata) => self.draft.wait(node.id),
            // The schema 1.0.1 also records the call of a collective on the processor.
            Ok(Kind::Collective)
                if !here.is_on_processor() || here.attribute("comm_type").is_some() =>
            {
                return self.collective(here, numbers);
            }
            Ok(Kind::Compute | Kind::MemoryLoad | Kind::MemoryStore | Kind::Collective) => {
                let span = self.computing.span(rank, node.duration_micros, Span::us(1));
                let Some(span) = span else {
                    let found = format!("a duration of {} us", node.duration_micros);
                    let expected =
                        format!("at most {LONGEST} with compute_scale and straggler_factor");
                    return Err(here.error(found, expected));
                };
                let stream = if here.is_on_processor() { PROCESSOR } else { ACCELERATOR };
                self.draft.compute(node.id, span, stream)
            }
            Ok(Kind::Send) => {
                here.own("comm_src")?;
                let (to, tag) = (here.peer("comm_dst", ranks)?, tag(here)?);
                let bytes = here.required("comm_size", MOST_BYTES)?;
                self.draft.send(node.id, to, tag, bytes)
            }
            Ok(Kind::Receive) => {
                here.own("comm_dst")?;
                let (from, tag) = (here.peer("comm_src", ranks)?, tag(here)?);
                let bytes = here.required("comm_size", MOST_BYTES)?;
                self.draft.receive(node.id, from, tag, bytes)
            }
            Ok(Kind::Invalid) | Err(_) => {
                let expected = "a metadata (1), memory (2, 3), compute (4), send (5), receive (6) \
                                or collective node (7): convert the trace with a known schema";
                return Err(here.error(format!("the node type {}", node.kind), expected));
            }
        };
        Ok((operation, operation))
    }

    fn collective(
        &mut self,
        here: NodeInFile<'_>,
        numbers: &mut BTreeMap<Option<String>, u32>,
    ) -> Result<(u32, u32), Error> {
        let NodeInFile { node, rank, .. } = here;
        if let Some(Attribute { value: Some(Value::Bools(dims)), .. }) =
            here.attribute("involved_dim")
            && dims.values.contains(&false)
        {
            let expected = "collectives over all dimensions: name their ranks by pg_name and the \
                            key groups instead";
            return Err(here.error("involved_dim with a dimension that is left out", expected));
        }
        let group = here.group()?;
        let groups = &self.terms.groups;
        let members = match group {
            None => &self.everyone,
            Some(name) => groups.get(name).ok_or_else(|| {
                let expected = match groups.is_empty() {
                    true => "the key groups with a JSON file that lists the ranks of this group",
                    false => "a process group of the JSON file that the key groups names",
                };
                let near = nearest(name, groups.keys().map(String::as_str));
                here.error(format!("pg_name = {name:?}"), expected).suggest(near)
            })?,
        };
        let Some(own) = members.iter().position(|&member| member == rank) else {
            let found = format!("pg_name = {:?}", group.unwrap_or_default());
            let expected = format!("a process group with rank {rank}, the rank of the file");
            return Err(here.error(found, expected));
        };
        let number = here.required("comm_type", i32::MAX as u64)? as i32;
        let operation = Operation::try_from(number).ok();
        let bytes = match operation {
            Some(Operation::Barrier) => 1,
            _ => here.required("comm_size", MOST_BYTES)?.max(1),
        };
        let (ranks, all_reduce) = (members.len() as u32, self.terms.all_reduce);
        let expansion = operation
            .and_then(|operation| Expansion::new(operation, bytes, ranks, all_reduce))
            .ok_or_else(|| {
                let expected = "all-reduce (0), reduce (1), all-gather (2), broadcast (5), \
                                all-to-all (6), reduce-scatter (7, 8) or barrier (9)";
                here.error(format!("the collective comm_type = {number}"), expected)
            })?;
        let added = u64::from(self.draft.len()) + expansion.operations(own as u32);
        if added > self.terms.operations {
            return Err(too_many(here, self.terms));
        }
        let group = group.map(str::to_owned);
        let count = numbers.entry(group.clone()).or_insert(0);
        let call = (group, *count);
        *count += 1;
        let at = At { rank, place: node.id };
        let known = match self.calls.entry(call) {
            Entry::Vacant(entry) => &mut entry.insert((expansion, at)).0,
            Entry::Occupied(entry) => {
                let (known, first) = entry.into_mut();
                if !known.matches(&expansion) {
                    let expected = format!(
                        "the operation and comm_size of node {} in {}, which is the same \
                         collective",
                        first.place, self.sources[first.rank as usize].name
                    );
                    let found = format!("comm_type = {number} of {bytes} bytes");
                    return Err(here.error(found, expected));
                }
                known
            }
        };
        Ok(known.add(&mut self.draft, own as u32, node.id))
    }

    fn finish(mut self) -> Result<Program, Error> {
        for ((group, _), (expansion, first)) in &self.calls {
            if let Some(missing) = expansion.missing() {
                let members = group.as_ref().and_then(|name| self.terms.groups.get(name));
                let rank = members.unwrap_or(&self.everyone)[missing];
                let file = &self.sources[first.rank as usize].name;
                let found = format!("a collective in node {} without rank {rank}", first.place);
                let expected = format!(
                    "the same number of collectives of a process group at all its ranks: see {}",
                    self.sources[rank as usize].name
                );
                return Err(Error::whole(file, found, expected));
            }
            expansion.link(&mut self.draft);
        }
        let name = |At { rank, place }| format!("rank {rank}, node {place}");
        let file = |at: At| (self.sources[at.rank as usize].name.clone(), 0);
        self.draft.finish().map_err(|fault| {
            let is_cycle = matches!(fault, Fault::Cycle(_));
            let mut error = fault.error(file, name);
            if is_cycle
                && self.dependencies == Dependencies::All
                && read_with(Dependencies::Data, self.sources, self.terms).is_ok()
            {
                error.expected = format!("{}, or set {REMEDY}", error.expected).into();
            }
            error
        })
    }
}

fn tag(here: NodeInFile<'_>) -> Result<u64, Error> {
    Ok(here.number("comm_tag", u64::from(u32::MAX))?.unwrap_or(0))
}

fn too_many(here: NodeInFile<'_>, terms: &Terms) -> Error {
    let most = terms.operations;
    here.error(
        format!("more than {most} operations"),
        format!(
            "at most {most}, with those of expanded collectives: use fewer ranks or nodes, or \
                 all_reduce = \"tree\""
        ),
    )
}
