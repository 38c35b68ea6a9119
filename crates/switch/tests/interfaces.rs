//! Hosts with the kernel's network stack in namespaces, and a switch of their frames. Needs root
//! and `ethtool`.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::common::namespaces::Namespaces;
use crate::common::{Host, fabric, forwarding, over, payload, request, switch, within};
use nix::time::{ClockId, clock_gettime};
use tidegate_core::fabric::{Buffer, Ecn, Link, MarkAt, Node, Switch};
use tidegate_core::wire::telemetry;
use tidegate_core::{Frame, HopTrace, Rate, Span, frame_flag};
use tidegate_switch::{Config, Places, Report, SoftwareSwitch};

/// Timeout for receiving.
const TIMEOUT: Duration = Duration::from_secs(5);
const PORT: u16 = 5_270;

/// A switch between hosts a and b.
fn config(switch: Switch, rate: Rate) -> Config {
    let link = |host| Link { a: Node::Host(host), b: Node::Switch(0), rate, delay: Span::ZERO };
    let network = over(fabric(vec![switch], vec![link(0), link(1)], 2), Vec::new());
    let names = ["to-a", "to-b"].map(str::to_owned);
    Config { places: Places::Interfaces(names.to_vec()), ..network.config }
}

/// Runs `job` while a switch forwards; `None`, with a printed reason, if that is not possible.
fn between<T>(
    config: &Config,
    prepare: impl FnOnce(&Namespaces),
    job: impl FnOnce(&Namespaces) -> T,
) -> Option<(T, Report)> {
    let namespaces = match Namespaces::for_frames(&["a", "b"]) {
        Ok(namespaces) => namespaces,
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            return None;
        }
    };
    prepare(&namespaces);
    let switch = within(&namespaces, "s", || SoftwareSwitch::open(config).unwrap());
    Some(forwarding(switch, &[], |_, _| job(&namespaces)))
}

/// Sets a kernel parameter at both hosts.
fn sysctl(namespaces: &Namespaces, setting: &str) {
    for end in ["a", "b"] {
        namespaces.exec(end, &format!("sysctl -qw {setting}")).unwrap();
    }
}

fn seconds() -> f64 {
    Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap()).as_secs_f64()
}

/// Sends bytes from a to b; returns the time from the first to the last arrival.
fn transfer(namespaces: &Namespaces, to: IpAddr, bytes: usize) -> f64 {
    let at = SocketAddr::new(to, PORT);
    let listener = within(namespaces, "b", || TcpListener::bind(at).unwrap());
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let (mut scratch, mut first, mut all) = (vec![0; 1 << 16], None, 0);
        loop {
            match stream.read(&mut scratch).unwrap() {
                0 => return (all, seconds() - first.unwrap()),
                read => all += read,
            }
            first.get_or_insert_with(seconds);
        }
    });
    let connect = || TcpStream::connect_timeout(&at, TIMEOUT).unwrap();
    let mut stream = within(namespaces, "a", connect);
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(&vec![7; bytes]).unwrap();
    drop(stream);
    let (arrived, took) = receiver.join().unwrap();
    assert_eq!(arrived, bytes);
    took
}

#[test]
fn tcp_goodput_equals_port_rate() {
    const BYTES: usize = 3_000_000;
    let mut switch = switch();
    switch.buffer = Buffer::Shared { bytes: 100_000, alpha: f64::INFINITY };
    let config = config(switch, Rate::mbps(20));
    let reno = |namespaces: &_| sysctl(namespaces, "net.ipv4.tcp_congestion_control=reno");
    let to = "10.9.0.2".parse().unwrap();
    // 1,448 bytes of payload per frame of 1,538 bytes on the wire.
    let ideal = 20e6 * 1_448.0 / 1_538.0;
    let mut shares = Vec::new();
    // Other tests can delay the switch, so the best of three transfers counts.
    let report = loop {
        let Some((took, report)) = between(&config, reno, |all| transfer(all, to, BYTES)) else {
            return;
        };
        let share = BYTES as f64 * 8.0 / took / ideal;
        shares.push(share);
        assert!(share <= 1.02, "{shares:?} of the port's rate");
        if share >= 0.9 {
            break report;
        }
        assert!(shares.len() < 3, "{shares:?} of the port's rate");
    };
    let [back, there] = &report.ports[..] else { panic!("{:?}", report.ports) };
    assert!(there.wire_bytes as f64 > BYTES as f64 * 1_538.0 / 1_448.0, "{}", there.wire_bytes);
    assert!(there.packets > 2_000 && back.packets > 500, "{} {}", there.packets, back.packets);
    assert!(there.queue_bytes.max <= 100_000.0);
    let counts = report.counts;
    assert_eq!((counts.unfinished, counts.overrun, counts.unsent), (0, 0, 0), "{counts:?}");
}

/// A counter of `/proc/net/netstat` of an end.
fn netstat(namespaces: &Namespaces, end: &str, name: &str) -> u64 {
    let text = namespaces.exec(end, "cat /proc/net/netstat").unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks(2) {
        let mut columns = pair[0].split(' ').zip(pair[1].split(' '));
        if let Some((_, value)) = columns.find(|(column, _)| *column == name) {
            return value.parse().unwrap();
        }
    }
    panic!("{name} is not in {text}");
}

