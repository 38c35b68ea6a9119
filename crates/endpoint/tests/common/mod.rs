//! Nodes for tests.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::net::SocketAddr;

use tidegate_algos::Protocol;
use tidegate_core::{Domain, Rate, Rng};
use tidegate_endpoint::node::{Config, Entropy, Node};
use tidegate_endpoint::session::Key;

/// Deterministic random bytes that differ between hosts.
pub fn entropy(seed: u64, host: u64) -> Entropy {
    let mut rng = Rng::stream(seed, Domain::Stack, host);
    Box::new(move |bytes| bytes.iter_mut().for_each(|byte| *byte = rng.below(256) as u8))
}

/// A node whose protocol has no switch requirements.
pub fn node(seed: u64, key: &[u8]) -> Node {
    let stack = Protocol::named("swift").unwrap().stack();
    Node::new(Config::new(stack, Key::new(key), Rate::gbps(10)), entropy(seed, 0)).unwrap()
}

pub fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 5_270))
}
