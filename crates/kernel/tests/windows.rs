//! Windows and paces of sockets, as the kernel reports them.

#![allow(clippy::disallowed_types, reason = "a test measures how long a paced transfer takes")]

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::{GetStruct, SetStruct, TcpCongestion};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, connect, getsockopt, setsockopt, socket,
};
use tidegate_algos::Protocol;
use tidegate_core::params::Value;
use tidegate_core::{Extent, Rate, Span};
use tidegate_kernel::{Control, Fabric, unload};

use crate::faults::net::{Connection, Fault, Network, STAMP, STRIP, Samples, within};
use crate::faults::{Lab, control_of, storage, wait};
use crate::loading::ip;

/// Bytes of a full packet on the wire: MTU, and Ethernet with its preamble and gap.
const PACKET: u64 = 1_538;
const INITIAL_BYTES: u64 = 10 * PACKET;
const BASE_RTT: Span = Span::ms(10);

/// Socket option: state of the connection (`struct tcp_info`).
#[derive(Clone, Copy)]
struct Info;
nix::getsockopt_impl!(Info, libc::IPPROTO_TCP, libc::TCP_INFO, TcpInfo, GetStruct<TcpInfo>);

/// The beginning of the kernel's `struct tcp_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct TcpInfo {
    /// The first byte.
    state: u8,
    _before_mss: [u8; 15],
    mss: u32,
    _before_rtt: [u32; 12],
    rtt_us: u32,
    _before_window: [u32; 2],
    /// Packets.
    pub(super) window: u32,
    _before_pacing_rate: [u32; 5],
    /// Bytes per second.
    pacing_rate: u64,
}

/// Socket option: largest pacing rate in bytes per second.
#[derive(Clone)]
struct MaxPacingRate;
nix::setsockopt_impl!(
    MaxPacingRate,
    libc::SOL_SOCKET,
    libc::SO_MAX_PACING_RATE,
    u64,
    SetStruct<'_, u64>
);

const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;

pub(super) fn info(end: &TcpStream) -> TcpInfo {
    getsockopt(end, Info).unwrap()
}

/// A control with an initial window of ten packets, and targets far above the delays of a busy
/// machine, which may also delay a test beyond the retransmission timeout. Connections therefore
/// restart after idle times only in tests that choose a shorter `restart_after`.
fn lab(control: Control, test: &str, more: &[(&str, Value)]) -> Option<(Lab, Network)> {
    lab_with(control, test, more, BASE_RTT)
}

fn lab_with(
    control: Control,
    test: &str,
    more: &[(&str, Value)],
    base_rtt: Span,
) -> Option<(Lab, Network)> {
    let mut values = vec![
        ("initial_window", Value::Extent(Extent::Bytes(INITIAL_BYTES as f64))),
        ("restart_after", Value::Span(Span::ms(900_000))),
    ];
    values.extend(match control.protocol {
        Protocol::Poseidon => vec![("p", Value::Span(Span::ms(100)))],
        Protocol::Swift => vec![("base_target", Value::Span(Span::ms(100)))],
        _ => vec![("min_rate", Value::Rate(Rate::mbps(1)))],
    });
    values.extend_from_slice(more);
    let fabric = Fabric { base_rtt, rate: Rate::gbps(1), hops: 1 };
    Some((Lab::with(control, test, &values, &fabric)?, Network::new(test)?))
}

fn is_paced(control: Control) -> bool {
    matches!(control.protocol, Protocol::PowerTcp | Protocol::ThetaPowerTcp)
}

#[test]
fn windows_grow_only_if_they_limit_sending() {
    for control in Control::ALL {
        let Some((_lab, network)) = lab(control, "limited", &[]) else { return };
        let mut connection = network.connection(control.name);
        (0..50).for_each(|_| connection.send(1));
        let small = info(&connection.client).window;
        assert!(small <= 10, "{}: {small} packets after single bytes", control.name);
        connection.send(1_000_000);
        let large = info(&connection.client).window;
        assert!(large > 10, "{}: {large} packets", control.name);
    }
}

