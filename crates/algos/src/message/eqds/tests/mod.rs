//! Tests of the transport under its protocols, alone and in a network.

mod sender;
mod window;

use alloc::vec::Vec;

use tidegate_core::params::{Params, Value};
use tidegate_core::{Body, Frame};

use super::header::{Ack, Data, Nack, Pull, Request};
use super::*;
use crate::contract;
use crate::harness::{
    self, Checking, NO_FAULTS, NoPaths, Subject, all_sent, message, receive, receive_header,
    receive_payload, trials,
};
use crate::kit::window::MAX_AHEAD;
use crate::message::ndp::{Ndp, NdpParams};
use crate::message::nscc_rccc::{NsccRccc, NsccRcccParams};
use crate::message::rccc::{Rccc, RcccParams};

const MTU: u32 = 1458;
const FULL: u64 = 1538;
/// One and a half BDP, the default window.
const WINDOW: u64 = 150_000;

/// The path of every message that has a window.
struct OnePath;

impl PathOracle for OnePath {
    fn path(&self, _src: u32, _dst: u32) -> Path {
        Path { mtu: MTU, full_wire_bytes: FULL as u32, ..contract::path() }
    }
}

macro_rules! subject {
    ($($Protocol:ty: $paths:expr),*) => {$(
        impl Subject for $Protocol {
            fn context(host: u32) -> HostContext {
                harness::context(host)
            }

            fn paths() -> &'static dyn PathOracle {
                &$paths
            }

            fn check_quiet(&self, _hosts: &[Self], case: &str) {
                assert!(self.inbox.is_quiet(), "{case}: a receiver has a message left");
                assert!(self.outbox.is_quiet(), "{case}: a sender has a message left");
            }
        }
    )*};
}
subject!(Eqds: NoPaths, Ndp: NoPaths, Rccc: NoPaths, NsccRccc: OnePath);

/// A host that sends one message of this number of full packets to host 1.
fn sender<T: Subject>(packets: u64) -> T {
    let mut host = T::new(&T::Params::default(), &harness::context(0));
    host.submit(Time::ZERO, message(7, 1, packets * MTU as u64), T::paths());
    host
}

/// Data that it sends at `now`.
fn sent<T: Endpoint<Header = Header>>(host: &mut T, now: Time) -> Vec<Data> {
    let data = |(_, header)| match header {
        Header::Data(data) => data,
        other => panic!("{other:?}"),
    };
    all_sent(host, now).into_iter().map(data).collect()
}

/// Data packet `packet` of a message of this number of full packets.
fn data(packet: u64, packets: u64, target: u64) -> Header {
    let (size, offset) = (packets * MTU as u64, packet * MTU as u64);
    Header::Data(Data { size, offset, target, sent_at: Time::us(1), ..Data::default() })
}

/// Pulls that a receiver sends until it has no more to send or `until`: time, host and credit.
fn pulls<T: Endpoint<Header = Header>>(host: &mut T, until: Time) -> Vec<(Time, u32, u64)> {
    let mut all = Vec::new();
    while host.deadline() <= until {
        let now = host.deadline();
        for (frame, header) in all_sent(host, now) {
            let Header::Pull(Pull { pull, .. }) = header else { panic!("{header:?}") };
            all.push((now, frame.dst, pull - FIRST_PULL));
        }
    }
    all
}

/// Passes a trimmed packet from host 1, and returns the response.
fn trim(host: &mut Eqds, now: Time, header: &Header, priority: u8) -> Header {
    let (mut frame, mut body) =
        (Frame { priority, entropy: 9, ..Frame::default() }, Body { src: 1, ..Body::default() });
    header.write(&mut body);
    receive(host, now, &mut frame, &mut body, &mut Checking::default());
    assert_eq!(frame.entropy, 9, "answers take the path's entropy back");
    Header::read(&body).unwrap()
}

