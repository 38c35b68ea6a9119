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
/// First byte of a reply: whether there was a value.
const NONE: &[u8] = &[0];
const SOME: u8 = 1;

/// The configuration of client and server. Every holder of the key may use the store.
pub(crate) fn config(key: &str) -> Config {
    Config::real(Protocol::DEFAULT.stack(), Key::new(key.as_bytes()), Rate::gbps(10))
}

/// Answers requests until the host is closed.
pub(crate) fn serve(host: &Host) -> Error {
    let mut values = BTreeMap::new();
    loop {
        match host.receive().wait() {
            Ok((_, Message::Request(request))) => answer(&mut values, request),
            Ok((from, Message::Plain(_))) => println!("{from:?}: not a request"),
            Err(why) => return why,
        }
    }
}

/// An invalid request is dropped, which its sender receives as an error.
fn answer(values: &mut BTreeMap<Bytes, Bytes>, request: Request) {
    let Some((operation, key, value)) = parse(request.body()) else { return };
    let before = match operation {
        GET => values.get(&key).cloned(),
        PUT => values.insert(key, value),
        DELETE => values.remove(&key),
        _ => return,
    };
    // The server does not wait for the delivery of the reply.
    request.reply(match before {
        Some(value) => Bytes::from([&[SOME], &value[..]].concat()),
        None => Bytes::from_static(NONE),
    });
}

/// Parses operation (one byte), length of the key (four bytes), key, and value (the rest).
fn parse(body: &Bytes) -> Option<(u8, Bytes, Bytes)> {
    let (&operation, rest) = body.split_first()?;
    let (&length, rest) = rest.split_first_chunk()?;
    let (key, value) = rest.split_at_checked(u32::from_be_bytes(length) as usize)?;
    // The stored key is copied; the value refers to the memory of the request.
    Some((operation, Bytes::copy_from_slice(key), body.slice_ref(value)))
}

/// A client of a store.
#[derive(Clone)]
pub(crate) struct Store(pub(crate) Peer);

impl Store {
    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Bytes>, Error> {
        self.ask(GET, key, &[])
    }

    /// Sets the value of a key; returns the previous one.
    pub(crate) fn put(&self, key: &str, value: &[u8]) -> Result<Option<Bytes>, Error> {
        self.ask(PUT, key, value)
    }

    /// Removes a key; returns its previous value.
    pub(crate) fn delete(&self, key: &str) -> Result<Option<Bytes>, Error> {
        self.ask(DELETE, key, &[])
    }

    fn ask(&self, operation: u8, key: &str, value: &[u8]) -> Result<Option<Bytes>, Error> {
        // The maximum message is shorter than 4 GiB.
        let length = (key.len() as u32).to_be_bytes();
        let body = [&[operation], &length[..], key.as_bytes(), value].concat();
        let reply = self.0.request(body).wait()?;
        Ok(reply.strip_prefix(&[SOME]).map(|value| reply.slice_ref(value)))
    }
}
