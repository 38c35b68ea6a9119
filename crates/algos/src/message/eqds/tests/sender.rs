//! Tests of senders: packets that switches return, timeouts, and the smallest window.

use alloc::vec::Vec;
use core::iter;

use tidegate_core::{Body, Extent, Frame, Reply, wire::Carried};

use super::super::header::{Ack, Data, Nack, Pull};
use super::*;
use crate::harness::{self, Checking, NoPaths, Subject, message, receive, receive_header};
use crate::message::ndp::{Ndp, NdpParams};

const MTU: u64 = 1458;
const FULL: u64 = 1538;

/// An NDP sender of a message of this number of full packets to host 1.
fn ndp(multipath: MultipathRule, packets: u64) -> Ndp {
    sender(&NdpParams { multipath, paths: 4, ..NdpParams::default() }, packets)
}

fn sender<T: Subject>(params: &T::Params, packets: u64) -> T {
    let mut host = T::new(params, &harness::context(0));
    host.submit(Time::ZERO, message(7, 1, packets * MTU), &NoPaths);
    host
}

/// Packets that it sends at this time in microseconds.
fn sent<T: Transport>(host: &mut T, us: u64) -> Vec<(Frame, Body)> {
    iter::from_fn(|| harness::transmit(host, Time::us(us))).collect()
}

fn data_of(packet: &(Frame, Body)) -> Data {
    match Header::read(&packet.1) {
        Some(Header::Data(data)) => data,
        other => panic!("{other:?}"),
    }
}

/// Numbers of the packets that it sends again at this time.
fn sent_again<T: Transport>(host: &mut T, us: u64) -> Vec<u64> {
    let again = sent(host, us);
    let number = |packet: &(Frame, Body)| {
        let data = data_of(packet);
        assert!(data.retransmission, "{data:?}");
        data.offset / MTU
    };
    again.iter().map(number).collect()
}

/// A switch returns one of the host's packets, which it trimmed in the core.
fn send_back<T: Transport>(host: &mut T, us: u64, packet: &(Frame, Body)) {
    let (mut frame, mut body) = *packet;
    (frame.dst, frame.priority, body.payload_bytes) = (body.src, 0, 0);
    let reply = receive(host, Time::us(us), &mut frame, &mut body, &mut Checking::default());
    assert_eq!(reply, Reply::None);
}

fn answer<T: Endpoint<Header = Header>>(host: &mut T, us: u64, header: Header) {
    assert_eq!(receive_header(host, Time::us(us), 1, &header), None);
}

fn ack(packet: u64) -> Header {
    let cumulative = if packet == 0 { 1 } else { 0 };
    Header::Ack(Ack { packet, cumulative, message: 7, ..Ack::default() })
}

/// Requests a packet again that left at 1 us.
fn nack(packet: u64) -> Header {
    Header::Nack(Nack { packet, sent_at: Time::us(1), message: 7, ..Nack::default() })
}

/// The sum of pulls is this number of packets.
fn pull(packets: u64) -> Header {
    Header::Pull(Pull { pull: FIRST_PULL + packets * FULL, message: 7, ..Pull::default() })
}

/// A round trip of 2 ms at 400 Gbit/s has 65,020 packets of this size.
#[test]
fn first_window_may_be_long() {
    let context = HostContext { bdp_bytes: 65_020.0 * FULL as f64, ..harness::context(0) };
    let mut host = Eqds::new(&EqdsParams::default(), &context);
    host.submit(Time::ZERO, message(7, 1, Message::UNLIMITED), &NoPaths);
    assert_eq!(sent(&mut host, 0).len(), 97_530);
}

#[test]
fn returned_packet_leaves_on_the_next_pull() {
    let mut host = ndp(MultipathRule::Off, 200);
    let first = sent(&mut host, 1);
    // Twice, as if a link had duplicated it.
    for _ in 0..2 {
        send_back(&mut host, 9, &first[3]);
    }
    assert_eq!(sent_again(&mut host, 9), []);
    answer(&mut host, 10, pull(1));
    assert_eq!(sent_again(&mut host, 10), [3]);
    assert!(host.inbox.is_quiet(), "it is no message from the host itself");
}