#[test]
fn first_window_leaves_without_credit() {
    let mut host = sender::<Eqds>(200);
    let first = sent(&mut host, Time::us(1));
    // A packet may leave while any credit is left.
    assert_eq!(first.len() as u64, WINDOW.div_ceil(FULL));
    assert!(first.iter().all(|data| data.speculative && !data.retransmission));
    // The window is larger than what it still holds, by what it has sent.
    for (number, data) in (1..).zip(&first) {
        assert_eq!(data.target - FIRST_PULL, (number * FULL).max(FULL), "{number}");
    }
    // Of a message within the window, one packet more is requested until all have left.
    let targets = sent(&mut sender::<Eqds>(3), Time::us(1)).into_iter().map(|data| data.target);
    let left = WINDOW as i64 - 3 * FULL as i64;
    let last = FIRST_PULL.saturating_add_signed(-left);
    assert!(targets.eq([FIRST_PULL + FULL, FIRST_PULL + FULL, last]));
}

#[test]
fn first_response_voids_unused_credit() {
    let mut host = sender::<Eqds>(50);
    assert!(harness::transmit(&mut host, Time::us(1)).is_some());
    let ack = Ack { packet: 0, cumulative: 1, sent_at: Time::us(1), ..Ack::default() };
    receive_header(&mut host, Time::us(9), 1, &Header::Ack(Ack { message: 7, ..ack }));
    assert!(sent(&mut host, Time::us(9)).is_empty());
    let grant = |bytes| Header::Pull(Pull { pull: FIRST_PULL + bytes, ..Pull::default() });
    receive_header(&mut host, Time::us(10), 1, &grant(2 * FULL));
    assert_eq!(sent(&mut host, Time::us(10)).len(), 2);
    // An overtaken pull.
    receive_header(&mut host, Time::us(11), 1, &grant(FULL));
    assert!(sent(&mut host, Time::us(11)).is_empty());
    receive_header(&mut host, Time::us(12), 1, &grant(3 * FULL));
    assert_eq!(sent(&mut host, Time::us(12)).len(), 1);
}

#[test]
fn credit_is_at_most_a_window() {
    let mut host = sender::<Eqds>(400);
    let first = sent(&mut host, Time::us(1)).len();
    let pull = Pull { pull: FIRST_PULL + 2 * WINDOW, ..Pull::default() };
    receive_header(&mut host, Time::us(9), 1, &Header::Pull(pull));
    assert_eq!(sent(&mut host, Time::us(9)).len(), first);
}

#[test]
fn unsent_packets_cannot_be_acknowledged() {
    let mut host = sender::<Eqds>(3);
    for complete in [false, true] {
        let ack = Ack { complete, message: 7, ..Ack::default() };
        receive_header(&mut host, Time::us(1), 1, &Header::Ack(ack));
    }
    assert_eq!(sent(&mut host, Time::us(2)).len(), 3);
}

#[test]
fn lost_packets_leave_first_on_new_credit() {
    let mut host = sender::<Eqds>(150);
    let first = sent(&mut host, Time::us(1)).len() as u64;
    for packet in [5, 3] {
        let nack =
            Header::Nack(Nack { packet, sent_at: Time::us(1), message: 7, ..Nack::default() });
        receive_header(&mut host, Time::us(9), 1, &nack);
        receive_header(&mut host, Time::us(9), 1, &nack);
    }
    assert!(sent(&mut host, Time::us(9)).is_empty(), "there is no credit");
    let pull = Pull { pull: FIRST_PULL + 3 * FULL, ..Pull::default() };
    receive_header(&mut host, Time::us(10), 1, &Header::Pull(pull));
    let again = sent(&mut host, Time::us(10));
    let packets = again.iter().map(|data| (data.offset / MTU as u64, data.retransmission));
    assert!(packets.eq([(3, true), (5, true), (first, false)]));
}

#[test]
fn packets_time_out_and_request_credit_once_a_round() {
    let mut host = sender::<Eqds>(150);
    sent(&mut host, Time::us(1));
    let timeout = Time::us(151);
    assert_eq!(host.deadline(), timeout);
    let requests = |host: &mut Eqds, now| {
        let is_request = |(_, header): &(Frame, Header)| matches!(header, Header::Request(_));
        all_sent(host, now).iter().filter(|&packet| is_request(packet)).count()
    };
    assert_eq!(requests(&mut host, timeout), 1);
    assert_eq!(requests(&mut host, Time::us(450)), 0, "the wait has doubled");
    assert_eq!(requests(&mut host, Time::us(451)), 1);
}

