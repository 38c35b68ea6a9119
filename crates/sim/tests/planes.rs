//! Hosts with several ports: their NICs distribute packets over planes by entropy.

use crate::common::busy::Recorder;
use crate::common::left::Left;
use crate::common::observers::{Explicit, ObserverAccess, TestProbe};
use crate::common::*;
use crate::explicit_engine::recorded;
use tidegate_algos::Stack;
use tidegate_core::fabric::{Ecn, Fabric, MarkAt, Node, Stamping, TrimVictim, Trimming};
use tidegate_core::faults::{Failing, Outage};
use tidegate_core::params::Value;
use tidegate_core::routes::Routes;
use tidegate_core::workload::Flow;
use tidegate_core::{FabricProperties, Rate, Span, Time};
use tidegate_sim::{Engine, FlowRecord, Outcome, Setup};

pub(crate) const PLANES: u32 = 4;
const RACKS: u32 = 2;
pub(crate) const HOSTS: u32 = 6;
const SPINES: u32 = 2;
/// Switches of one plane.
const OF_PLANE: u32 = RACKS + SPINES;
const FIRST_NIC: u32 = PLANES * OF_PLANE;

/// Two racks of three hosts and two spines in each of four planes of 100 Gbit/s. Links of hosts
/// come first, host by host, then those between switches, then those between hosts and NICs.
pub(crate) fn fabric() -> Fabric {
    let rate = Rate::gbps(100);
    let rack = |host: u32, plane: u32| Node::Switch(plane * OF_PLANE + host / (HOSTS / RACKS));
    let nic = |host: u32| Node::Switch(FIRST_NIC + host);
    let mut fabric = star(HOSTS, rate, Span::us(1), 1000);
    fabric.switches = (0..FIRST_NIC + HOSTS).map(|s| switch(&format!("s{s}"))).collect();
    fabric.links.clear();
    for host in 0..HOSTS {
        let ports =
            (0..PLANES).map(|plane| link(nic(host), rack(host, plane), rate, Span::ns(500)));
        fabric.links.extend(ports);
    }
    for plane in 0..PLANES {
        for (tor, spine) in (0..RACKS).flat_map(|t| (0..SPINES).map(move |s| (t, s))) {
            let node = |number| Node::Switch(plane * OF_PLANE + number);
            fabric.links.push(link(node(tor), node(RACKS + spine), Rate::gbps(200), Span::us(1)));
        }
    }
    for host in 0..HOSTS {
        let (whole, delay) = (Rate::gbps(100 * u64::from(PLANES)), Span::ns(500));
        fabric.links.push(link(Node::Host(host), nic(host), whole, delay));
    }
    for switch in &mut fabric.switches[FIRST_NIC as usize..] {
        switch.telemetry = Stamping::Off;
    }
    fabric.first_nic = Some(FIRST_NIC);
    fabric
}

/// Port from the NIC of a host into a plane.
pub(crate) fn up(host: u32, plane: u32) -> u32 {
    2 * (host * PLANES + plane)
}

/// Sends each packet of a connection over another path.
fn spread(name: &str) -> Stack {
    let mut stack = stack(name);
    stack.set("multipath", Value::Choice("oblivious")).unwrap();
    stack
}

/// Runs flows of Swift over all planes.
fn run_of(flows: Vec<Flow>, change: impl FnOnce(&mut Setup)) -> (Vec<FlowRecord>, Outcome) {
    let mut setup = setup(fabric(), spread("swift"), flows, Time::ms(20));
    change(&mut setup);
    run(setup)
}

#[test]
fn properties_are_those_of_all_ports_together() {
    let fabric = fabric();
    let routes = Routes::new(&fabric).unwrap();
    let properties = FabricProperties::of(&fabric, routes.reach(), None);
    assert_eq!((properties.host_rate, properties.ports), (Rate::gbps(400), PLANES));
    // NICs are no switches on the path.
    assert_eq!(properties.hops, 3);
    assert_eq!(properties.port_bdp_bytes(), properties.bdp_bytes / 4.0);
    // A full packet of 1,080 B and an acknowledgement of 84 B on the links of 400, 100 and 200
    // Gbit/s, twice each, and four propagation delays each way.
    let serialised = 2 * (20 + 80 + 40) * (1_080 + 84);
    assert_eq!(routes.base_rtt(0, 5), Span::us(8) + Span::ps(serialised));
    let engine = unobserved(setup(fabric, spread("swift"), Vec::new(), Time::ms(1)), 1).unwrap();
    assert_eq!(engine.paths().path(0, 5).hops, 3);
}

/// Entropies of a connection are in turn, so each plane carries a quarter of the packets.
#[test]
fn planes_carry_equal_numbers_of_packets() {
    let (finished, outcome) = run_of(vec![flow(0, 5, 6_400_000, Time::ZERO)], |_| ());
    let packets = [0, 1, 2, 3].map(|plane| outcome.links[up(0, plane) as usize].packets);
    assert_eq!(packets, [1_600; 4]);
    // Faster than three planes could be.
    let took = finished[0].completed.unwrap().since(Time::ZERO);
    assert!(took < Rate::gbps(300).serialise(6_400 * 1_080), "{took}");
}

