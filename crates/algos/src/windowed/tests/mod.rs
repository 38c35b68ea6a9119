//! Timing and loss detection of connections, step by step.

mod forgetting;
mod go_back;
mod returns;

extern crate std;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::header::{Ack, Data, Header};
use super::messages::{Messages, Queue};
use super::receiver::Receivers;
use super::recovery::Recovery;
use super::sender::Sender;
use super::{ConnectionParams, MAX_BACKOFF, Windowed, WindowedParams};
use crate::cc::dcqcn::Dcqcn;
use crate::cc::dctcp_rate::DctcpRate;
use crate::cc::hpcc::Hpcc;
use crate::cc::powertcp::PowerTcp;
use crate::cc::swift::{Swift, SwiftParams};
use crate::cc::theta_powertcp::ThetaPowerTcp;
use crate::cc::timely::Timely;
use crate::contract::path;
use crate::harness::{self, message, transmit};
use crate::kit::slab::Key;
use tidegate_core::params::Params;
use tidegate_core::{
    Application, Body, CongestionControl, ConnectionPolicy, Domain, Endpoint, Frame, Handle,
    HopTrace, HostContext, Limit, Message, MessageId, PacketMut, Path, PathOracle, Reply, Rng,
    Role, Span, Time, Transport, WindowRule, frame_flag, wire::Carried,
};

fn sender() -> Sender<Swift> {
    let cc = Swift::start(&SwiftParams::default(), &path(), Time::ZERO, 0);
    Sender::new(cc, 1, 0, 7, false, path(), &ConnectionParams::default())
}

#[test]
fn timeouts_follow_rfc_6298() {
    let params = ConnectionParams { min_rto: Span::us(1), ..Default::default() };
    let mut sender = sender();
    assert_eq!(sender.rto(&params), params.initial_rto);
    // SRTT = R, RTTVAR = R / 2.
    sender.sample_rtt(Span::us(96));
    assert_eq!(sender.rto(&params), Span::us(96 + 4 * 48));
    // RTTVAR = 3/4 · 48 + 1/4 · |96 − 160| = 52, SRTT = 7/8 · 96 + 1/8 · 160 = 104.
    sender.sample_rtt(Span::us(160));
    assert_eq!(sender.rto(&params), Span::us(104 + 4 * 52));
    // RTTVAR = 3/4 · 52 + 1/4 · |104 − 24| = 59, SRTT = 7/8 · 104 + 1/8 · 24 = 94.
    sender.sample_rtt(Span::us(24));
    assert_eq!(sender.rto(&params), Span::us(94 + 4 * 59));
    assert_eq!(sender.rto(&ConnectionParams::default()), Span::us(94 + 4 * 59));
    let params = ConnectionParams { min_rto: Span::us(400), ..Default::default() };
    assert_eq!(sender.rto(&params), Span::us(400));
}

#[test]
fn timeouts_in_a_row_double_up_to_the_largest() {
    let params = ConnectionParams::default();
    let mut sender = sender();
    let mut spare: Vec<Box<Recovery>> = Vec::new();
    let mut expire = |params: &ConnectionParams| {
        sender.on_timeout(Time::ZERO, params, &mut spare);
        sender.rto(params)
    };
    for doubled in [2, 4, 8, 16, 32, 64] {
        assert_eq!(expire(&params), Span::ms(doubled));
    }
    for _ in 0..2 * u64::from(MAX_BACKOFF) {
        assert_eq!(expire(&params), params.max_rto);
    }
    // The minimum and the initial timeout apply even if they exceed the maximum.
    assert_eq!(expire(&ConnectionParams { initial_rto: Span::s(1), ..params.clone() }), Span::s(1));
    assert_eq!(expire(&ConnectionParams { min_rto: Span::s(2), ..params }), Span::s(2));
}

#[test]
fn messages_behind_an_endless_one_follow_its_stop() {
    let (mut messages, mut queue) = (Messages::default(), Queue::default());
    let slots = [Message::UNLIMITED, 2_500, Message::UNLIMITED, 1_000]
        .map(|bytes| messages.append(&mut queue, 0, 0, &message(0, 1, bytes), 1_000).slot);
    // Nothing of the second was ever sent.
    messages.stop(&mut queue, 1..3, slots[2]);
    messages.stop(&mut queue, 1..3, slots[0]);
    let places = [0, 1, 3].map(|i| (messages[slots[i]].first, messages[slots[i]].end));
    assert_eq!(places, [(0, 3), (3, 6), (6, 7)]);
    assert_eq!((queue.head, queue.sending, queue.len), (slots[0], slots[1], 3));
    assert_eq!([3, 5, 6].map(|seq| messages.holding(queue.head, seq)), [1, 1, 3].map(|i| slots[i]));
}