#[test]
fn unused_first_credit_does_not_delay_a_request() {
    let mut host = sender::<Eqds>(1);
    assert_eq!(sent(&mut host, Time::us(1)).len(), 1);
    let all = all_sent(&mut host, Time::us(151));
    let [(_, Header::Request(Request { target, .. }))] = all[..] else { panic!("{all:?}") };
    assert_eq!(target, FIRST_PULL + FULL);
}

#[test]
fn trimmed_packets_request_credit_themselves() {
    let mut host = Eqds::new(&EqdsParams::default(), &harness::context(0));
    let app = &mut Checking::default();
    trim_from(&mut host, 2, &data(0, 1_000, FIRST_PULL + 50 * FULL), app);
    // Their sender requests nothing: its first window holds all of the message.
    (0..3).for_each(|packet| trim_from(&mut host, 1, &data(packet, 3, FIRST_PULL), app));
    let all = pulls(&mut host, Time::us(3));
    let sum = all.iter().filter(|pull| pull.1 == 1).map(|pull| pull.2).max();
    assert_eq!(sum, Some(3 * FULL), "{all:?}");
}

#[test]
fn pulls_are_paced_and_round_robin() {
    let mut host = Eqds::new(&EqdsParams::default(), &harness::context(0));
    let app = &mut Checking::default();
    for src in [1, 2] {
        // The packet itself is requested beside these three.
        let header = data(0, 100, FIRST_PULL + 3 * FULL);
        trim_from(&mut host, src, &header, app);
    }
    // Requested ones; others follow. The first one is due before the second message is known.
    let all = &pulls(&mut host, Time::us(3))[..8];
    let expected = [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2), (1, 4), (2, 3), (2, 4)];
    assert!(all.iter().map(|&(_, dst, sum)| (dst, sum / FULL)).eq(expected), "{all:?}");
    // 99 % of 100 Gbit/s.
    for (number, &(at, ..)) in (1..).zip(&all[1..]) {
        let due = 1e6 + number as f64 * FULL as f64 * 80.0 / 0.99;
        assert!((at.as_ps() as f64 - due).abs() < 10.0, "{at}");
    }
}

/// Passes a trimmed packet from host `src` at 1 us.
fn trim_from(host: &mut Eqds, src: u32, header: &Header, app: &mut Checking) {
    let mut body = Body { src, ..Body::default() };
    header.write(&mut body);
    receive(host, Time::us(1), &mut Frame::default(), &mut body, app);
}

#[test]
fn credit_in_advance_is_at_most_a_window() {
    let mut host = Eqds::new(&EqdsParams::default(), &harness::context(0));
    // One packet and, because that one was trimmed, another.
    trim(&mut host, Time::us(1), &data(0, 1_000, FIRST_PULL + FULL), 0);
    let all = pulls(&mut host, Time::ms(1));
    let last = all.last().unwrap().2;
    assert!((WINDOW + 2 * FULL..WINDOW + 3 * FULL).contains(&last), "{last}");
    // Repeated requests of a sender that gets no pull add nothing.
    let request = Request { size: 9_000, target: FIRST_PULL + FULL, ..Request::default() };
    for round in 0..5 {
        let now = Time::us(900 + round);
        receive_header(&mut host, now, 1, &Header::Request(request));
        let all = pulls(&mut host, now.after(Span::us(1)));
        assert!(matches!(all[..], [(_, 1, sum)] if sum == last), "{all:?}");
    }
    // A forged request for more is bounded, too.
    trim(&mut host, Time::ms(1), &data(0, 1_000, u64::MAX), 0);
    let more = pulls(&mut host, Time::ms(2)).last().unwrap().2 - last;
    assert!(more < 2 * WINDOW + 4 * FULL, "{more}");
}

#[test]
fn trimmed_packets_are_requested_again() {
    let mut host = Eqds::new(&EqdsParams::default(), &harness::context(0));
    for (priority, at_last_hop) in [(0, false), (1, true)] {
        let answer = trim(&mut host, Time::us(1), &data(2, 5, FIRST_PULL), priority);
        let expected =
            Nack { last_hop: at_last_hop, packet: 2, sent_at: Time::us(1), ..Nack::default() };
        assert_eq!(answer, Header::Nack(expected));
    }
    // Its number is beyond the end, or beyond what a receiver keeps.
    for (packet, packets) in [(5, 5), (MAX_AHEAD, MAX_AHEAD + 9)] {
        let mut fresh = Eqds::new(&EqdsParams::default(), &harness::context(0));
        let header = data(packet, packets, FIRST_PULL);
        assert_eq!(trim(&mut fresh, Time::us(1), &header, 0), header, "{packet}: no answer");
    }
}