/// PowerTCP and theta-PowerTCP pace at the window per base RTT. The others do not pace: the rate
/// that limits the queue at the sender's interface is twice the window per RTT. The kernel counts
/// payload only.
#[test]
fn paces_follow_windows_and_their_limit() {
    let addresses = ["10.78.0.2", "fd00::2"];
    for (control, address) in Control::ALL.into_iter().flat_map(|one| addresses.map(|at| (one, at)))
    {
        let Some((_lab, network)) = lab(control, "paces", &[]) else { return };
        let mut connection = network.connect(&network.listen_at(address));
        setsockopt(&connection.client, TcpCongestion, &control.name.into()).unwrap();
        connection.send(500_000);
        let state = info(&connection.client);
        let options = match control.protocol {
            Protocol::Poseidon => 8,
            Protocol::PowerTcp => 28,
            _ => 0,
        };
        let rate = state.pacing_rate as f64 * PACKET as f64 / f64::from(state.mss - options);
        let bytes = match control.protocol {
            Protocol::PowerTcp | Protocol::ThetaPowerTcp => rate * BASE_RTT.as_s_f64(),
            _ => rate * f64::from(state.rtt_us) * 1e-6 / 2.0,
        };
        let (packets, shown) = (bytes / PACKET as f64, f64::from(state.window));
        // Windows are rounded to packets, and the smoothed RTT to microseconds.
        assert!((packets - shown).abs() < 1.0 + 0.01 * shown, "{}: {state:?}", control.name);
        setsockopt(&connection.client, MaxPacingRate, &1_000_000).unwrap();
        connection.send(10_000);
        let limited = info(&connection.client).pacing_rate;
        assert_eq!(limited, 1_000_000, "{}", control.name);
        // The limit also applies to controls that do not pace.
        let begin = Instant::now();
        connection.send(300_000);
        let time = begin.elapsed();
        assert!(time > Duration::from_millis(200), "{}: {time:?}", control.name);
    }
}

#[test]
fn idle_connections_restart_with_the_initial_window() {
    for control in Control::ALL {
        // The kernel's variance of the RTT, which counts as well, is at least 200 ms.
        for (restart_after, idle_ms, restarts) in
            [(Span::ms(1), 700, 1), (Span::ms(1), 50, 0), (Span::ms(900_000), 700, 0)]
        {
            let restart_after = [("restart_after", Value::Span(restart_after))];
            let Some((lab, network)) = lab(control, "idle", &restart_after) else { return };
            let mut connection = network.connection(control.name);
            connection.send(1_000_000);
            let before = (lab.counter("restarts"), info(&connection.client).window);
            sleep(Duration::from_millis(idle_ms));
            connection.send(1);
            let after = (lab.counter("restarts"), info(&connection.client).window);
            let name = (control.name, restart_after, idle_ms);
            assert_eq!(after.0 - before.0, restarts, "{name:?}: {before:?} {after:?}");
            assert!(before.1 > 10, "{name:?}: {before:?}");
            assert_eq!(after.1 <= 10, restarts == 1, "{name:?}: {before:?} {after:?}");
        }
    }
}

/// Nothing is in flight at the time of a retransmission, but the connection is not idle.
#[test]
fn timeouts_reduce_windows_and_are_no_idle_times() {
    for control in Control::ALL {
        let restart_after = [("restart_after", Value::Span(Span::ms(1)))];
        let Some((lab, network)) = lab(control, "timeout", &restart_after) else { return };
        let mut connection = network.connection(control.name);
        connection.send(1_000_000);
        let client = connection.client.try_clone().unwrap();
        let before = ["losses", "restarts", "timeouts"].map(|name| lab.counter(name));
        let window = info(&client).window;
        network.fault(Fault { loss: 1.0, ..Fault::default() });
        let reduced = std::thread::scope(|scope| {
            let transfer = scope.spawn(|| connection.send(1_000));
            wait("timeouts are missing", || lab.counter("timeouts") >= before[2] + 2);
            let reduced = info(&client).window;
            network.fault(Fault::default());
            transfer.join().unwrap();
            reduced
        });
        let after = ["losses", "restarts"].map(|name| lab.counter(name));
        assert_eq!(after, before[..2], "{}: losses and restarts", control.name);
        assert!(reduced * 2 < window, "{}: {window} to {reduced}", control.name);
    }
}

