//! Short runs, for the tests of this crate and of those above it.

use tidegate_core::Need;
use tidegate_results::Summary;
use tidegate_scenario::Plan;

use crate::{ProtocolEntry, RunOptions, protocols, run};

/// Protocols that run on any fabric, that is, without circuits.
pub(crate) fn anywhere() -> impl Iterator<Item = ProtocolEntry> {
    protocols().into_iter().filter(|info| !info.needs.contains(&Need::Circuits.name()))
}

/// An unlimited flow, a flow that stops, messages, and a queue, on a star of four hosts.
pub(crate) fn plan(protocol: &str) -> Plan {
    let text = format!(
        r#"
duration = "400us"
warmup = "100us"
fabric = {{ kind = "star", hosts = 4, mtu = "1500B" }}
transport = {{ protocol = "{protocol}" }}
flows = [
  {{ src = "h0", dst = "h3", label = "long" }},
  {{ src = "h1", dst = "h3", label = "short", start = "120us", size = "300KB" }},
  {{ src = "h2", dst = "h3", label = "short", start = "203us", size = "3KB", count = 5 }},
  {{ src = "h2", dst = "h1", label = "stopped", stop = "300us" }},
]
"#
    );
    tidegate_scenario::load(&text, "test.toml", &[]).unwrap()
}

/// Two clients of one server that also receives a message.
pub(crate) fn closed_loop(protocol: &str) -> Plan {
    let text = format!(
        r#"
duration = "400us"
warmup = "100us"
fabric = {{ kind = "star", hosts = 4, mtu = "1500B" }}
transport = {{ protocol = "{protocol}" }}
flows = [{{ src = "h2", dst = "h3", label = "short", start = "150us", size = "3KB" }}]

[[traffic]]
kind = "closed-loop"
label = "ask"
reply_label = "answer"
clients = "h[0-1]"
servers = "h3"
request = "3KB"
reply = "20KB"
think = "3us"
"#
    );
    tidegate_scenario::load(&text, "test.toml", &[]).unwrap()
}

/// A short run with messages, flows and two kinds of switches.
pub(crate) fn summary(seed: u64) -> Summary {
    let text = format!(
        "seed = {seed}\nduration = '200us'\nwarmup = '20us'\ndrain = '200us'\n\
         fabric = {{ kind = 'leaf-spine', racks = 2, hosts_per_rack = 2, spines = 1 }}\n\
         transport = {{ protocol = 'swift' }}\n\
         flows = [{{ src = 'h0', dst = 'h3', label = 'long' }}]\n\
         [[traffic]]\nkind = 'poisson'\nlabel = 'short'\nsizes = '20KB'\nload = 0.3\n"
    );
    let plan = tidegate_scenario::load(&text, "test.toml", &[]).unwrap();
    run(&plan, &RunOptions::default()).unwrap()
}
