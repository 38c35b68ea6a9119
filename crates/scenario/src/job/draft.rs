//! A draft of a program: operations as files give them. It matches messages, refuses deadlocks, and
//! orders the dependencies.

use sha2::{Digest, Sha256};
use tidegate_core::Span;
use tidegate_core::job::{Operation, Program};

use crate::error::Error;

/// Largest number of operations of a cycle that a message names.
const SHOWN: usize = 8;

/// Operations by rank, in the order of the files.
#[derive(Default)]
pub(super) struct Draft {
    first: Vec<u32>,
    operations: Vec<Operation>,
    /// By operation: its place in the file of its rank.
    places: Vec<u64>,
    orders: Vec<Order>,
    sends: Vec<End>,
    receives: Vec<End>,
    streams: u32,
}

/// An operation waits for another one of its rank.
struct Order {
    before: u32,
    after: u32,
    /// It waits for the start of the other one.
    on_start: bool,
}

/// An end of a message. The nth send of a rank to another one with a tag matches the nth receive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    from: u32,
    to: u32,
    tag: u64,
    operation: u32,
    bytes: u64,
}

/// An operation that a message names.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) rank: u32,
    /// Its place in the file of the rank.
    pub(super) place: u64,
}

/// A reason why operations are no program.
pub(super) enum Fault {
    /// An operation at fault, the fault, and the remedy.
    One(At, String, String),
    /// A deadlock: each operation waits for the next one, and the last one for the first one.
    Cycle(Vec<At>),
}

impl Draft {
    /// Begins the next rank, and returns its number.
    pub(super) fn rank(&mut self) -> u32 {
        self.first.push(self.operations.len() as u32);
        self.first.len() as u32 - 1
    }

    /// Number of ranks that have begun.
    pub(super) fn ranks(&self) -> u32 {
        self.first.len() as u32
    }

    /// Number of operations.
    pub(super) fn len(&self) -> u32 {
        self.operations.len() as u32
    }

    /// Adds an operation that only waits for others, and returns its index.
    pub(super) fn wait(&mut self, place: u64) -> u32 {
        self.places.push(place);
        self.operations.push(Operation {
            needs: 0,
            dependents: 0,
            landing: u32::MAX,
            stream: Operation::NO_STREAM,
            span: Span::ZERO,
            bytes: 0,
        });
        self.operations.len() as u32 - 1
    }

    /// Adds a computation.
    pub(super) fn compute(&mut self, place: u64, span: Span, stream: u32) -> u32 {
        let operation = self.wait(place);
        self.streams = self.streams.max(stream + 1);
        let of = &mut self.operations[operation as usize];
        (of.span, of.stream) = (span, stream);
        operation
    }

    /// Adds a send of the last rank.
    pub(super) fn send(&mut self, place: u64, to: u32, tag: u64, bytes: u64) -> u32 {
        let (operation, from) = (self.wait(place), self.ranks() - 1);
        self.sends.push(End { from, to, tag, operation, bytes });
        operation
    }

    /// Adds a receive of the last rank.
    pub(super) fn receive(&mut self, place: u64, from: u32, tag: u64, bytes: u64) -> u32 {
        let (operation, to) = (self.wait(place), self.ranks() - 1);
        self.receives.push(End { from, to, tag, operation, bytes });
        operation
    }

    /// Lets an operation wait for the completion of another one of its rank.
    pub(super) fn follow(&mut self, before: u32, after: u32) {
        self.orders.push(Order { before, after, on_start: false });
    }

    /// Lets an operation wait for the start of another one of its rank. Only computations start
    /// later than they could, and complete later than they start.
    pub(super) fn follow_start(&mut self, before: u32, after: u32) {
        let on_start = self.operations[before as usize].stream != Operation::NO_STREAM;
        self.orders.push(Order { before, after, on_start });
    }

    /// Lets an operation send a message that arrives at another one.
    pub(super) fn link(&mut self, sender: u32, landing: u32, bytes: u64) {
        let of = &mut self.operations[sender as usize];
        (of.landing, of.bytes) = (landing, bytes);
        self.operations[landing as usize].needs += 1;
    }

    /// The program.
    pub(super) fn finish(mut self) -> Result<Program, Fault> {
        self.first.push(self.operations.len() as u32);
        self.match_messages()?;
        let mut counts = vec![0u32; self.operations.len() + 1];
        for order in &self.orders {
            counts[order.before as usize + 1] += 1;
            self.operations[order.after as usize].needs += 1;
        }
        for at in 1..counts.len() {
            counts[at] += counts[at - 1];
        }
        for (operation, &from) in self.operations.iter_mut().zip(&counts) {
            operation.dependents = from;
        }
        let mut dependents = vec![0; self.orders.len()];
        for order in &self.orders {
            let next = &mut counts[order.before as usize];
            let flag = if order.on_start { Program::ON_START } else { 0 };
            dependents[*next as usize] = order.after | flag;
            *next += 1;
        }
        let Draft { first, operations, places, streams, .. } = self;
        let mut program = Program { first, operations, dependents, streams, hash: String::new() };
        check_order(&program, &places)?;
        program.hash = hash(&program);
        Ok(program)
    }