#[test]
fn connection_without_multipath_stays_in_one_plane() {
    let flows = vec![flow(0, 5, 1_000_000, Time::ZERO)];
    let (_, outcome) = run(setup(fabric(), stack("swift"), flows, Time::ms(20)));
    let packets = [0, 1, 2, 3].map(|plane| outcome.links[up(0, plane) as usize].packets);
    assert_eq!(packets.iter().filter(|&&packets| packets > 0).count(), 1, "{packets:?}");
}

/// Messages survive the failure of a plane, and nothing leaves into it until it is up again.
#[test]
fn plane_that_fails_is_avoided() {
    let (down, restored) = (Time::us(50), Time::us(200));
    let fails = (0..HOSTS).map(|host| up(host, 1) / 2);
    let flows: Vec<_> =
        (0..HOSTS).map(|host| flow(host, (host + 3) % HOSTS, 8_000_000, Time::ZERO)).collect();
    let (finished, outcome) = run_of(flows, |setup| {
        let outage = |link| Outage { of: Failing::Link(link), down, up: restored };
        setup.faults.outages = fails.map(outage).collect();
        setup.until_done = true;
    });
    assert_eq!(finished.len(), HOSTS as usize);
    assert!(finished.iter().all(|row| row.delivered_bytes == row.bytes));
    for host in 0..HOSTS {
        let packets = |plane| outcome.links[up(host, plane) as usize].packets;
        // The plane is down most of the time.
        assert!(packets(1) > 100 && 2 * packets(1) < packets(0), "{} of host {host}", packets(1));
    }
}

/// Connections of other planes stay where they are.
#[test]
fn failed_plane_moves_no_other_connection() {
    let flows: Vec<_> = (0..3).map(|host| flow(host, host + 3, 2_000_000, Time::ZERO)).collect();
    let planes_of = |outcome: &Outcome, host| {
        let used = |plane: &u32| outcome.links[up(host, *plane) as usize].packets > 0;
        (0..PLANES).filter(used).collect::<Vec<u32>>()
    };
    let single = |flows, outages| {
        let mut setup = setup(fabric(), stack("dctcp"), flows, Time::ms(20));
        setup.faults.outages = outages;
        run(setup)
    };
    let (_, intact) = single(flows.clone(), Vec::new());
    let [first, ..] = planes_of(&intact, 0)[..] else { panic!("no plane") };
    let outage = |host| Outage {
        of: Failing::Link(up(host, first) / 2),
        down: Time::us(40),
        up: Time::us(90),
    };
    let (finished, outcome) = single(flows, (0..HOSTS).map(outage).collect());
    assert_eq!(finished.len(), 3);
    for host in 0..3 {
        let before = planes_of(&intact, host);
        if before != [first] {
            assert_eq!(planes_of(&outcome, host), before);
            let row = finished.iter().find(|row| row.src == host).unwrap();
            assert_eq!(row.retransmitted_bytes, 0);
        }
    }
    assert_eq!(planes_of(&outcome, 0).len(), 2);
    assert!((0..3).any(|host| planes_of(&intact, host) != [first]));
}

/// With planes that fail at different ends, no path is left: NICs of other hosts do not forward.
#[test]
fn nics_forward_nothing_of_others() {
    let cut = |host, planes: [u32; 3]| planes.map(|plane| up(host, plane) / 2);
    let links = [cut(0, [1, 2, 3]), cut(5, [0, 2, 3])].concat();
    let flows = vec![flow(0, 5, 100_000, Time::us(1)), flow(1, 4, 100_000, Time::us(1))];
    let (finished, outcome) = run_of(flows, |setup| {
        let outage = |link| Outage { of: Failing::Link(link), down: Time::ZERO, up: Time::NEVER };
        setup.faults.outages = links.into_iter().map(outage).collect();
    });
    assert_eq!((finished.len(), outcome.unfinished.len()), (1, 1));
    assert_eq!((finished[0].src, outcome.unfinished[0].delivered_bytes), (1, 0));
    assert_eq!(outcome.links[up(0, 0) as usize].packets, 0, "no path leads through this plane");
}

/// In the second plane, every other host is connected to the other rack, so that its NIC is on a
/// short path between racks of both planes.
#[test]
fn no_path_leads_through_the_nic_of_another_host() {
    let mut fabric = fabric();
    for host in (0..HOSTS).step_by(2) {
        let rack = 1 - host / (HOSTS / RACKS);
        fabric.links[(up(host, 1) / 2) as usize].b = Node::Switch(OF_PLANE + rack);
    }
    let routes = Routes::new(&fabric).unwrap();
    for (switch, host) in (0..FIRST_NIC).flat_map(|s| (0..HOSTS).map(move |h| (s, h))) {
        let mut ports = Vec::new();
        let only = routes.egress(switch, host, |ways| {
            ports.extend(ways.ports());
            ways.port(0)
        });
        for port in ports.into_iter().chain([only]) {
            let to = routes.edge(port).to;
            let is_other_nic = fabric.is_nic(to) && fabric.host_at(to) != Some(host);
            assert!(!is_other_nic, "switch {switch} to host {host} by port {port}");
        }
    }
}