#[test]
fn three_later_arrivals_indicate_a_loss() {
    let mut recovery = Recovery::default();
    recovery.begin(10);
    let mut lost = Vec::new();
    for (arrived, expected) in
        [(11, &[][..]), (12, &[]), (13, &[10]), (15, &[10]), (16, &[10]), (17, &[10, 14])]
    {
        recovery.sack(arrived);
        recovery.lose_overtaken(10, &mut |seq| lost.push(seq));
        assert_eq!(lost, expected, "after {arrived}");
    }
}

#[test]
fn losses_before_a_timeout_start_no_new_episode() {
    let mut recovery = Recovery::default();
    recovery.begin(0);
    recovery.lose_all(0, 10);
    assert!(!recovery.begins_episode(5, 20) && recovery.begins_episode(10, 20));
    assert!(!recovery.begins_episode(15, 30));
}

/// Application that ignores all events.
struct NullApplication;

impl Application for NullApplication {
    fn delivered(&mut self, _now: Time, _message: MessageId, _offset: u64, _bytes: u32) {}
    fn completed(&mut self, _now: Time, _message: MessageId) {}
    fn acked(&mut self, _now: Time, _message: MessageId) {}
}

/// An acknowledgement: its cumulative number, its echoed mark, and the RTT that its sender would
/// measure now.
type Acknowledgement = (u64, bool, Span);

/// A receiver and its responses to one packet after another.
struct Acknowledger(Receivers);

impl Acknowledger {
    fn read(now: Time, body: &Body) -> Acknowledgement {
        let Some(Header::Ack(ack)) = Header::read(body) else { panic!("{body:?}") };
        assert_eq!((ack.connection, body.payload_bytes), (5, 0));
        (ack.cumulative, ack.marked, now.since(ack.sent_at))
    }

    /// A packet that was sent 6 us before it arrives at `us`.
    fn to(&mut self, us: u64, seq: u64, marked: bool, last: bool) -> Option<Acknowledgement> {
        let now = Time::us(us);
        let flags = if marked { frame_flag::CONGESTION_EXPERIENCED } else { 0 };
        let (mut frame, mut hops) = (Frame { flags, ..Frame::default() }, HopTrace::default());
        let mut body = Body { payload_bytes: 1000, ..Body::default() };
        let sent_at = now.before(Span::us(6));
        let data = Data { end_of_message: last, connection: 5, seq, sent_at, ..Data::default() };
        Header::Data(data).write(&mut body);
        let packet = PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops };
        let reply = self.0.receive(now, packet, 0, &Swift::INFO, &mut NullApplication);
        (reply != Reply::None).then(|| Acknowledger::read(now, &body))
    }

    /// Acknowledgement that it sends without a packet.
    fn at(&mut self, us: u64) -> Option<Acknowledgement> {
        let now = Time::us(us);
        let (mut frame, mut body, mut hops) =
            (Frame::default(), Body::default(), HopTrace::default());
        self.0.promote(now);
        let receiver = self.0.take_due()?;
        self.0.transmit(
            now,
            receiver,
            PacketMut { frame: &mut frame, body: &mut body, hops: &mut hops },
        );
        Some(Acknowledger::read(now, &body))
    }
}

#[test]
fn ack_covers_packets_in_order_with_one_mark() {
    let params = ConnectionParams { ack_every: 3, ack_delay: Span::us(20), ..Default::default() };
    let mut receiver = Acknowledger(Receivers::new(&params, None));
    let rtt = Span::us(6);
    assert_eq!((receiver.to(10, 0, false, false), receiver.to(11, 1, false, false)), (None, None));
    assert_eq!(receiver.to(12, 2, false, false), Some((3, false, rtt)), "the third packet");
    assert_eq!(receiver.to(13, 3, false, false), None);
    assert_eq!(
        receiver.to(14, 4, true, false),
        Some((4, false, rtt)),
        "the packet before the mark"
    );
    assert_eq!(receiver.to(15, 5, true, true), Some((6, true, rtt)), "the end of a message");
    assert_eq!(receiver.to(16, 7, true, false), Some((6, true, rtt)), "a hole");
    assert_eq!(receiver.to(17, 6, true, false), Some((8, true, rtt)), "a hole filled");
    assert_eq!(receiver.to(20, 8, true, false), None);
    assert_eq!((receiver.at(39), receiver.0.next_due()), (None, Time::us(40)));
    assert_eq!(receiver.at(45), Some((9, true, rtt)), "after the wait, which is no RTT");
    assert_eq!((receiver.at(100), receiver.0.next_due()), (None, Time::NEVER));
    // The end of a message with another mark: two acknowledgements, the second immediately.
    assert_eq!(receiver.to(101, 9, false, false), None);
    assert_eq!(receiver.to(102, 10, true, true), Some((10, false, rtt)));
    assert_eq!(receiver.at(102), Some((11, true, rtt)));
    // A released acknowledgement leaves no active timer.
    assert_eq!((receiver.at(200), receiver.0.next_due()), (None, Time::NEVER));
}

