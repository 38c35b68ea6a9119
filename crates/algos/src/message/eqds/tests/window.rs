//! A window beside credit: which of both limits a message, and what changes the window.

use alloc::vec::Vec;

use super::super::header::{Ack, Data, Nack, Pull};
use super::*;
use crate::contract::assert_near;
use crate::harness::{self, Checking, all_sent, message, receive_header};
use crate::message::nscc_rccc::{NsccRccc, NsccRcccParams};
use tidegate_core::params::{Params, Value};
use tidegate_core::wire::Carried;
use tidegate_core::{Body, Frame};

/// One and a half BDP: the first window, and the first credit.
const WINDOW: u64 = 150_000;
const NUMBER: u32 = 7;

/// A host with one message of 1,000 packets.
struct Sender {
    host: NsccRccc,
    handle: Handle,
}

impl Sender {
    fn new() -> Sender {
        let mut host = NsccRccc::new(&NsccRcccParams::default(), &harness::context(0));
        let message = message(NUMBER, 1, 1_000 * u64::from(MTU));
        let handle = host.submit(Time::ZERO, message, &OnePath);
        Sender { host, handle }
    }

    /// Data that it sends at `now`.
    fn sent(&mut self, now: Time) -> Vec<Data> {
        let data = |(_, header)| match header {
            Header::Data(data) => Some(data),
            _ => None,
        };
        all_sent(&mut self.host, now).into_iter().filter_map(data).collect()
    }

    fn window(&self) -> f64 {
        self.host.limits(self.handle).unwrap().window_bytes
    }

    /// Passes an acknowledgement of a packet that left at 1 us and all before it.
    fn ack(&mut self, now: Time, packet: u64, marked: bool) {
        let cumulative = packet + 1;
        let sent_at = Time::us(1);
        let ack = Ack { marked, cumulative, packet, sent_at, message: NUMBER, ..Ack::default() };
        receive_header(&mut self.host, now, 1, &Header::Ack(ack));
    }

    fn nack(&mut self, now: Time, packet: u64, last_hop: bool, sent_at: Time) {
        let nack = Nack { last_hop, packet, sent_at, message: NUMBER, ..Nack::default() };
        receive_header(&mut self.host, now, 1, &Header::Nack(nack));
    }

    fn pull(&mut self, now: Time, bytes: u64) {
        let pull = Pull { pull: FIRST_PULL + bytes, message: NUMBER, ..Pull::default() };
        receive_header(&mut self.host, now, 1, &Header::Pull(pull));
    }
}

#[test]
fn packets_need_room_in_the_window() {
    let mut sender = Sender::new();
    let first = sender.sent(Time::us(1)).len() as u64;
    assert_eq!(first, WINDOW / FULL, "credit alone permits one more");
    sender.pull(Time::us(9), 10 * FULL);
    assert!(sender.sent(Time::us(9)).is_empty());
    // A trimmed packet and one that has arrived make room.
    sender.ack(Time::us(9), 0, true);
    assert_eq!(sender.sent(Time::us(9)).len(), 1);
    sender.nack(Time::us(9), 40, true, Time::us(1));
    let [Data { retransmission: true, .. }] = sender.sent(Time::us(9))[..] else {
        panic!("only the trimmed packet may leave")
    };
    // Six packets by one acknowledgement, of which one was trimmed before.
    sender.nack(Time::us(9), 4, true, Time::us(1));
    sender.ack(Time::us(9), 6, true);
    assert_eq!(sender.sent(Time::us(9)).len(), 6);
}

#[test]
fn packets_need_credit_beside_the_window() {
    let mut sender = Sender::new();
    let first = sender.sent(Time::us(1)).len() as u64;
    (0..first).for_each(|packet| sender.ack(Time::us(9), packet, true));
    assert_eq!(sender.window(), WINDOW as f64);
    assert!(sender.sent(Time::us(9)).is_empty(), "the first response voids the first credit");
    sender.pull(Time::us(10), 3 * FULL);
    assert_eq!(sender.sent(Time::us(10)).len(), 3);
}

#[test]
fn only_trims_in_the_core_reduce_the_window() {
    let mut sender = Sender::new();
    sender.sent(Time::us(1));
    sender.nack(Time::us(9), 3, true, Time::us(1));
    assert_eq!(sender.window(), WINDOW as f64);
    sender.nack(Time::us(9), 4, false, Time::us(1));
    assert_eq!(sender.window(), (WINDOW - FULL) as f64);
    // The same packet is not lost again.
    sender.nack(Time::us(9), 4, false, Time::us(1));
    assert_eq!(sender.window(), (WINDOW - FULL) as f64);
}

/// Its time is that to the switch which returned it, below the base RTT.
#[test]
fn returned_packets_are_no_sample_of_the_rtt() {
    let mut sender = Sender::new();
    let data = sender.sent(Time::us(1))[3];
    let mut frame = Frame::default();
    let mut body = Body { src: 0, ..Body::default() };
    Header::Data(data).write(&mut body);
    harness::receive(
        &mut sender.host,
        Time::us(2),
        &mut frame,
        &mut body,
        &mut Checking::default(),
    );
    assert_eq!(sender.window(), (WINDOW - FULL) as f64);
}

