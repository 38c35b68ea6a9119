//! The examples of docs/endpoint.md, which are here verbatim, run on real sockets.
#![cfg(target_os = "linux")]

use std::error::Error;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use tidegate_algos::Protocol;
use tidegate_core::Rate;
use tidegate_endpoint::host::{Host, Message};
use tidegate_endpoint::node::Config;
use tidegate_endpoint::session::Key;

const DOCUMENT: &str = include_str!("../../../docs/endpoint.md");
const HERE: &str = include_str!("documented.rs");

type Outcome = Result<(), Box<dyn Error>>;

#[rustfmt::skip]
fn requests(secret: [u8; 16], address: SocketAddr, server: SocketAddr) -> Outcome {
    // Example:
    let config = Config::real(Protocol::DEFAULT.stack(), Key::new(&secret), Rate::gbps(10));
    let host = Host::bind(address, config)?;          // a socket and its thread
    let peer = host.connect(server).wait()?;
    peer.send("a message").wait()?;                   // the other side has all of it
    let reply = peer.request("a question").wait_for(Duration::from_secs(1))?;
    host.close().wait()?;                             // after all messages are delivered
    // End.
    assert_eq!(reply, "an answer");
    Ok(())
}

fn answers(host: Host) {
    // Example:
    while let Ok((from, message)) = host.receive().wait() {
        match message {
            Message::Plain(body) => println!("{} bytes from {from:?}", body.len()),
            Message::Request(request) => drop(request.reply("an answer")),
        }
    }
    // End.
}

#[test]
fn documented_examples_talk_to_each_other() {
    let secret = *b"of this document";
    let address = "127.0.0.1:0".parse().unwrap();
    let config = Config::real(Protocol::DEFAULT.stack(), Key::new(&secret), Rate::gbps(10));
    let server = Host::bind(address, config).unwrap();
    let (at, closing) = (server.address(), server.clone());
    let answering = thread::spawn(move || answers(server));
    let outcome = requests(secret, address, at);
    closing.close().wait().unwrap();
    answering.join().unwrap();
    outcome.unwrap();
}

#[test]
fn documented_examples_are_those_of_the_test() {
    let documented =
        DOCUMENT.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let body = |rest: &str| -> String {
        let lines = rest.split("    // End.").next().unwrap().lines();
        lines.map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n").collect()
    };
    let tested: Vec<String> = HERE.split("    // Example:\n").skip(1).map(body).collect();
    assert_eq!(
        documented.collect::<Vec<_>>(),
        tested,
        "change docs/endpoint.md and this file alike"
    );
}
