//! Incast control: with many outstanding requests, replies start with one packet.

use tidegate_core::Role;

use super::super::incast::{Exchanges, IncastRole};
use super::*;

const FULL: u64 = MTU as u64;

fn with_requests(limit: u64) -> Homa {
    host(&HomaParams { incast_requests: limit, ..HomaParams::default() })
}

fn request(id: u32) -> Message {
    Message { role: Role::Request, ..message(id, 1, FULL) }
}

/// Whether requests 0 to 4, submitted one after another, request a brief reply.
fn wants(host: &mut Homa) -> Vec<bool> {
    (0..5).for_each(|id| {
        host.submit(Time::us(1), request(id), &NoPaths);
    });
    let mut sent: Vec<_> = all_sent(host, Time::us(1))
        .into_iter()
        .filter_map(|(.., header)| match header {
            Header::Data(data) => Some((data.message, data.wants_brief)),
            _ => None,
        })
        .collect();
    sent.sort_unstable();
    sent.into_iter().map(|(_, wants)| wants).collect()
}

/// A request of one packet from host 1 arrives, in lane `id`.
fn ask(host: &mut Homa, id: u32, wants_brief: bool, app: &mut Checking) {
    let data = Data {
        end_of_message: true,
        wants_brief,
        lane: id,
        message: FORGED + id,
        unscheduled: 1,
        size: FULL,
        ..Data::default()
    };
    receive_payload(host, Time::us(1), 1, &Header::Data(data), MTU, app);
}

/// Number of packets of the reply to request `id` that leave before a grant arrives.
fn first_packets(host: &mut Homa, id: u32) -> u64 {
    let role = Role::Reply { request: FORGED + id };
    host.submit(Time::us(2), Message { role, ..message(id, 1, 20 * FULL) }, &NoPaths);
    data(host, Time::us(2)).len() as u64
}

#[test]
fn requests_beyond_the_limit_want_brief_replies() {
    assert_eq!(wants(&mut with_requests(0)), [false; 5]);
    assert_eq!(wants(&mut with_requests(5)), [false; 5]);
    assert_eq!(wants(&mut with_requests(3)), [false, false, false, true, true]);
}

#[test]
fn a_reply_that_arrives_makes_room_for_a_request() {
    let mut host = with_requests(5);
    assert_eq!(wants(&mut host), [false; 5]);
    let next = |host: &mut Homa, id| {
        host.submit(Time::us(3), request(id), &NoPaths);
        all_sent(host, Time::us(3))
            .into_iter()
            .any(|(.., header)| matches!(header, Header::Data(data) if data.wants_brief))
    };
    assert!(next(&mut host, 5));
    // Two replies to six requests: the next one is the fifth.
    for lane in 0..2 {
        let data = Data {
            replies: true,
            lane,
            message: FORGED + lane,
            unscheduled: 1,
            size: FULL,
            ..Data::default()
        };
        // The second copy does not count.
        for _ in 0..2 {
            receive_payload(
                &mut host,
                Time::us(2),
                1,
                &Header::Data(data),
                MTU,
                &mut Checking::default(),
            );
        }
    }
    assert!(!next(&mut host, 6));
    assert!(next(&mut host, 7));
}

#[test]
fn brief_reply_starts_with_one_packet() {
    // The server's own limit is irrelevant.
    for limit in [0, 1] {
        let (mut host, mut app) = (with_requests(limit), Checking::default());
        ask(&mut host, 0, true, &mut app);
        ask(&mut host, 1, false, &mut app);
        assert_eq!(first_packets(&mut host, 0), 1);
        assert_eq!(first_packets(&mut host, 1), 20);
        // After the reply, the request is forgotten.
        assert_eq!(first_packets(&mut host, 0), 20);
    }
}

#[test]
fn need_ack_carries_the_incast_role() {
    let (mut host, mut app) = (with_requests(1), Checking::default());
    let asks = NeedAck {
        wants_brief: true,
        message: FORGED,
        unscheduled: 1,
        size: FULL,
        sent: FULL,
        ..NeedAck::default()
    };
    receive_payload(&mut host, Time::us(1), 1, &Header::NeedAck(asks), 0, &mut app);
    // Data with the flag lost completes what the announcement stated.
    ask(&mut host, 0, false, &mut app);
    assert_eq!(first_packets(&mut host, 0), 1);
}

#[test]
fn unanswered_requests_take_bounded_memory() {
    let (mut host, mut app) = (with_requests(1), Checking::default());
    for id in 0..70_000_u32 {
        let data = Data {
            wants_brief: true,
            generation: id,
            message: FORGED + id,
            unscheduled: 1,
            size: 1,
            ..Data::default()
        };
        receive_payload(&mut host, Time::us(1), 1, &Header::Data(data), 1, &mut app);
        all_sent(&mut host, Time::us(1));
    }
    assert_eq!(host.inbox.exchanges.brief(), 1 << 16);
}

#[test]
fn replies_are_flagged_and_unrequested_ones_ignored() {
    let mut exchanges = Exchanges::default();
    exchanges.arrived(1, 0, IncastRole { wants_brief: false, replies: true });
    let wants: Vec<bool> =
        (0..2).map(|id| exchanges.submit(1, &request(id)).0.wants_brief).collect();
    assert_eq!(wants, [false, true]);
    let reply = Message { role: Role::Reply { request: 0 }, ..request(2) };
    assert!(exchanges.submit(1, &reply).0.replies);
}

#[test]
fn requests_to_a_forgotten_host_end() {
    let mut exchanges = Exchanges::default();
    for (id, dst) in [(0, 1), (1, 1), (2, 2)] {
        exchanges.submit(9, &Message { dst, ..request(id) });
        exchanges.arrived(dst, id, IncastRole { wants_brief: true, replies: false });
    }
    exchanges.forget(1);
    assert_eq!(exchanges.brief(), 1, "a reply to host 2 starts brief");
    // A late reply, if it were accepted.
    exchanges.arrived(1, 7, IncastRole { wants_brief: false, replies: true });
    assert!(!exchanges.submit(2, &request(3)).0.wants_brief, "the second to wait");
    assert!(exchanges.submit(2, &request(4)).0.wants_brief);
}

#[test]
fn host_may_repeat_requests_to_a_forgotten_server() {
    let mut host = with_requests(5);
    assert_eq!(wants(&mut host), [false; 5]);
    host.forget(Time::us(1), 1);
    assert_eq!(wants(&mut host), [false; 5]);
}