#[test]
fn ack_delay_is_below_the_timeout() {
    let mut params = WindowedParams::<Swift>::default();
    params.connection.ack_delay = params.connection.min_rto;
    assert_eq!(params.conflict(), None);
    params.connection.ack_every = 2;
    assert!(params.conflict().is_some_and(|text| text.contains("timeout")));
}

/// Every pair has the same path.
struct OnePath;

impl PathOracle for OnePath {
    fn path(&self, _src: u32, _dst: u32) -> Path {
        path()
    }
}

fn host(number: u32, connections: ConnectionPolicy, most_held: Span) -> Windowed<Swift> {
    host_under(&WindowedParams::default(), number, connections, most_held)
}

fn host_under<C: CongestionControl>(
    params: &WindowedParams<C>,
    number: u32,
    connections: ConnectionPolicy,
    most_held: Span,
) -> Windowed<C> {
    let path = path();
    let context = HostContext {
        mtu: path.mtu,
        nic_rate: path.nic_rate,
        fabric_base_rtt: path.fabric_base_rtt,
        fabric_control_rtt: path.fabric_base_rtt,
        bdp_bytes: path.bdp_bytes,
        connections,
        spraying: false,
        priorities: 1,
        most_held,
        ..harness::context(number)
    };
    Windowed::new(params, &context)
}

fn receive<C: CongestionControl>(
    host: &mut Windowed<C>,
    now: Time,
    frame: &mut Frame,
    body: &mut Body,
) -> Reply {
    harness::receive(host, now, frame, body, &mut NullApplication)
}

fn connection_of(host: &Windowed<Swift>, handle: Handle) -> u32 {
    host.outgoing[host.outgoing.slot(Key::of_bits(handle.0)).unwrap()].connection
}

/// Expected choice of a pool, by a scan of all connections: the first idle one, otherwise a new
/// one, otherwise the first with the fewest messages.
fn scanned_choice(host: &Windowed<Swift>, dst: u32, size: usize) -> u32 {
    let pool =
        || (0..).zip(&host.senders).filter(|(_, sender)| sender.dst == dst && !sender.single_use);
    if let Some((idle, _)) = pool().find(|(_, sender)| sender.is_idle()) {
        return idle;
    }
    if pool().count() < size {
        return host.senders.len() as u32;
    }
    pool().min_by_key(|(_, sender)| sender.queue.len).unwrap().0
}

#[test]
fn pool_choice_equals_that_of_a_full_scan() {
    for (policy, size) in [
        (ConnectionPolicy::PerPair, 1),
        (ConnectionPolicy::Pool(1), 1),
        (ConnectionPolicy::Pool(3), 3),
        (ConnectionPolicy::Pool(40), 40),
    ] {
        let mut rng = Rng::stream(size as u64, Domain::Transport, 0);
        let mut sender = host(0, policy, Span::ZERO);
        let mut others: Vec<_> = (0..3).map(|number| host(number, policy, Span::ZERO)).collect();
        let mut wires = VecDeque::new();
        let (mut now, mut shared) = (Time::ZERO, 0);
        for id in 0..4_000 {
            let dst = 1 + rng.below(2) as u32;
            let most = if rng.below(4) == 0 { 60_000 } else { 4_000 };
            let bytes = 1 + rng.below(most);
            let dedicated = rng.below(8) == 0;
            let expected = scanned_choice(&sender, dst, size);
            let handle = sender.submit(
                now,
                Message { id, dst, bytes, dedicated, weight: 1, role: Role::Alone },
                &OnePath,
            );
            if !dedicated {
                let taken = connection_of(&sender, handle);
                assert_eq!(taken, expected, "message {id} with {policy:?}");
                shared += (sender.senders[expected as usize].queue.len > 1) as u32;
            }
            // From time to time everything in flight arrives.
            let steps = if rng.below(400) == 0 { 10_000 } else { rng.below(3) };
            for _ in 0..steps {
                now += Span::us(1);
                sender.on_deadline(now, &mut NullApplication);
                wires.extend(transmit(&mut sender, now));
                if wires.len() > 20 || steps > 5 {
                    let Some((mut frame, mut body)) = wires.pop_front() else { continue };
                    let other = &mut others[frame.dst as usize];
                    assert_eq!(receive(other, now, &mut frame, &mut body), Reply::Echo);
                    receive(&mut sender, now, &mut frame, &mut body);
                }
            }
        }
        assert!(shared > 500, "{shared} messages shared a connection of {policy:?}");
    }
}