/// A link duplicated the trimmed packet, or delayed it: the packet has left again since.
#[test]
fn late_return_or_nack_loses_nothing_again() {
    let mut host = ndp(MultipathRule::Off, 200);
    let first = sent(&mut host, 1);
    send_back(&mut host, 9, &first[3]);
    answer(&mut host, 10, pull(1));
    let again = sent(&mut host, 10);
    assert_eq!(data_of(&again[0]).offset, 3 * MTU);
    send_back(&mut host, 11, &first[3]);
    answer(&mut host, 11, nack(3));
    answer(&mut host, 12, pull(2));
    let next: Vec<u64> = sent(&mut host, 12).iter().map(|p| data_of(p).offset / MTU).collect();
    assert_eq!(next, [first.len() as u64], "a new packet");
    // The second transmission returns, too.
    send_back(&mut host, 13, &again[0]);
    answer(&mut host, 14, pull(3));
    assert_eq!(sent_again(&mut host, 14), [3]);
}

/// The slot, the lane and the generation are those of another message to another host.
#[test]
fn late_return_concerns_no_other_message() {
    let mut host = ndp(MultipathRule::Off, 1);
    let late = sent(&mut host, 1)[0];
    // At once, so that times of departure do not distinguish them.
    host.forget(Time::us(1), 1);
    host.submit(Time::us(1), message(8, 2, MTU), &NoPaths);
    assert_eq!(sent(&mut host, 1).len(), 1);
    send_back(&mut host, 10, &late);
    assert_eq!(sent(&mut host, 10).len(), 0);
}

#[test]
fn last_returned_packet_leaves_at_once() {
    for packets in 1..4 {
        let mut host = ndp(MultipathRule::Oblivious, packets);
        let first = sent(&mut host, 1);
        let (last, others) = first.split_last().unwrap();
        others.iter().for_each(|packet| send_back(&mut host, 9, packet));
        assert_eq!(sent_again(&mut host, 9), [], "its others are in flight");
        // Only one leaves, because its arrival requests the next one.
        send_back(&mut host, 9, last);
        assert_eq!(sent_again(&mut host, 9), [0], "{packets}");
    }
}

#[test]
fn expected_pulls_hold_returned_packets() {
    let held_after = |response: Header| {
        let mut host = ndp(MultipathRule::Off, 2);
        let first = sent(&mut host, 1);
        answer(&mut host, 8, response);
        send_back(&mut host, 9, &first[1]);
        let held = sent_again(&mut host, 9).is_empty();
        answer(&mut host, 10, pull(1));
        assert_eq!(sent(&mut host, 10).len(), usize::from(held));
        held
    };
    assert!(held_after(ack(0)) && held_after(nack(0)), "arrivals request pulls");
    // The pull of the first packet has arrived, and has been used.
    let mut host = ndp(MultipathRule::Off, 2);
    let first = sent(&mut host, 1);
    answer(&mut host, 8, nack(0));
    answer(&mut host, 8, pull(1));
    assert_eq!(sent_again(&mut host, 8), [0]);
    answer(&mut host, 9, ack(0));
    answer(&mut host, 9, pull(2));
    send_back(&mut host, 10, &first[1]);
    assert_eq!(sent_again(&mut host, 10), [1]);
}