#[test]
fn timeouts_last_two_round_trips_at_least() {
    let params = EqdsParams { min_rto: Span::us(1), ..EqdsParams::default() };
    let context = harness::context(0);
    let mut host = Eqds::new(&params, &context);
    host.submit(Time::ZERO, message(7, 1, 5 * MTU as u64), &NoPaths);
    assert!(harness::transmit(&mut host, Time::us(3)).is_some());
    assert_eq!(host.deadline(), Time::us(3).after(context.fabric_base_rtt.times(2)));
}

#[test]
fn ports_to_hosts_mark_nothing() {
    let RcccParams { kmin, kmax, .. } = RcccParams::default();
    let requirements = RcccParams::default().pulls().requirements_with_marks(kmin, kmax);
    assert!(requirements.ecn.is_some_and(|marking| marking.core_only));
}

/// A duplicate may be trimmed, too.
#[test]
fn trimmed_packets_that_arrived_are_acknowledged() {
    let mut host = Eqds::new(&EqdsParams::default(), &harness::context(0));
    let app = &mut Checking::default();
    app.submit(1, 0, 5 * MTU as u64);
    receive_payload(&mut host, Time::us(1), 1, &data(2, 5, FIRST_PULL), MTU, app);
    let answer = trim(&mut host, Time::us(2), &data(2, 5, FIRST_PULL), 0);
    assert!(matches!(answer, Header::Ack(Ack { packet: 2, complete: false, .. })), "{answer:?}");
}

/// A sender that has all the credit that it requests gets a pull without more.
#[test]
fn empty_pulls_take_time() {
    let mut host = Eqds::new(&EqdsParams::default(), &harness::context(0));
    for lane in [0, 1] {
        let (size, target) = (5 * MTU as u64, FIRST_PULL);
        let request = Request { lane, size, target, ..Request::default() };
        receive_header(&mut host, Time::us(1), 1, &Header::Request(request));
    }
    assert_eq!(all_sent(&mut host, Time::us(1)).len(), 1, "a pull for the first message");
    // The time of 1,024 bytes at 99 % of 100 Gbit/s.
    let gap = Span::from_ps_f64(1024.0 * 80.0 / 0.99);
    assert_eq!(pulls(&mut host, Time::us(2))[0], (Time::us(1).after(gap), 1, 0));
}

#[test]
fn pulls_take_many_paths_if_data_does() {
    for (rule, many) in [(MultipathRule::Oblivious, true), (MultipathRule::Off, false)] {
        let params = EqdsParams { multipath: rule, ..EqdsParams::default() };
        let context = HostContext { spraying: false, ..harness::context(0) };
        let mut host = Eqds::new(&params, &context);
        receive_header(&mut host, Time::us(1), 1, &data(0, 100, FIRST_PULL + 50 * FULL));
        let mut entropies = Vec::new();
        while host.deadline() <= Time::us(3) {
            let now = host.deadline();
            entropies.extend(all_sent(&mut host, now).into_iter().map(|(frame, _)| frame.entropy));
        }
        assert!(entropies.len() > 10, "{entropies:?}");
        entropies.sort_unstable();
        entropies.dedup();
        assert_eq!(entropies.len() > 1, many, "{entropies:?}");
    }
}

/// The receiver's link is not the fault of a path.
#[test]
fn only_trims_in_the_core_blame_the_path() {
    let uses = |last_hop| {
        let multipath = MultipathRule::Bitmap;
        let params = EqdsParams { multipath, paths: 4, ..EqdsParams::default() };
        let mut host = Eqds::new(&params, &harness::context(0));
        host.submit(Time::ZERO, message(7, 1, 200 * MTU as u64), &NoPaths);
        let entropy = all_sent(&mut host, Time::us(1))[0].0.entropy;
        let nack =
            Header::Nack(Nack { last_hop, sent_at: Time::us(1), message: 7, ..Nack::default() });
        let mut frame = Frame { entropy, ..Frame::default() };
        let mut body = Body { src: 1, ..Body::default() };
        nack.write(&mut body);
        receive(&mut host, Time::us(9), &mut frame, &mut body, &mut Checking::default());
        let pull = Pull { pull: FIRST_PULL + 4 * FULL, ..Pull::default() };
        receive_header(&mut host, Time::us(10), 1, &Header::Pull(pull));
        let next = all_sent(&mut host, Time::us(10));
        assert_eq!(next.len(), 4);
        next.iter().any(|(frame, _)| frame.entropy == entropy)
    };
    assert!(uses(true) && !uses(false));
}

