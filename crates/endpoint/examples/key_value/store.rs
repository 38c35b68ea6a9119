//! A store of values by key. Each of its operations is a request.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidegate_algos::Protocol;
use tidegate_core::Rate;
use tidegate_endpoint::host::{Error, Host, Message, Peer, Request};
use tidegate_endpoint::node::Config;
use tidegate_endpoint::session::Key;

const GET: u8 = 0;
const PUT: u8 = 1;
const DELETE: u8 = 2;
/// A reply begins with whether there was a value.
const NONE: &[u8] = &[0];
const SOME: u8 = 1;

/// What both sides have in common. Who has the key may speak with the store.
pub(crate) fn config(key: &str) -> Config {
    Config::real(Protocol::USUAL.stack(), Key::new(key.as_bytes()), Rate::gbps(10))
}

/// Answers requests until the host is closed.
pub(crate) fn serve(host: &Host) -> Error {
    let mut values = BTreeMap::new();
    loop {
        match host.receive().wait() {
            Ok((_, Message::Request(request))) => answer(&mut values, request),
            Ok((from, Message::Plain(_))) => println!("{from:?} does not ask"),
            Err(why) => return why,
        }
    }
}

/// A request that makes no sense is dropped, which tells whoever asked.
fn answer(values: &mut BTreeMap<Bytes, Bytes>, request: Request) {
    let Some((operation, key, value)) = parse(request.body()) else { return };
    let before = match operation {
        GET => values.get(&key).cloned(),
        PUT => values.insert(key, value),
        DELETE => values.remove(&key),
        _ => return,
    };
    // Whether the reply arrives is of no concern here.
    request.reply(match before {
        Some(value) => Bytes::from([&[SOME], &value[..]].concat()),
        None => Bytes::from_static(NONE),
    });
}

/// Operation, key and value: a byte, the key's length in four, the key, and the rest.
fn parse(body: &Bytes) -> Option<(u8, Bytes, Bytes)> {
    let (&operation, rest) = body.split_first()?;
    let (&length, rest) = rest.split_first_chunk()?;
    let (key, value) = rest.split_at_checked(u32::from_be_bytes(length) as usize)?;
    // The key outlives the request; the value is most of it.
    Some((operation, Bytes::copy_from_slice(key), body.slice_ref(value)))
}

/// A store elsewhere.
#[derive(Clone)]
pub(crate) struct Store(pub(crate) Peer);

impl Store {
    /// The value of that key.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Bytes>, Error> {
        self.ask(GET, key, &[])
    }

    /// Sets it; what it was before.
    pub(crate) fn put(&self, key: &str, value: &[u8]) -> Result<Option<Bytes>, Error> {
        self.ask(PUT, key, value)
    }

    /// Removes it; what it was before.
    pub(crate) fn delete(&self, key: &str) -> Result<Option<Bytes>, Error> {
        self.ask(DELETE, key, &[])
    }

    fn ask(&self, operation: u8, key: &str, value: &[u8]) -> Result<Option<Bytes>, Error> {
        // No message is so long that this does not hold its key's length.
        let length = (key.len() as u32).to_be_bytes();
        let body = [&[operation], &length[..], key.as_bytes(), value].concat();
        let reply = self.0.request(body).wait()?;
        Ok(reply.strip_prefix(&[SOME]).map(|value| reply.slice_ref(value)))
    }
}