/// Nothing has been acknowledged, so that a retransmission could pass for the first packet.
#[test]
fn first_packets_that_are_lost_reduce_windows() {
    for control in Control::ALL {
        let Some((lab, network)) = lab(control, "first", &[]) else { return };
        let mut connection = network.connection(control.name);
        let client = connection.client.try_clone().unwrap();
        network.fault(Fault { loss: 1.0, ..Fault::default() });
        std::thread::scope(|scope| {
            let transfer = scope.spawn(|| connection.send(100_000));
            wait("timeouts are missing", || lab.counter("timeouts") >= 2);
            let window = info(&client).window;
            network.fault(Fault::default());
            transfer.join().unwrap();
            assert!(window <= 5, "{}: {window} packets", control.name);
        });
    }
}

/// Packets that are longer than the path permits are sent again, shorter. The kernel then enters
/// the state of a timeout, without one.
#[test]
fn a_shorter_path_mtu_is_no_loss() {
    for control in Control::ALL {
        let Some((lab, network)) = lab(control, "pmtu", &[]) else { return };
        let mut connection = network.connection(control.name);
        connection.send(200_000);
        let client = connection.client.try_clone().unwrap();
        let before = (["losses", "timeouts"].map(|name| lab.counter(name)), info(&client));
        network.fault(Fault { loss: 1.0, ..Fault::default() });
        let begin = Instant::now();
        let (after, time) = std::thread::scope(|scope| {
            let transfer = scope.spawn(|| connection.send(200_000));
            wait("nothing is dropped", || network.seen().dropped > 5);
            network.report_mtu(&client, 1_000);
            wait("the segments are not shorter", || info(&client).mss < 1_000);
            let after = (["losses", "timeouts"].map(|name| lab.counter(name)), info(&client));
            let time = begin.elapsed();
            network.fault(Fault::default());
            transfer.join().unwrap();
            (after, time)
        });
        if time > Duration::from_millis(150) {
            eprintln!("SKIPPED: the machine is too slow: a retransmission timeout may have passed");
            continue;
        }
        assert_eq!(after.0, before.0, "{}: losses and timeouts", control.name);
        assert!(after.1.window >= before.1.window, "{}: {before:?} {after:?}", control.name);
    }
}

/// The kernel sets its own first window when a connection is established, also if the control was
/// chosen before.
#[test]
fn early_chosen_controls_have_their_first_window() {
    let control = Control::named("swift").unwrap();
    let two = [("initial_window", Value::Extent(Extent::Bytes(2.0 * PACKET as f64)))];
    let Some((_lab, network)) = lab(control, "early", &two) else { return };
    let listener = network.listen();
    let to = SockaddrIn::new(10, 78, 0, 2, listener.local_addr().unwrap().port());
    // The answer to the connection request waits for half a second.
    let client = behind_datagrams(&network, "2mbit", || {
        within(&network.a, || {
            let (kind, flags) = (SockType::Stream, SockFlag::SOCK_NONBLOCK);
            let client = socket(AddressFamily::Inet, kind, flags, None).unwrap();
            assert_eq!(connect(client.as_raw_fd(), &to), Err(Errno::EINPROGRESS));
            setsockopt(&client, TcpCongestion, &control.name.into()).unwrap();
            let client = TcpStream::from(client);
            assert_eq!(info(&client).state, SYN_SENT);
            client
        })
    });
    let Some(mut client) = client else { return };
    wait("the connection is not established", || info(&client).state == ESTABLISHED);
    // No acknowledgement changes the window.
    network.fault(Fault { loss: 1.0, ..Fault::default() });
    client.write_all(&[0]).unwrap();
    assert_eq!(info(&client).window, 2);
}