#[test]
fn a_stopped_message_ends_when_its_receiver_knows() {
    let mut host = Eqds::new(&EqdsParams::default(), &harness::context(0));
    let handle = host.submit(Time::ZERO, message(7, 1, Message::UNLIMITED), &NoPaths);
    assert!(harness::transmit(&mut host, Time::us(1)).is_some());
    host.stop(Time::us(2), handle);
    let ack = Ack { packet: 0, cumulative: 1, message: 7, ..Ack::default() };
    receive_header(&mut host, Time::us(9), 1, &Header::Ack(ack));
    assert!(host.limits(handle).is_some(), "that packet did not state the end");
    let [(_, Header::Request(Request { size, .. }))] = all_sent(&mut host, Time::us(9))[..] else {
        panic!("the end is announced")
    };
    assert_eq!(size, MTU as u64);
}

#[test]
fn ndp_pulls_one_packet_for_each_arrival() {
    let mut host = Ndp::new(&NdpParams::default(), &harness::context(0));
    let app = &mut Checking::default();
    app.submit(1, 0, 10 * MTU as u64);
    for packet in 0..3 {
        receive_payload(&mut host, Time::us(1), 1, &data(packet, 10, 0), MTU, app);
    }
    let all = pulls(&mut host, Time::ms(1));
    assert!(all.iter().map(|&(_, _, sum)| sum / FULL).eq([1, 2, 3]), "{all:?}");
    assert_eq!(host.deadline(), Time::NEVER, "no credit in advance");
    receive_payload(&mut host, Time::us(20), 1, &data(2, 10, 0), MTU, app);
    assert_eq!(host.deadline(), Time::NEVER, "a duplicate requests nothing");
    // The rest of the first window may be used after a response.
    let mut host = sender::<Ndp>(50);
    assert!(harness::transmit(&mut host, Time::us(1)).is_some());
    let ack = Ack { packet: 0, cumulative: 1, message: 7, ..Ack::default() };
    receive_header(&mut host, Time::us(9), 1, &Header::Ack(ack));
    assert_eq!(sent(&mut host, Time::us(9)).len(), 49);
}

#[test]
fn ndp_requests_repeat_the_sum_of_pulls() {
    let mut host = Ndp::new(&NdpParams::default(), &harness::context(0));
    let request = |target| {
        let size = 9 * MTU as u64;
        Header::Request(Request { size, target, ..Request::default() })
    };
    // Three requests of a sender that has got no pull, then one of a sender that has got it.
    for target in [FULL, FULL, FULL, 2 * FULL] {
        receive_header(&mut host, Time::us(1), 1, &request(FIRST_PULL + target));
        let all = pulls(&mut host, Time::ms(1));
        assert!(matches!(all[..], [(_, 1, sum)] if sum == target), "{all:?}");
    }
}

#[test]
fn ndp_packets_that_time_out_leave_without_pulls() {
    let mut host = sender::<Ndp>(100);
    let first = sent(&mut host, Time::us(1)).len() as u64;
    assert_eq!(first, (WINDOW * 2 / 3).div_ceil(FULL));
    // They never arrived, so no pull will come for them.
    let again = sent(&mut host, Time::us(1_001));
    assert!(again.iter().map(|data| data.offset / MTU as u64).eq(0..first), "{again:?}");
    assert!(again.iter().all(|data| data.retransmission));
}