#[test]
#[allow(clippy::disallowed_types, reason = "bounds what the host takes, not what it simulates")]
fn large_pool_needs_no_scan() {
    let mut host = host(0, ConnectionPolicy::Pool(65_535), Span::ZERO);
    let began = std::time::Instant::now();
    for id in 0..200_000 {
        let handle = host.submit(Time::ZERO, message(id, 1, 64), &OnePath);
        assert_eq!(connection_of(&host, handle), id % 65_535);
    }
    // A scan would take about ten thousand million steps.
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

/// Destinations of packets while windows allow, in order, for messages of 5, 2, 3 and 2 packets;
/// after three packets another message of one packet is submitted.
fn sent_to(connections: ConnectionPolicy) -> Vec<u32> {
    let mut host = host(0, connections, Span::ZERO);
    let mtu = u64::from(path().mtu);
    for (dst, packets) in [(1, 5), (2, 2), (3, 3), (4, 2)] {
        host.submit(Time::ZERO, message(dst, dst, packets * mtu), &OnePath);
    }
    let mut sent = Vec::new();
    while let Some((frame, _)) = transmit(&mut host, Time::ZERO) {
        sent.push(frame.dst);
        if sent.len() == 3 {
            host.submit(Time::ZERO, message(5, 5, mtu), &OnePath);
        }
    }
    sent
}

#[test]
fn connections_send_round_robin_or_shortest_first() {
    assert_eq!(
        sent_to(ConnectionPolicy::PerMessage),
        [1, 2, 3, 4, 1, 2, 3, 5, 4, 1, 3, 1, 1],
        "round-robin"
    );
    assert_eq!(
        sent_to(ConnectionPolicy::ShortestFirst),
        [2, 2, 4, 4, 5, 3, 3, 3, 1, 1, 1, 1, 1],
        "equal bytes left: the new message does not wait"
    );
}

#[test]
fn a_packet_that_fills_the_window_exactly_goes() {
    let full = path().full_wire_bytes as f64;
    for (rule, fits) in [(WindowRule::Fits, 3.0 * full), (WindowRule::Below, 2.0 * full + 1.0)] {
        let cc = Swift::start(&SwiftParams::default(), &path(), Time::ZERO, 0);
        let params = ConnectionParams { window_rule: rule, ..Default::default() };
        let mut sender = Sender::new(cc, 1, 0, 7, false, path(), &params);
        sender.in_flight = 2 * path().full_wire_bytes as u64;
        for (window, open) in [(fits, true), (fits - 1.0, false)] {
            sender.set_limit(&Limit::window(window));
            assert_eq!(sender.window_open(), open, "{window} B under {rule:?}");
        }
    }
}

/// Departure time of the pending packet of a connection under `C`: it follows a packet of 4,200
/// bytes sent at 1 Gbit/s (due at 33.6 us), and the pace has changed to `gbps` since.
fn due_after_a_change<C: CongestionControl>(gbps: f64) -> Time {
    let params = WindowedParams::<C>::default();
    let cc = C::start(&params.control, &path(), Time::ZERO, 0);
    let mut sender = Sender::new(cc, 1, 0, 7, false, path(), &params.connection);
    let pace = |gbps: f64| Limit { pace_bps: gbps * 1e9, ..Limit::window(1e6) };
    sender.set_limit(&pace(1.0));
    sender.advance_pacing(Time::ZERO, 4200);
    assert_eq!(sender.send_time(), Time::ns(33_600));
    sender.set_limit(&pace(gbps));
    sender.send_time()
}

/// rdma-hw.cc of HPCC's simulator: only its window controls move the pending packet (ChangeRate).
#[test]
fn pending_packet_shifts_by_the_change_of_the_gap() {
    for (gbps, moved_ns) in [(0.5, 67_200), (1.0, 33_600), (2.0, 16_800), (1e3, 34)] {
        for (name, due) in [
            ("hpcc", due_after_a_change::<Hpcc>(gbps)),
            ("powertcp", due_after_a_change::<PowerTcp>(gbps)),
            ("theta-powertcp", due_after_a_change::<ThetaPowerTcp>(gbps)),
        ] {
            assert!(due.as_ps().abs_diff(moved_ns * 1000) < 500, "{name} to {gbps}: {due:?}");
        }
    }
}

#[test]
fn pending_packet_keeps_its_time_under_nic_rates() {
    for gbps in [0.5, 2.0, 1e3] {
        for (name, due) in [
            ("timely", due_after_a_change::<Timely>(gbps)),
            ("dcqcn", due_after_a_change::<Dcqcn>(gbps)),
            ("dctcp-rate", due_after_a_change::<DctcpRate>(gbps)),
            ("swift", due_after_a_change::<Swift>(gbps)),
        ] {
            assert_eq!(due, Time::ns(33_600), "{name} to {gbps}");
        }
    }
}

/// rdma-hw.cc of HPCC's and PowerTCP's simulators: one packet in flight, at the window over T.
#[test]
fn small_windows_follow_the_pace_if_there_is_one() {
    let full = path().full_wire_bytes;
    let gap = |pace_bps: f64| {
        let mut sender = sender();
        sender.sample_rtt(Span::us(900));
        sender.set_limit(&Limit { pace_bps, ..Limit::window(f64::from(full) / 71.0) });
        sender.advance_pacing(Time::ZERO, full);
        sender.send_time().as_us_f64()
    };
    assert!((gap(1e8) - f64::from(full) * 8.0 / 100.0).abs() < 1e-6);
    assert!((gap(f64::INFINITY) - 71.0 * 900.0).abs() < 0.01);
}

/// A connection that has sent ten packets, of which all but the first arrived up to the fifth.
fn overtaken(messages: &mut Messages) -> Sender<Swift> {
    let (mut sender, mtu) = (sender(), path().mtu);
    messages.append(&mut sender.queue, 0, 0, &message(1, 1, 10 * mtu as u64), mtu);
    (sender.next, sender.in_flight) = (10, 10 * path().full_wire_bytes as u64);
    let ack = Ack { seq: 4, cumulative: 0, sack: 0b1111, ..Ack::default() };
    let progress = sender.acknowledge(&ack, messages, &mut Vec::new(), mtu, |_| ());
    assert_eq!(progress.packets, 4);
    sender
}

#[test]
fn reordering_window_covers_base_and_smoothed_rtt() {
    let base = path().base_rtt;
    for (rtt, window) in [(Span::us(1), base), (base, base), (base.times(3), base.times(3))] {
        let mut messages = Messages::default();
        let mut sender = overtaken(&mut messages);
        sender.sample_rtt(rtt);
        let now = Time::us(100);
        assert!(!sender.detect_loss(now, now, true, &messages, path().mtu));
        assert_eq!(sender.due(), now + window, "with a round trip of {rtt}");
        assert!(sender.reorder_expired(now + window, &messages, path().mtu));
    }
}

#[test]
fn retransmission_is_lost_after_a_quarter_window() {
    let (mut messages, mtu, again) = (Messages::default(), path().mtu, Time::us(100));
    let mut sender = overtaken(&mut messages);
    assert!(sender.detect_loss(again, Time::ZERO, false, &messages, mtu));
    assert_eq!(sender.recovery.as_mut().unwrap().take_lost(again), Some(0));
    let quarter = Span::ps(path().base_rtt.as_ps() / 4);
    for (echo, lost) in [(again + quarter, false), (again + quarter + Span::ps(1), true)] {
        // The episode continues: the control was already notified.
        assert!(!sender.detect_loss(echo, echo, false, &messages, mtu));
        assert_eq!(sender.recovery.as_ref().unwrap().is_lost(0), lost, "{echo}");
    }
}

/// A connection whose first packet was lost and retransmitted at 20 us, and whose packet 9 was sent
/// at `us` and arrived. Returns whether the first packet is retransmitted again then. Either end
/// may hold a packet for 10 us.
fn sent_twice(us: u64) -> bool {
    let mut host = host(0, ConnectionPolicy::PerPair, Span::us(10));
    host.submit(Time::ZERO, message(0, 1, 100 * 4096), &OnePath);
    let data = |body: &Body| match Header::read(body) {
        Some(Header::Data(data)) => data,
        other => panic!("{other:?}"),
    };
    let mut first = Data::default();
    for seq in 0..10 {
        let (_, body) = transmit(&mut host, Time::ZERO).unwrap();
        first = data(&body);
        assert_eq!((first.seq, first.offset), (seq, seq * 4096));
    }
    let Data { connection, lane, message, .. } = first;
    let mut ack = |at, seq, sack, sent_at| {
        let ack = Ack { connection, lane, message, seq, sack, sent_at, ..Ack::default() };
        let mut body = Body { src: 1, ..Body::default() };
        Header::Ack(ack).write(&mut body);
        receive(&mut host, at, &mut Frame::default(), &mut body);
        let next = data(&transmit(&mut host, at).unwrap().1);
        (next.seq == 0 && next.retransmission, next.sent_at)
    };
    assert_eq!(ack(Time::us(20), 4, 0b1111, Time::ZERO), (true, Time::us(20)));
    ack(Time::us(us + 20), 9, 0b1111_1111, Time::us(us)).0
}

#[test]
fn held_packet_does_not_show_a_lost_retransmission() {
    // 10 us at either end, and a quarter of the round trip of 20 us.
    assert!(!sent_twice(40) && !sent_twice(45) && sent_twice(46));
}

#[test]
fn episode_lasts_until_earlier_packets_arrive() {
    let mut recovery = Recovery::default();
    recovery.begin(10);
    (11..14).for_each(|seq| assert!(!recovery.sack(seq)));
    recovery.lose_overtaken(10, &mut |_| ());
    assert!(recovery.begins_episode(10, 20));
    assert_eq!(recovery.take_lost(Time::us(1)), Some(10));
    recovery.advance(14);
    assert!(!recovery.is_over(14) && !recovery.begins_episode(14, 30));
    recovery.advance(19);
    assert!(!recovery.is_over(19));
    recovery.advance(20);
    assert!(recovery.is_over(20) && recovery.begins_episode(20, 30));
}

/// The first packet of an episode may be trimmed again and again.
#[test]
fn episode_of_trimmed_packets_ends_after_a_round_trip() {
    let mut recovery = Recovery::default();
    recovery.begin(10);
    let rtt = Span::us(10);
    let mut begins = |us| recovery.begins_trimmed_episode(10, 20, Time::us(us), rtt);
    assert_eq!([1, 5, 10, 11, 20, 21].map(&mut begins), [true, false, false, true, false, true]);
}

#[test]
fn timeout_forgets_earlier_retransmissions() {
    let mut recovery = Recovery::default();
    recovery.begin(10);
    (11..14).for_each(|seq| assert!(!recovery.sack(seq)));
    recovery.lose_overtaken(10, &mut |_| ());
    assert_eq!(recovery.take_lost(Time::us(1)), Some(10));
    recovery.lose_all(10, 14);
    assert_eq!(recovery.take_lost(Time::us(50)), Some(10));
    let mut lost = Vec::new();
    // Sent at 50 us: lost for limits after 50 us only.
    for limit in [Time::us(20), Time::us(50)] {
        recovery.lose_resent_before(limit, &mut |seq| lost.push(seq));
        assert_eq!(lost, [], "before {limit}");
    }
    recovery.lose_resent_before(Time::us(50) + Span::ps(1), &mut |seq| lost.push(seq));
    assert_eq!(lost, [10]);
}

#[test]
fn later_holes_get_their_own_reordering_timer() {
    let (mut recovery, window) = (Recovery::default(), Span::us(5));
    let mut lost = Vec::new();
    recovery.begin(10);
    recovery.sack(12);
    recovery.arm_reorder(Time::ZERO, window);
    recovery.sack(14);
    recovery.lose_marked(10, Time::us(5), window, &mut |seq| lost.push(seq));
    assert_eq!((&lost[..], recovery.reorder_at), (&[10, 11][..], Time::us(10)));
    recovery.lose_marked(10, Time::us(10), window, &mut |seq| lost.push(seq));
    assert_eq!((&lost[..], recovery.reorder_at), (&[10, 11, 13][..], Time::NEVER));
}
