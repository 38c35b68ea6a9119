//! Hosts that come and go, each with connections of another policy.

use super::super::*;
use super::OnePath;
use crate::cc::dcqcn::Dcqcn;
use crate::cc::dctcp::Dctcp;
use crate::cc::swift::Swift;
use crate::contract::path;
use crate::harness::{self, Subject, trials};
use tidegate_core::{ConnectionPolicy, Frame, RecoveryRule, Span};

impl<C: CongestionControl> Subject for Windowed<C> {
    const COMPLETES_STOPPED: bool = false;

    fn context(host: u32) -> HostContext {
        let path = path();
        HostContext {
            mtu: path.mtu,
            fabric_base_rtt: path.fabric_base_rtt,
            fabric_control_rtt: path.fabric_base_rtt,
            connections: [
                ConnectionPolicy::PerPair,
                ConnectionPolicy::PerMessage,
                ConnectionPolicy::Pool(3),
                ConnectionPolicy::ShortestFirst,
            ][host as usize % 4],
            spraying: host.is_multiple_of(2),
            ..harness::context(host)
        }
    }

    fn paths() -> &'static dyn PathOracle {
        &OnePath
    }

    fn check_packet(frame: &Frame, _header: &Header, payload_bytes: u32) {
        let headers = 80 + C::INFO.telemetry(path().hops);
        let ack = 84 + C::INFO.echo(0);
        let expected = if payload_bytes > 0 { payload_bytes + headers } else { ack };
        assert_eq!(frame.wire_bytes as u32, expected.max(84), "{payload_bytes} B of payload");
    }

    fn check_quiet(&self, _hosts: &[Self], case: &str) {
        assert!(self.outgoing.is_empty(), "{case}: a sender has a message left");
        assert!(self.receivers.is_quiet(), "{case}: a receiver waits for a packet");
        let busy = |sender: &Sender<C>| {
            sender.dst != NONE && (!sender.is_idle() || sender.recovery.is_some())
        };
        assert!(!self.senders.iter().any(busy), "{case}: a connection is busy");
    }
}

fn varied<C: CongestionControl>(seed: u64) -> trials::Variation<WindowedParams<C>> {
    let mut params = WindowedParams::<C>::default();
    if seed % 3 == 1 {
        params.connection.ack_every = 4;
    }
    if seed % 5 == 1 {
        params.connection.recovery = RecoveryRule::GoBackN;
    }
    if seed % 7 == 1 {
        params.connection.plb = PlbRule::Rounds;
    }
    let jitter = Span::us(seed % 6);
    trials::Variation { params, jitter, congestion: 0.1, patient: false }
}

fn restart_sessions<C: CongestionControl>() {
    let trial = trials::RandomTrial { most_bytes: 300_000, most_ns: 30_000, until: Time::s(20) };
    let faults = [(0.0, 0.0, 30), (0.01, 0.0, 30), (0.05, 0.02, 30), (0.3, 0.1, 10)];
    trial.survive_session_restarts::<Windowed<C>>(&faults, varied::<C>);
}

#[test]
fn hosts_come_and_go_amid_messages_under_a_window() {
    restart_sessions::<Swift>();
    restart_sessions::<Dctcp>();
}

#[test]
fn hosts_come_and_go_amid_messages_under_a_rate() {
    restart_sessions::<Dcqcn>();
}

#[test]
fn connections_of_forgotten_hosts_are_reused() {
    let params = WindowedParams::<Swift>::default();
    for host in trials::forgetting_leaves_nothing::<Windowed<Swift>>(&params) {
        assert_eq!(host.closed.len(), host.senders.len());
        assert!(host.senders.iter().all(|sender| sender.dst == NONE));
        // At most one for each of nine messages, to one other host at a time.
        assert!(host.senders.len() <= 9 && host.receivers.count() <= 9);
    }
}