#[test]
fn largest_sum_of_pulls_is_accepted_alone() {
    // The last packet of the first window costs nearly a packet more than is left of it.
    let max_window = Extent::Bytes((97 * FULL + 100) as f64);
    for pull_packets in 1..=4 {
        let params = EqdsParams { max_window, pull_packets, ..EqdsParams::default() };
        let [mut sending, mut receiving] =
            [0, 1].map(|host| Eqds::new(&params, &harness::context(host)));
        sending.submit(Time::ZERO, message(7, 1, 1_000 * MTU as u64), &NoPaths);
        let last = sent(&mut sending, Time::us(1)).pop().unwrap();
        receive_header(&mut receiving, Time::us(2), 0, &Header::Data(last));
        let (.., sum) = pulls(&mut receiving, Time::ms(1)).pop().unwrap();
        // Earlier sums are ignored; trimmed packets add theirs to later ones.
        for (sum, is_accepted) in [(0, false), (sum, true), (sum, false), (3 * sum, true)] {
            let pull = Pull { pull: FIRST_PULL + sum, message: 7, ..Pull::default() };
            receive_header(&mut sending, Time::us(100), 1, &Header::Pull(pull));
            let sent = sent(&mut sending, Time::us(100)).len();
            assert_eq!(sent > 0, is_accepted, "{pull_packets}: {sum}");
            assert!(sent as u64 <= 98, "at most a window: {sent}");
        }
    }
}

macro_rules! trials_of {
    ($($module:ident: $Protocol:ty, $Params:ty;)*) => {$(
        mod $module {
            use super::*;

            fn varied(seed: u64) -> trials::Variation<$Params> {
                let jitter = Span::us(seed % 4 * 3);
                let mut params = <$Params>::default();
                let mut set = |name, value| params.set(name, value).unwrap();
                set("pull_packets", Value::Integer(1 + seed % 4));
                if seed % 3 == 1 {
                    set("multipath", Value::Choice("reps"));
                }
                if seed % 5 == 2 {
                    set("max_window", Value::Extent(Extent::Bdp(0.1)));
                }
                trials::Variation { params, jitter, congestion: 0.0, patient: true }
            }

            #[test]
            fn every_message_arrives_once_under_faults() {
                let until = Time::s(20);
                let trial = trials::RandomTrial { most_bytes: 150_000, most_ns: 30_000, until };
                let faults = [(0.0, 0.0, 60), (0.01, 0.0, 120), (0.05, 0.02, 120), (0.3, 0.1, 20)];
                let lost = trial.survive::<$Protocol>(faults, varied);
                assert!(lost > 3_000, "only {lost} packets were lost");
            }

            #[test]
            fn hosts_come_and_go_amid_messages() {
                let until = Time::s(20);
                let trial = trials::RandomTrial { most_bytes: 150_000, most_ns: 30_000, until };
                let faults = [(0.0, 0.0, 40), (0.01, 0.0, 40), (0.05, 0.02, 40), (0.3, 0.1, 20)];
                trial.survive_session_restarts::<$Protocol>(&faults, varied);
            }

            #[test]
            fn forgetting_leaves_nothing() {
                trials::forgetting_leaves_nothing::<$Protocol>(&<$Params>::default());
                trials::messages_waiting_for_a_lane_are_forgotten_too::<$Protocol>();
            }

            #[test]
            fn first_packets_of_any_kind_may_be_lost() {
                // Timeouts of at most 1 ms for each loss, which double without a response.
                let bound = |lost: u64| Time::us(2_000 * (1 << lost) + 300);
                let lost = trials::first_packets_of_any_kind_may_be_lost::<$Protocol>(
                    NO_FAULTS.jitter, bound);
                assert!(lost > 200, "{lost}");
            }

            #[test]
            fn endless_message_survives_loss() {
                trials::endless_message_survives_loss::<$Protocol>(
                    &<$Params>::default(), NO_FAULTS.jitter, Span::ms(10), |_| true);
            }

            #[test]
            fn handle_is_invalid_once_acknowledged() {
                trials::handle_is_invalid_once_acknowledged::<$Protocol>(
                    Span::us(40), Span::us(400), Span::us(150));
            }

            #[test]
            fn forged_packets_harm_only_their_senders() {
                trials::forged_packets_harm_only_their_senders::<$Protocol>(
                    |seed| varied(seed).params, 100_000, Time::s(1), |_| None);
            }
        }
    )*};
}
trials_of! {
    eqds: Eqds, EqdsParams;
    ndp: Ndp, NdpParams;
    nscc_rccc: NsccRccc, NsccRcccParams;
    rccc: Rccc, RcccParams;
}