/// The acknowledgement of a retransmitted packet has timestamps in place of an RTT, in whole
/// milliseconds, which are only an upper bound.
#[test]
fn retransmitted_packets_have_no_sample() {
    let control = Control::named("theta-powertcp").unwrap();
    let Some((_lab, network)) = lab(control, "sample", &[]) else { return };
    let mut connection = network.connection(control.name);
    connection.send(100_000);
    let flows = MapHandle::from_map_id(storage()).unwrap();
    let mut whole = 0;
    for _ in 0..10 {
        // A sample of its own.
        connection.send(1);
        network.fault(Fault { loss: 1.0, ..Fault::default() });
        let client = connection.client.as_raw_fd();
        std::thread::scope(|scope| {
            let transfer = scope.spawn(|| connection.send(1));
            wait("nothing is dropped", || network.seen().dropped > 0);
            network.fault(Fault::default());
            transfer.join().unwrap();
        });
        // The law's state is first: its fourth word is the latest RTT in ns.
        let flow = flows.lookup(&client.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        let rtt = u64::from_ne_bytes(flow[24..32].try_into().unwrap());
        assert!(rtt > 0);
        whole += u32::from(rtt % 1_000_000 == 0);
    }
    // Without the rule, all are; with it, those that the timestamps bound.
    assert!(whole < 8, "{whole} of 10");
}

/// A tail loss probe repairs the loss of a last packet before the timeout. With ECN, the kernel
/// reports it like a mark.
#[test]
fn losses_that_probes_repair_count_without_ecn() {
    for (control, ecn) in Control::ALL.into_iter().flat_map(|one| [(one, "0"), (one, "1")]) {
        let Some((lab, network)) = lab(control, "probe", &[]) else { return };
        network.sysctl("tcp_ecn", ecn);
        let mut connection = network.connection(control.name);
        connection.send(1_000_000);
        let window = info(&connection.client).window;
        let before = ["losses", "timeouts"].map(|name| lab.counter(name));
        network.fault(Fault { loss: 1.0, ..Fault::default() });
        std::thread::scope(|scope| {
            let transfer = scope.spawn(|| connection.send(1_000));
            wait("nothing is dropped", || network.seen().dropped > 0);
            network.fault(Fault::default());
            transfer.join().unwrap();
        });
        // The acknowledgement of later data shows that the probe was needed.
        connection.send(1);
        let after = ["losses", "timeouts"].map(|name| lab.counter(name));
        let losses = u64::from(ecn == "0");
        assert_eq!(after, [before[0] + losses, before[1]], "{}, ECN {ecn}", control.name);
        let now = info(&connection.client).window;
        assert_eq!(now < window, ecn == "0", "{}, ECN {ecn}: {window} to {now}", control.name);
    }
}

/// The peer sends data while packets of the connection are in flight: most of it acknowledges
/// nothing. The base RTT is above all delays, so that windows may grow.
#[test]
fn data_of_the_peer_does_not_raise_unused_windows() {
    for control in Control::ALL {
        let slow = [("min_rate", Value::Rate(Rate::bps(100_000)))];
        let more = if is_paced(control) { &slow[..] } else { &[] };
        let Some((lab, network)) = lab_with(control, "unused", more, Span::ms(900)) else { return };
        // Acknowledgements wait behind data of the peer.
        if !network.limit_acks("1mbit") {
            return;
        }
        let connection = network.connection(control.name);
        let (mut from, mut to) = (&connection.client, &connection.server);
        from.set_nodelay(true).unwrap();
        to.write_all(&[0; 30_000]).unwrap();
        for _ in 0..8 {
            from.write_all(&[0]).unwrap();
            sleep(Duration::from_millis(30));
        }
        let window = info(&connection.client).window;
        assert!(window <= 10, "{}: {window} packets", control.name);
        let acks = lab.counter("acks");
        assert!((1..=9).contains(&acks), "{}: {acks} acknowledgements", control.name);
    }
}

/// The options of PowerTCP take 28 bytes of each segment.
#[test]
fn segments_are_full_after_a_change_of_control() {
    let control = Control::named("powertcp").unwrap();
    let Some((lab, network)) = lab(control, "full", &[]) else { return };
    let mut connection = network.connection(control.name);
    let mut largest = |name: &str| {
        setsockopt(&connection.client, TcpCongestion, &name.into()).unwrap();
        network.fault(Fault::default());
        connection.send(1_000_000);
        network.seen().largest
    };
    assert_eq!([control.name, "reno"].map(&mut largest), [1_514, 1_514]);
    // Without records to return, reno's packets have no options.
    let before = lab.counter("sent_options");
    connection.send(100_000);
    assert_eq!((before > 0, lab.counter("sent_options")), (true, before));
}

/// The window of PowerTCP and theta-PowerTCP is in bytes, so it becomes more packets if the path's
/// MTU falls.
#[test]
fn windows_in_bytes_survive_a_change_of_the_mtu() {
    for control in Control::ALL.into_iter().filter(|control| is_paced(*control)) {
        let Some((_lab, network)) = lab(control, "mtu", &[]) else { return };
        network.mtu(9_000);
        let mut connection = network.connection(control.name);
        connection.send(1_000_000);
        let bytes = |state: TcpInfo| u64::from(state.window) * u64::from(state.mss);
        let large = info(&connection.client);
        network.mtu(600);
        connection.send(1_000);
        let small = info(&connection.client);
        let name = control.name;
        assert!(small.mss < 600 && large.mss > 8_000, "{name}: {large:?} {small:?}");
        assert!(bytes(small) * 2 > bytes(large), "{name}: {large:?} {small:?}");
    }
}

/// The first records continue the window that PowerTCP had without them.
#[test]
fn first_records_keep_the_window() {
    let control = Control::named("powertcp").unwrap();
    let Some((lab, network)) = lab(control, "first", &[]) else { return };
    let mut connection = network.connection(control.name);
    connection.send(1_000_000);
    let (before, stamped) = (info(&connection.client), lab.counter("stamped"));
    network.fault(Fault { forward: STAMP, ..Fault::default() });
    // The acknowledgement of the first brings the first record.
    (0..2).for_each(|_| connection.send(1));
    let after = info(&connection.client);
    assert_eq!((stamped, lab.counter("stamped") > 0), (0, true));
    assert!(before.window > 30 && after.window * 5 > before.window * 4, "{before:?} {after:?}");
}

/// Without telemetry, Poseidon reacts to the RTT less its minimum. The queue of acknowledgements
/// holds 2 s.
#[test]
fn round_trips_limit_poseidon_without_telemetry() {
    let control = Control::named("poseidon").unwrap();
    let targets = [
        ("p", Value::Span(Span::ms(20))),
        ("k", Value::Span(Span::ms(5))),
        ("m", Value::Number(0.1)),
        ("max_mi", Value::Number(1.25)),
    ];
    let Some((lab, network)) = lab(control, "rtt", &targets) else { return };
    network.buffers(4_000_000, 8_000_000);
    if !network.limit_acks("200kbit") {
        return;
    }
    let mut connection = network.connection(control.name);
    let client = connection.client.try_clone().unwrap();
    let mut rtts = std::thread::scope(|scope| {
        let transfer = scope.spawn(|| connection.send(4_000_000));
        let mut rtts = Vec::new();
        while !transfer.is_finished() {
            rtts.push(info(&client).rtt_us);
            sleep(Duration::from_millis(5));
        }
        rtts
    });
    rtts.sort_unstable();
    let median = rtts[rtts.len() / 2];
    println!("{median} us, at most {} us", rtts[rtts.len() - 1]);
    // The target is 25 ms at most, the queue without a law 2 s; other programs add delays.
    assert!(median < 200_000 && lab.counter("losses") == 0, "{rtts:?}");
}

#[test]
fn connections_move_to_reno_if_the_default_is_gone() {
    for control in Control::ALL {
        let Some((lab, network)) = lab(control, "gone", &[]) else { return };
        let mut connection = network.connection(control.name);
        lab.drain_to("tg_nonesuch");
        connection.send(100_000);
        assert_eq!(control_of(&connection.client), "reno", "{}", control.name);
        assert_eq!(lab.counter("drained"), 1, "{}", control.name);
        unload(control, &lab.pins).unwrap();
    }
}

/// Acknowledgements with SACK blocks may have no room for records. With one block, there is room
/// for one record of two, which would pass for a path of one hop.
#[test]
fn acknowledgements_return_all_records_or_none() {
    let control = Control::named("powertcp").unwrap();
    for hops in [1, 2, 3] {
        let Some((lab, network)) = lab(control, "room", &[]) else { return };
        network.fault(Fault { forward: STAMP, loss: 0.05, hops, ..Fault::default() });
        let mut connection: Connection = network.connection(control.name);
        connection.send(1_000_000);
        let [dropped, stamped] = ["dropped_records", "stamped"].map(|name| lab.counter(name));
        assert!(dropped > 0 && stamped > 20, "{hops} hops: {dropped} {stamped}");
        let seen = network.seen();
        assert_eq!(seen.shortest, 4 + 8 * hops, "{hops} hops");
        let lost = lab.counter("lost_packets");
        assert!(lost > 0 && lost <= 2 * seen.dropped, "{lost} of {seen:?}");
    }
}

/// The bottleneck may be the hop for which the option had no room.
#[test]
fn records_of_some_of_the_hops_are_not_used() {
    let control = Control::named("powertcp").unwrap();
    for (hops, used) in [(3, true), (4, false)] {
        let Some((lab, network)) = lab(control, "part", &[]) else { return };
        network.fault(Fault { forward: STAMP, hops, ..Fault::default() });
        let mut connection = network.connection(control.name);
        connection.send(1_000_000);
        let counts = ["stamped", "unstamped"].map(|name| lab.counter(name) > 20);
        assert_eq!((counts, network.seen().shortest), ([used, !used], 28), "{hops} hops");
        // Round trips are shorter than the base RTT.
        assert!(info(&connection.client).window > 10, "{hops} hops");
    }
}

/// A window that only losses changed would remain at its minimum.
#[test]
fn windows_follow_round_trips_after_the_last_records() {
    let control = Control::named("powertcp").unwrap();
    let Some((lab, network)) = lab(control, "last", &[]) else { return };
    network.fault(Fault { forward: STAMP, ..Fault::default() });
    let mut connection = network.connection(control.name);
    connection.send(100_000);
    let client = connection.client.try_clone().unwrap();
    network.fault(Fault { loss: 1.0, ..Fault::default() });
    let reduced = std::thread::scope(|scope| {
        let transfer = scope.spawn(|| connection.send(1_000));
        wait("a timeout is missing", || lab.counter("timeouts") > 0);
        let reduced = info(&client).window;
        network.fault(Fault { forward: STRIP, backward: STRIP, ..Fault::default() });
        transfer.join().unwrap();
        reduced
    });
    let stamped = lab.counter("stamped");
    connection.send(1_000_000);
    let grown = info(&client).window;
    assert!(reduced <= 2 && grown > 10, "{reduced} to {grown} packets");
    // The receiver may return the last record once more.
    assert!(stamped > 0 && lab.counter("stamped") <= stamped + 1, "{stamped}");
    assert_eq!(lab.counter("restarts"), 0);
}

/// The route's locked metric is the largest window of a connection.
#[test]
fn windows_have_the_limit_of_the_route() {
    for control in Control::ALL {
        let Some((_lab, network)) = lab(control, "route", &[]) else { return };
        let route = ["route", "change", "10.78.0.0/24", "dev", "v0", "cwnd", "lock", "20"];
        ip(&[&["-n", &network.a][..], &route].concat());
        // The kernel takes the metrics of the route at the end of a first connection.
        network.connection("reno").send(1_000);
        wait("sockets remain", || network.sockets() == 0);
        let mut connection = network.connection(control.name);
        connection.send(1_000_000);
        assert_eq!(info(&connection.client).window, 20, "{}", control.name);
    }
}

/// After an idle time PowerTCP follows RTTs until the next record.
#[test]
fn restarts_without_records_follow_round_trips() {
    let control = Control::named("powertcp").unwrap();
    let restart_after = [("restart_after", Value::Span(Span::ms(1)))];
    let Some((lab, network)) = lab(control, "restart", &restart_after) else { return };
    network.fault(Fault { forward: STAMP, ..Fault::default() });
    let mut connection = network.connection(control.name);
    connection.send(100_000);
    assert!(lab.counter("stamped") > 0);
    network.fault(Fault { forward: STRIP, backward: STRIP, ..Fault::default() });
    connection.send(1);
    sleep(Duration::from_millis(700));
    connection.send(1_000_000);
    let window = info(&connection.client).window;
    assert!(lab.counter("restarts") > 0 && window > 10, "{window} packets");
}

/// fq paces by itself. A control that leaves ends the pacing that it began.
#[test]
fn pacing_of_the_kernel_is_that_of_the_control() {
    let [none, needed, fq] = [0, 1, 2];
    for control in Control::ALL {
        let Some((_lab, network)) = lab(control, "pacing", &[]) else { return };
        let samples = Samples::attach();
        let status = |connection: &mut Connection| {
            connection.send(1);
            samples.pacing()
        };
        let mut connection = network.connection(control.name);
        let paced = if is_paced(control) { needed } else { none };
        assert_eq!(status(&mut connection), paced, "{}", control.name);
        setsockopt(&connection.client, TcpCongestion, &"reno".into()).unwrap();
        assert_eq!(status(&mut connection), none, "{}: after it", control.name);
        if !network.queue_data("fq") {
            continue;
        }
        let mut connection = network.connection(control.name);
        (0..2).for_each(|_| connection.send(1));
        assert_eq!(status(&mut connection), fq, "{}: with fq", control.name);
    }
}

/// With a window far below one packet, nothing is in flight for longer than the retransmission
/// timeout. The kernel does not pace the first ten packets.
#[test]
fn paced_windows_are_no_idle_times() {
    let control = Control::named("swift").unwrap();
    let small = [
        ("restart_after", Value::Span(Span::ms(1))),
        ("initial_window", Value::Extent(Extent::Bytes(0.2))),
        ("min_cwnd", Value::Number(0.0001)),
        ("base_target", Value::Span(Span::us(1))),
        ("per_hop", Value::Span(Span::ZERO)),
        ("fs_range", Value::Span(Span::ZERO)),
    ];
    let Some((lab, network)) = lab(control, "gap", &small) else { return };
    // A delayed acknowledgement would lengthen the gaps to minutes.
    let route = ["route", "change", "10.78.0.0/24", "dev", "v1", "quickack", "1"];
    ip(&[&["-n", &network.b][..], &route].concat());
    let mut connection = network.connection(control.name);
    connection.send(10 * 1_448);
    let begin = Instant::now();
    connection.send(3 * 1_448);
    // A packet of an application that waited for an answer, before the pace permits it.
    sleep(Duration::from_millis(20));
    connection.send(1);
    assert!(begin.elapsed() > Duration::from_millis(300), "{:?}", begin.elapsed());
    assert_eq!(lab.counter("restarts"), 0);
}

/// Calls `f` while datagrams of the peer keep the queue of acknowledgements long: what a socket may
/// hold, some 140 KB, waits there. `None` if the machine cannot.
fn behind_datagrams<T>(network: &Network, rate: &str, f: impl FnOnce() -> T) -> Option<T> {
    network.limit_acks(rate).then_some(())?;
    let datagrams = within(&network.b, || UdpSocket::bind("10.78.0.2:0").unwrap());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                let _ = datagrams.send_to(&[0; 1_400], "10.78.0.1:9");
            }
        });
        sleep(Duration::from_millis(300));
        let result = f();
        is_done.store(true, Relaxed);
        Some(result)
    })
}

