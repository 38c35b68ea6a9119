//! Idle hosts use no processor time. The only test of its process, whose time is measured.
#![cfg(target_os = "linux")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tidegate_algos::Protocol;
use tidegate_core::Rate;
use tidegate_endpoint::host::Host;
use tidegate_endpoint::node::Config;
use tidegate_endpoint::session::Key;

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap().into()
}

#[test]
fn idle_hosts_sleep() {
    let config = Config::real(Protocol::DEFAULT.stack(), Key::new(b"idle"), Rate::gbps(10));
    let host = || Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), config.clone()).unwrap();
    let (server, client) = (host(), host());
    let peer = client.connect(server.address()).wait_for(Duration::from_secs(30)).unwrap();
    peer.send("there").wait_for(Duration::from_secs(30)).unwrap();
    let before = processor_time();
    std::thread::sleep(Duration::from_secs(1));
    let spent = processor_time() - before;
    assert!(spent < Duration::from_millis(50), "{spent:?} of a second");
}