/// More than a quarter of the last packets arrived: only the path is congested.
#[test]
fn returned_packet_of_a_bad_path_leaves_at_once() {
    for (rule, expected) in [
        (MultipathRule::Oblivious, [true, true, false]),
        // All take the same path.
        (MultipathRule::Off, [false; 3]),
    ] {
        let mut host = ndp(rule, 200);
        let first = sent(&mut host, 1);
        answer(&mut host, 8, ack(0));
        let leaves = [10, 11, 12].map(|packet| {
            send_back(&mut host, 9, &first[packet]);
            !sent_again(&mut host, 9).is_empty()
        });
        assert_eq!(leaves, expected, "{rule:?}");
    }
    // Only the last twelve count, and trimmed packets are among them.
    for (trimmed, expected) in [(7, &[8][..]), (8, &[])] {
        let mut host = ndp(MultipathRule::Oblivious, 200);
        let first = sent(&mut host, 1);
        (0..8).for_each(|packet| answer(&mut host, 8, ack(packet)));
        (8..8 + trimmed).for_each(|packet| answer(&mut host, 8, nack(packet)));
        send_back(&mut host, 9, &first[20]);
        assert_eq!(sent_again(&mut host, 9), expected, "{trimmed} trimmed");
    }
}

#[test]
fn returned_packets_blame_their_paths() {
    let uses = |last_hop: bool| {
        let mut host = ndp(MultipathRule::Bitmap, 200);
        let first = sent(&mut host, 1);
        let entropy = first[0].0.entropy;
        let (mut frame, mut body) = first[0];
        (frame.priority, body.payload_bytes) = (u8::from(last_hop), 0);
        receive(&mut host, Time::us(9), &mut frame, &mut body, &mut Checking::default());
        answer(&mut host, 10, pull(20));
        let next = sent(&mut host, 10);
        assert_eq!(next.len(), 20);
        next.iter().filter(|(frame, _)| frame.entropy == entropy).count()
    };
    // Of four paths.
    assert_eq!((uses(true), uses(false)), (5, 0));
}

#[test]
fn returned_packets_of_others_change_nothing() {
    let mut host = ndp(MultipathRule::Off, 3);
    let first = sent(&mut host, 1);
    answer(&mut host, 2, ack(0));
    send_back(&mut host, 2, &first[0]);
    let changed = |change: &dyn Fn(&mut Data)| {
        let (frame, mut body) = first[1];
        let mut data = data_of(&first[1]);
        change(&mut data);
        Header::Data(data).write(&mut body);
        (frame, body)
    };
    for packet in [
        changed(&|data| data.connection += 1),
        changed(&|data| data.lane += 1),
        changed(&|data| data.generation += 1),
        changed(&|data| data.offset = 3 * MTU),
    ] {
        send_back(&mut host, 3, &packet);
    }
    answer(&mut host, 4, pull(3));
    assert_eq!(sent(&mut host, 4).len(), 0, "nothing is lost");
}

/// Its receiver knows nothing of the packet, so that the sender requests credit after a timeout.
#[test]
fn eqds_requests_credit_for_returned_packets() {
    let mut host = sender::<Eqds>(&EqdsParams::default(), 1);
    let first = sent(&mut host, 1);
    send_back(&mut host, 9, &first[0]);
    assert_eq!(sent(&mut host, 9).len(), 0);
    let requests = sent(&mut host, 151);
    assert!(matches!(Header::read(&requests[0].1), Some(Header::Request(_))), "{requests:?}");
    answer(&mut host, 160, pull(1));
    assert_eq!(sent_again(&mut host, 160), [0]);
}

#[test]
fn pull_ends_the_doubling_of_timeouts() {
    let mut host = sender::<Eqds>(&EqdsParams::default(), 150);
    sent(&mut host, 1);
    let requests = |host: &mut Eqds, us| sent(host, us).len();
    assert_eq!(requests(&mut host, 151), 1);
    // It repeats the sum.
    answer(&mut host, 200, pull(0));
    assert_eq!([450, 451].map(|us| requests(&mut host, us)), [0, 1]);
    assert_eq!([750, 751].map(|us| requests(&mut host, us)), [0, 1], "the wait is not longer");
    assert_eq!([1_350, 1_351].map(|us| requests(&mut host, us)), [0, 1], "it has doubled");
}