/// The window is at most one and a half BDP at the smallest RTT.
#[test]
fn requests_are_samples_of_the_rtt() {
    let mut sender = Sender::new();
    sender.sent(Time::us(1));
    sender.nack(Time::us(5), 3, true, Time::us(1));
    sender.nack(Time::us(9), 4, false, Time::us(1));
    assert_eq!(sender.window(), WINDOW as f64 / 2.0);
}

#[test]
fn acknowledgements_increase_the_window() {
    let mut sender = Sender::new();
    sender.sent(Time::us(1));
    (40..50).for_each(|packet| sender.nack(Time::us(9), packet, false, Time::us(1)));
    assert_eq!(sender.window(), (WINDOW - 10 * FULL) as f64);
    (0..10).for_each(|packet| sender.ack(Time::us(10), packet, false));
    assert!(sender.window() > (WINDOW - 10 * FULL) as f64, "{}", sender.window());
}

/// After a base RTT and a target, less than an eighth of a window has arrived.
#[test]
fn quick_adapt_follows_trims_at_any_hop() {
    for last_hop in [false, true] {
        let mut sender = Sender::new();
        sender.sent(Time::us(1));
        sender.nack(Time::us(9), 90, last_hop, Time::us(1));
        (0..3).for_each(|packet| sender.ack(Time::us(10), packet, true));
        sender.nack(Time::us(24), 91, last_hop, Time::us(16));
        assert_eq!(sender.window(), (3 * FULL) as f64, "{last_hop}");
    }
}

/// The packet has left again since; only a request for that transmission is feedback.
#[test]
fn late_requests_change_nothing() {
    let mut sender = Sender::new();
    sender.sent(Time::us(1));
    sender.pull(Time::us(9), FULL);
    sender.nack(Time::us(9), 3, true, Time::us(1));
    assert_eq!(sender.sent(Time::us(9)).len(), 1, "it leaves again");
    sender.nack(Time::us(10), 3, false, Time::us(1));
    assert_eq!(sender.window(), WINDOW as f64);
    sender.nack(Time::us(17), 3, false, Time::us(9));
    assert_eq!(sender.window(), (WINDOW - FULL) as f64);
}

#[test]
fn requests_exceed_the_window_by_a_packet_at_most() {
    let mut sender = Sender::new();
    let last = sender.sent(Time::us(1)).pop().unwrap();
    let unused = WINDOW - WINDOW / FULL * FULL;
    assert_eq!(last.target - FIRST_PULL, WINDOW - unused);
    for packet in 0..90 {
        sender.nack(Time::us(9), packet, false, Time::us(1));
    }
    sender.nack(Time::us(9), 90, true, Time::us(1));
    let window = WINDOW - 90 * FULL;
    assert_eq!(sender.window(), window as f64);
    sender.pull(Time::us(10), FULL);
    let [Data { target, .. }] = sender.sent(Time::us(10))[..] else { panic!("one packet") };
    assert_eq!(target - FIRST_PULL, FULL + window + FULL);
}

#[test]
fn timeouts_reduce_the_window() {
    let mut sender = Sender::new();
    let first = sender.sent(Time::us(1)).len() as u64;
    let again = sender.sent(Time::us(102));
    assert!(again.is_empty(), "the first credit is void");
    assert_near(sender.window(), FULL as f64, 1e-12);
    sender.pull(Time::us(110), 10 * FULL);
    assert_eq!(sender.sent(Time::us(110)).len(), 1, "{first} packets were lost");
}

#[test]
fn shared_parameters_have_one_value() {
    let shared = ["max_window", "kmin", "kmax", "queue"];
    let names: Vec<_> = NsccRcccParams::table().iter().map(|row| row.name).collect();
    for name in shared {
        assert_eq!(names.iter().filter(|&&other| other == name).count(), 1, "{name}");
    }
    let mut params = NsccRcccParams::default();
    let half = Value::Extent(Extent::Bdp(0.5));
    params.set("max_window", half).unwrap();
    assert_eq!(params.get("max_window"), Some(half), "of credit, too");
    let mut host = NsccRccc::new(&params, &harness::context(0));
    let message = message(NUMBER, 1, 1_000 * u64::from(MTU));
    let handle = host.submit(Time::ZERO, message, &OnePath);
    assert_eq!(host.limits(handle).unwrap().window_bytes, WINDOW as f64 / 3.0);
    let sent = all_sent(&mut host, Time::us(1)).len() as u64;
    assert_eq!(sent, WINDOW / 3 / FULL);
    params.set("kmin", Value::Extent(Extent::Bdp(0.9))).unwrap();
    assert!(params.conflict().is_some_and(|text| text.contains("kmin")));
}