/// The ends of a link may be in either order.
#[test]
fn links_that_begin_at_a_switch_are_ports_of_nics() {
    let (finished, outcome) = run_of(vec![flow(0, 5, 640_000, Time::ZERO)], |setup| {
        for link in &mut setup.fabric.links[..PLANES as usize] {
            (link.a, link.b) = (link.b, link.a);
        }
    });
    assert_eq!(finished.len(), 1);
    let packets = [0, 1, 2, 3].map(|plane| outcome.links[up(0, plane) as usize + 1].packets);
    assert_eq!(packets, [160; 4]);
}

/// Random faults spare the links inside of hosts.
#[test]
fn links_between_hosts_and_nics_lose_nothing() {
    let (_, outcome) = run_of(vec![flow(0, 5, 640_000, Time::ZERO)], |setup| {
        setup.faults.loss = 0.1;
        setup.until_done = true;
        setup.drain = Span::ms(50);
    });
    let inner = 2 * (outcome.links.len() as u32 / 2 - HOSTS) as usize;
    let ports = (0..PLANES).map(|plane| outcome.links[up(0, plane) as usize].packets);
    assert_eq!(outcome.links[inner].packets, ports.sum::<u64>());
}

/// Packets that are trimmed at the port to the receiver's NIC have the priority of the last hop.
#[test]
fn port_to_a_nic_is_the_last_hop_of_trimmed_packets() {
    let flows = (1..HOSTS).map(|host| flow(host, 0, 300_000, Time::ZERO)).collect();
    let mut setup = setup(fabric(), spread("nscc"), flows, Time::us(100));
    for switch in setup.fabric.network_switches_mut() {
        switch.trimming = Some(Trimming {
            data_bytes: 4 * 1_080,
            header_queue_bytes: 100_000,
            trimmed_bytes: 84,
            victim: TrimVictim::Arriving,
            per: None,
            return_to_sender: false,
            header_weight: None,
        });
    }
    let (ports, _, _, links) = recorded::<TestProbe>(setup);
    let [mut trimmed, mut early] = [0, 0];
    for port in (0..PLANES).map(|plane| up(0, plane) as usize + 1) {
        trimmed += links[port].trims;
        // Host 0 gets no other packets of this size: it sends no data. Those that were trimmed in
        // the core have priority 0.
        let headers = ports[port].iter().filter(|record| record.frame.1 == 84);
        early += headers.filter(|record| record.frame.2 == 0).count() as u64;
    }
    let core: u64 = links.iter().map(|link| link.trims).sum::<u64>() - trimmed;
    assert!(trimmed > 100 && early <= core, "{trimmed} at the last hop, {early} of {core} before");
}

/// A port to a NIC is one to a host.
#[test]
fn marking_in_the_core_spares_ports_to_nics() {
    let marks = |core_only| {
        let flows = (1..HOSTS).map(|host| flow(host, 0, 2_000_000, Time::ZERO)).collect();
        let (_, outcome) = run_of(flows, |setup| {
            setup.stacks = vec![spread("dctcp")];
            let ecn = Ecn {
                min_bytes: 1_000.0,
                max_bytes: 1_000.0,
                max_probability: 1.0,
                at: MarkAt::Enqueue,
                core_only,
                per: None,
            };
            let switches = setup.fabric.network_switches_mut();
            switches.iter_mut().for_each(|switch| switch.ecn = Some(ecn));
        });
        let down = [0, 1, 2, 3].map(|plane| up(0, plane) + 1);
        down.map(|port| outcome.links[port as usize].ecn_marks).iter().sum::<u64>()
    };
    let [all, core] = [marks(false), marks(true)];
    assert!(all > 100 && core == 0, "{all} and {core}");
}

/// Messages that meet each other in all planes.
fn crossing() -> Setup {
    let flows = (0..HOSTS).map(|h| flow(h, (h + 2) % HOSTS, 400_000, Time::us(h.into())));
    setup(fabric(), spread("swift"), flows.collect(), Time::ms(1))
}

#[test]
fn lazy_commits_equal_explicit_dequeues() {
    assert!(recorded::<TestProbe>(crossing()) == recorded::<Explicit>(crossing()));
}

#[test]
fn partitions_change_nothing() {
    let run = |partitions: usize| {
        let setup = crossing();
        let probes = (0..partitions).map(|_| TestProbe::of(Recorder::default())).collect();
        let engine = Engine::in_partitions(setup, probes).unwrap();
        assert_eq!(engine.partitions(), partitions);
        Left::of(engine, Time::ms(1), partitions as u64)
    };
    let whole = run(1);
    assert!(whole.rows.len() == HOSTS as usize);
    for partitions in [2, 3, 6] {
        whole.assert_is(&run(partitions), &format!("{partitions} partitions"));
    }
}