/// A receiver that reads slowly limits sending, and not the window. Round trips of some 11 ms are
/// below the base RTT, so that windows may grow.
#[test]
fn slow_receivers_do_not_raise_unused_windows() {
    for control in Control::ALL {
        let Some((lab, network)) = lab_with(control, "slow", &[], Span::ms(20)) else { return };
        network.sysctl("tcp_rmem", "4096 16000 16000");
        let connection = network.connection(control.name);
        let (mut client, mut server) = (&connection.client, &connection.server);
        let window = behind_datagrams(&network, "100mbit", || {
            client.set_nonblocking(true).unwrap();
            for _ in 0..100 {
                let _ = client.write(&[0; 10_000]);
                let _ = server.read(&mut [0; 2_000]);
                sleep(Duration::from_millis(10));
            }
            info(&connection.client).window
        });
        let Some(window) = window else { return };
        // Acknowledgements of the first packets, which are not paced, still raise it; otherwise it
        // would reach its maximum of 1,626 packets.
        assert!(window <= 100, "{}: {window} packets", control.name);
        assert!(lab.counter("acks") > 20, "{}: {}", control.name, lab.counter("acks"));
    }
}

/// Without stamps, a longer return path looks like a queue at first.
#[test]
fn longer_paths_do_not_starve_unstamped_poseidon() {
    let control = Control::named("poseidon").unwrap();
    let targets = [("p", Value::Span(Span::ms(5))), ("k", Value::Span(Span::ms(1)))];
    let Some((lab, network)) = lab(control, "longer", &targets) else { return };
    let mut connection = network.connection(control.name);
    connection.send(100_000);
    let (mut client, mut server) = (&connection.client, &connection.server);
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    let mut arrived = |time: Duration| {
        let (begin, mut bytes, mut rtt_us) = (Instant::now(), 0, 0);
        while begin.elapsed() < time {
            let _ = client.write(&[0; 10_000]);
            bytes += server.read(&mut [0; 100_000]).unwrap_or(0);
            // Retransmissions before the pace have samples of 0, so the last value may be one.
            rtt_us = rtt_us.max(info(&connection.client).rtt_us);
            sleep(Duration::from_millis(1));
        }
        (bytes, rtt_us)
    };
    let time = Duration::from_secs(4);
    let results = behind_datagrams(&network, "20mbit", || (arrived(time), arrived(time)));
    let Some((least, most)) = results else { return };
    println!("{least:?} {most:?}");
    // Windows below one packet send one in hundreds of round trips.
    assert!(most.0 > 50_000 && most.1 > 20_000, "{least:?} {most:?}");
    assert_eq!(lab.counter("stamped"), 0);
}