    /// Matches sends and receives. Messages of a rank to itself become dependencies.
    fn match_messages(&mut self) -> Result<(), Fault> {
        let (mut sends, mut receives) =
            (std::mem::take(&mut self.sends), std::mem::take(&mut self.receives));
        sends.sort_unstable();
        receives.sort_unstable();
        let key = |end: &End| (end.from, end.to, end.tag);
        let mut others = receives.iter().peekable();
        for send in &sends {
            if let Some(receive) = others.next_if(|receive| key(receive) < key(send)) {
                return Err(self.unmatched(receive, false));
            }
            let Some(receive) = others.next_if(|receive| key(receive) == key(send)) else {
                return Err(self.unmatched(send, true));
            };
            if receive.bytes < send.bytes {
                let expected = format!(
                    "at least {} bytes, the size of the message that rank {} sends",
                    send.bytes, send.from
                );
                let found = format!("a receive of {} bytes", receive.bytes);
                return Err(Fault::One(self.at(receive.operation), found, expected));
            }
            if send.from == send.to {
                self.follow(send.operation, receive.operation);
            } else {
                // An empty message is a header, which the engine models as one byte.
                self.link(send.operation, receive.operation, send.bytes.max(1));
            }
        }
        others.next().map_or(Ok(()), |receive| Err(self.unmatched(receive, false)))
    }

    fn unmatched(&self, end: &End, is_send: bool) -> Fault {
        let End { from, to, tag, operation, .. } = *end;
        let (own, other) = if is_send { ("send", "receive") } else { ("receive", "send") };
        let found = format!("a {own} without a {other}");
        let expected = format!(
            "as many receives of rank {to} from rank {from} with tag {tag} as sends: add the \
             {other}, or remove the {own}"
        );
        Fault::One(self.at(operation), found, expected)
    }

    fn at(&self, operation: u32) -> At {
        let rank = self.first.partition_point(|&first| first <= operation) as u32 - 1;
        At { rank, place: self.places[operation as usize] }
    }
}

impl Fault {
    /// The error. `file` returns the file and the line, or 0, of an operation, and `name` its name.
    pub(super) fn error(
        self,
        file: impl Fn(At) -> (String, u32),
        name: impl Fn(At) -> String,
    ) -> Error {
        let (at, found, expected) = match self {
            Fault::One(at, found, expected) => (at, format!("{found}: {}", name(at)), expected),
            Fault::Cycle(cycle) if cycle.len() == 1 => {
                let expected = "operations that do not wait for themselves: remove this dependency";
                let found = format!("an operation that waits for itself: {}", name(cycle[0]));
                (cycle[0], found, expected.into())
            }
            Fault::Cycle(cycle) => {
                let names = cycle.iter().take(SHOWN).map(|&at| name(at)).collect::<Vec<_>>();
                let more = match cycle.len().saturating_sub(SHOWN) {
                    0 => String::new(),
                    more => format!(", which waits for {more} more, the last of them"),
                };
                let expected = format!(
                    "operations that do not wait for each other: {}{more}, which waits for the \
                     first one; remove one of these dependencies or messages",
                    names.join(", which waits for ").replacen(", which", "", 1),
                );
                (cycle[0], format!("a deadlock of {} operations", cycle.len()), expected)
            }
        };
        let (file, line) = file(at);
        let mut error = Error::whole(&file, found, expected);
        error.line = line;
        error
    }
}

/// Refuses operations that wait for each other in a circle.
fn check_order(program: &Program, places: &[u64]) -> Result<(), Fault> {
    let count = program.operations.len();
    let mut needs: Vec<u32> = program.operations.iter().map(|operation| operation.needs).collect();
    let mut ready: Vec<u32> = (0..count as u32).filter(|&at| needs[at as usize] == 0).collect();
    let mut done = 0;
    while let Some(operation) = ready.pop() {
        done += 1;
        for after in followers(program, operation) {
            needs[after as usize] -= 1;
            if needs[after as usize] == 0 {
                ready.push(after);
            }
        }
    }
    if done == count {
        return Ok(());
    }
    // Every operation that is left waits for another one that is left.
    let mut before = vec![u32::MAX; count];
    for operation in (0..count as u32).filter(|&at| needs[at as usize] > 0) {
        for after in followers(program, operation) {
            before[after as usize] = operation;
        }
    }
    let mut at = (0..count).find(|&at| needs[at] > 0).unwrap_or(0) as u32;
    let mut seen = vec![false; count];
    while !std::mem::replace(&mut seen[at as usize], true) {
        at = before[at as usize];
    }
    let (start, mut cycle) = (at, Vec::new());
    loop {
        let (rank, _) = program.position(at);
        cycle.push(At { rank, place: places[at as usize] });
        at = before[at as usize];
        if at == start {
            return Err(Fault::Cycle(cycle));
        }
    }
}

/// Operations that wait for an operation, or for its message.
fn followers(program: &Program, operation: u32) -> impl Iterator<Item = u32> {
    let landing = program.operations[operation as usize].landing;
    let others = program.dependents_of(operation as usize).iter();
    others.map(|after| after & !Program::ON_START).chain((landing != u32::MAX).then_some(landing))
}

/// SHA-256 of a program in hexadecimal.
fn hash(program: &Program) -> String {
    let mut hash = Sha256::new();
    let mut put = |value: u64| hash.update(value.to_le_bytes());
    put(u64::from(program.streams));
    put(program.first.len() as u64);
    program.first.iter().for_each(|&first| put(u64::from(first)));
    for operation in &program.operations {
        let Operation { needs, dependents, landing, stream, span, bytes } = *operation;
        put(u64::from(needs) << 32 | u64::from(dependents));
        put(u64::from(landing) << 32 | u64::from(stream));
        put(span.as_ps());
        put(bytes);
    }
    program.dependents.iter().for_each(|&dependent| put(u64::from(dependent)));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