#[test]
fn tcp_ecn_over_ipv4_and_ipv6() {
    for to in ["10.9.0.2", "fd00::2"] {
        let ecn = Ecn {
            min_bytes: 30e3,
            max_bytes: 30e3,
            max_probability: 1.0,
            at: MarkAt::Enqueue,
            core_only: false,
            per: None,
        };
        let config = config(Switch { ecn: Some(ecn), ..switch() }, Rate::mbps(20));
        let ready = |namespaces: &_| {
            sysctl(namespaces, "net.ipv4.tcp_congestion_control=reno");
            sysctl(namespaces, "net.ipv4.tcp_ecn=1");
        };
        let job = |namespaces: &_| {
            transfer(namespaces, to.parse().unwrap(), 2_000_000);
            (netstat(namespaces, "b", "InCEPkts"), netstat(namespaces, "a", "TCPDeliveredCE"))
        };
        let Some(((came, echoed), report)) = between(&config, ready, job) else { return };
        let there = &report.ports[1];
        assert!(there.ecn_marks > 10, "{} marks to {to}", there.ecn_marks);
        assert!(echoed > 0, "no marks were echoed, to {to}");
        // The kernel counts marked packets only for IPv4.
        assert!(to.contains(':') || came == there.ecn_marks, "{came} of {}", there.ecn_marks);
        // The sender has slowed down: the queue stayed below 2 MB of 10 MB.
        assert!(there.queue_bytes.max < 500e3, "{}", there.queue_bytes.max);
        assert_eq!(there.drops, 0);
    }
}

#[test]
fn telemetry_and_checksums_in_frames() {
    let config = config(switch(), Rate::mbps(5));
    let address = |text: &str| text.parse::<SocketAddrV4>().unwrap();
    let job = |namespaces: &Namespaces| {
        let host = |end: &str, at: &str| within(namespaces, end, || Host::at(address(at)));
        let [a, b] = [host("a", "10.9.0.1:9000"), host("b", "10.9.0.2:9000")];
        let tos = 40 << 2 | 0b10;
        (0..20).for_each(|i| a.send(address("10.9.0.2:9000"), tos, &request(i)));
        b.all(Duration::from_millis(400))
    };
    // The kernel drops packets with wrong checksums.
    let Some((arrived, report)) = between(&config, |_| (), job) else { return };
    assert_eq!(arrived.len(), 20, "{:?}", report.counts);
    for (number, datagram) in (0..).zip(&arrived) {
        assert_eq!((datagram.from, datagram.tos), (address("10.9.0.1:9000"), 40 << 2 | 0b10));
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        let rest = telemetry::parse(&datagram.bytes, &mut frame, &mut hops).unwrap();
        assert_eq!((rest, hops.as_slice().len()), (&payload(number)[..], 1));
        assert!(frame.flags & frame_flag::STAMP_PEAK != 0);
        assert!(number < 5 || frame.peak_hop_delay > Span::ms(1), "{}", frame.peak_hop_delay);
    }
    let last = arrived.last().unwrap().at - arrived[0].at;
    assert!(last > 0.02, "twenty packets of 1.6 ms in {last} s");
}

#[test]
fn unfinished_frames_are_counted() {
    let config = config(switch(), Rate::mbps(100));
    let offloads = |namespaces: &Namespaces| {
        namespaces.exec("a", "ethtool -K uplink tx on").unwrap();
    };
    let job = |namespaces: &Namespaces| {
        let host = |end: &str, at: &str| {
            let at: SocketAddr = at.parse().unwrap();
            within(namespaces, end, || UdpSocket::bind(at).unwrap())
        };
        let [a, b] = [host("a", "10.9.0.1:9000"), host("b", "10.9.0.2:9000")];
        b.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        for _ in 0..3 {
            a.send_to(b"without a checksum", "10.9.0.2:9000").unwrap();
        }
        let echoed = b.recv(&mut [0; 100]).is_ok();
        a.set_read_timeout(Some(TIMEOUT)).unwrap();
        b.send_to(b"with one", "10.9.0.1:9000").unwrap();
        (echoed, a.recv(&mut [0; 100]).unwrap())
    };
    let Some(((echoed, back), report)) = between(&config, offloads, job) else { return };
    assert_eq!((echoed, back), (false, 8), "the other direction works");
    assert!(report.counts.unfinished >= 3, "{:?}", report.counts);
    assert_eq!(report.unfinished, ["to-a"]);
}

#[test]
fn interface_errors() {
    let namespaces = match Namespaces::for_frames(&["a", "b"]) {
        Ok(namespaces) => namespaces,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    let open = |names: [&str; 2]| {
        let places = Places::Interfaces(names.map(str::to_owned).to_vec());
        let config = Config { places, ..config(switch(), Rate::mbps(20)) };
        within(&namespaces, "s", || SoftwareSwitch::open(&config))
    };
    let refused = |names| open(names).err().unwrap().to_string();
    assert!(refused(["to-a", "to-c"]).contains("interface to-c: no such interface"));
    assert!(refused(["to-a", "lo"]).contains("interface lo: not an Ethernet interface"));
    namespaces.ip("s", "link set to-b down").unwrap();
    let down = refused(["to-a", "to-b"]);
    assert!(
        down.contains("interface to-b: it is down: enable it with `ip link set to-b up`"),
        "{down}"
    );
    namespaces.ip("s", "link set to-b up").unwrap();
    // Another switch uses the interface.
    let other = open(["to-a", "to-b"]).unwrap();
    let taken = refused(["to-b", "to-a"]);
    assert!(taken.contains("interface to-b: in use by another switch"), "{taken}");
    drop(other);
    // The interface is removed while the switch runs.
    let mut switch = open(["to-a", "to-b"]).unwrap();
    let end = seconds() + TIMEOUT.as_secs_f64();
    thread::scope(|scope| {
        scope.spawn(|| namespaces.ip("s", "link del to-b").unwrap());
        let gone = switch.run(|_| seconds() < end).unwrap_err().to_string();
        assert!(gone.contains("interface to-b: "), "{gone}");
    });
}