/// Below one packet, windows without stamps still limit the queue that they share: 60 flows have
/// 0.7 packets each, and without a law 400 ms of the queue.
#[test]
fn many_flows_without_telemetry_limit_their_queue() {
    let control = Control::named("poseidon").unwrap();
    let targets = [
        ("p", Value::Span(Span::ms(20))),
        ("k", Value::Span(Span::ms(5))),
        ("m", Value::Number(0.1)),
        ("initial_window", Value::Extent(Extent::Bytes(PACKET as f64))),
    ];
    let Some((lab, network)) = lab(control, "many", &targets) else { return };
    if !network.limit_data("20mbit") {
        return;
    }
    let flows: Vec<_> = (0..60).map(|_| network.connection(control.name)).collect();
    for end in flows.iter().flat_map(|flow| [&flow.client, &flow.server]) {
        end.set_nonblocking(true).unwrap();
    }
    let (begin, mut rtts) = (Instant::now(), Vec::new());
    while begin.elapsed() < Duration::from_secs(6) {
        for flow in &flows {
            let (mut client, mut server) = (&flow.client, &flow.server);
            let _ = client.write(&[0; 10_000]);
            let _ = server.read(&mut [0; 100_000]);
        }
        if begin.elapsed() > Duration::from_secs(3) {
            rtts.extend(flows.iter().map(|flow| info(&flow.client).rtt_us));
        }
        sleep(Duration::from_millis(2));
    }
    rtts.sort_unstable();
    let median = rtts[rtts.len() / 2];
    println!("{median} us, {} lost", lab.counter("lost_packets"));
    // Other programs add delays; without a law the whole queue of 400 ms is full.
    assert!(median < 250_000, "{median} us");
}