#[test]
fn timeout_freezes_the_choice_of_paths() {
    let params = EqdsParams { multipath: MultipathRule::Reps, ..EqdsParams::default() };
    let mut host = sender::<Eqds>(&params, 300);
    let first = sent(&mut host, 1);
    let good = [0, 1].map(|packet| {
        let entropy = first[packet].0.entropy;
        let mut body = Body { src: 1, ..Body::default() };
        ack(packet as u64).write(&mut body);
        let mut frame = Frame { entropy, ..Frame::default() };
        receive(&mut host, Time::us(9), &mut frame, &mut body, &mut Checking::default());
        entropy
    });
    // All others are lost.
    sent(&mut host, 151);
    answer(&mut host, 160, pull(20));
    let again = sent(&mut host, 160);
    assert_eq!(again.len(), 20);
    assert!(again.iter().all(|(frame, _)| good.contains(&frame.entropy)), "{again:?}");
}

#[test]
fn smallest_window_is_a_packet() {
    let params = EqdsParams { max_window: Extent::Bytes(0.0), ..EqdsParams::default() };
    assert_eq!(sent(&mut sender::<Eqds>(&params, 9), 1).len(), 1);
}

#[test]
fn competing_messages_divide_their_requests() {
    let mut host = sender::<Eqds>(&EqdsParams::default(), 1_000);
    host.submit(Time::ZERO, message(8, 2, 1_000 * MTU), &NoPaths);
    for _ in 0..2 {
        let data = data_of(&harness::transmit(&mut host, Time::us(1)).unwrap());
        assert_eq!(data.target - FIRST_PULL, FULL / 2);
    }
}

#[test]
fn request_for_a_packet_voids_the_first_credit() {
    let mut host = sender::<Eqds>(&EqdsParams::default(), 50);
    harness::transmit(&mut host, Time::us(1)).unwrap();
    answer(&mut host, 9, nack(0));
    assert_eq!(sent(&mut host, 9).len(), 0);
}

#[test]
fn responses_end_the_doubling_of_timeouts() {
    type Respond<'a> = &'a dyn Fn(&mut Eqds, &(Frame, Body));
    let sent_at = Time::us(100);
    let ack = Header::Ack(Ack { packet: 50, sent_at, message: 7, ..Ack::default() });
    let nack = Header::Nack(Nack { packet: 50, sent_at, message: 7, ..Nack::default() });
    let responses: [(Respond<'_>, u64); 4] = [
        (&|_, _| {}, 850),
        (&|host, _| answer(host, 200, ack), 550),
        (&|host, _| answer(host, 200, nack), 550),
        (&|host, packet| send_back(host, 200, packet), 550),
    ];
    for (number, (respond, again)) in responses.into_iter().enumerate() {
        let mut host = sender::<Eqds>(&EqdsParams::default(), 150);
        for _ in 0..5 {
            harness::transmit(&mut host, Time::us(1)).unwrap();
        }
        let later = sent(&mut host, 100);
        assert_eq!(sent(&mut host, 151).len(), 1, "a request");
        respond(&mut host, &later[45]);
        assert_eq!(sent(&mut host, 250).len(), 1, "another one for the other packets");
        let requests = [again - 1, again].map(|us| sent(&mut host, us).len());
        assert_eq!(requests, [0, 1], "{number}");
    }
}

#[test]
fn ndp_requests_a_packet_more_than_it_got() {
    let mut host = ndp(MultipathRule::Off, 200);
    let first = sent(&mut host, 1).len() as u64;
    (0..first).for_each(|packet| answer(&mut host, 9, nack(packet)));
    // The pulls are lost.
    let requests = sent(&mut host, 1_001);
    let Some(Header::Request(request)) = Header::read(&requests[0].1) else {
        panic!("{requests:?}")
    };
    assert_eq!(request.target, FIRST_PULL + FULL);
}

#[test]
fn requests_leave_once_a_round_trip() {
    let mut host = sender::<Eqds>(&EqdsParams::default(), 150);
    for us in [1, 5] {
        harness::transmit(&mut host, Time::us(us)).unwrap();
    }
    sent(&mut host, 20);
    // The base RTT is 8 us.
    assert_eq!([151, 155, 170].map(|us| sent(&mut host, us).len()), [1, 0, 1]);
}
