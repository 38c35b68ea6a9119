//! Many hosts at once, and packets with invalid contents.

use super::super::header::{Accept, Grant, Notification, Reject, Request};
use super::*;

/// Hosts of a fabric of hundreds.
const HOSTS: u32 = 400;

/// Host 0 of this fabric.
fn bench() -> Bench {
    let context = HostContext { hosts: HOSTS, ..context(0) };
    Bench { host: Dcpim::new(&DcpimParams::default(), &context), app: Checking::default() }
}

/// Announces messages of this number of hosts.
fn announce(bench: &mut Bench, sources: u32) {
    for src in 1..=sources {
        let size = full_packets(1_000);
        let header = Header::Notification(Notification { size, ..Notification::default() });
        assert_eq!(bench.receive(Time::us(1), src, header), None);
    }
}

#[test]
fn every_sender_is_sometimes_requested_first() {
    // In half a round, minus the time of a packet to the sender, about 115 requests leave.
    let mut bench = bench();
    announce(&mut bench, 350);
    let mut in_time = [0; HOSTS as usize];
    for epoch in 1..10 {
        for number in 1..=4 {
            let sent = bench.sent(round(epoch, number));
            let requested = sent.iter().filter(|(_, header)| matches!(header, Header::Request(_)));
            requested.take(115).for_each(|&(dst, _)| in_time[dst as usize] += 1);
        }
    }
    // In a third of 36 rounds on average.
    let (least, most) = (in_time[1..=350].iter().min(), in_time[1..=350].iter().max());
    assert!(least >= Some(&3) && most <= Some(&25), "{in_time:?}");
}

#[test]
fn requests_are_limited_to_half_a_round() {
    let hosts = 4_000;
    let context = HostContext { hosts, ..context(0) };
    let host = Dcpim::new(&DcpimParams::default(), &context);
    let mut bench = Bench { host, app: Checking::default() };
    announce(&mut bench, hosts - 1);
    let half = settings().calendar.iteration.as_ps() / 2;
    let most = half / context.nic_rate.serialise(84).as_ps();
    let mut requested = [false; 4_000];
    // All rounds since the announcement at once.
    bench.sent(round(1, 4));
    for epoch in 2..20 {
        for number in 1..=4 {
            let sent = bench.sent(round(epoch, number)).into_iter();
            let sent = sent.filter(|(_, header)| matches!(header, Header::Request(_)));
            let to = sent.map(|(dst, _)| dst as usize).collect::<Vec<_>>();
            assert_eq!(to.len() as u64, most);
            to.iter().for_each(|&dst| requested[dst] = true);
        }
    }
    // 72 times an eighth of them, from a random start.
    assert!(requested[1..].iter().all(|&requested| requested));
}

#[test]
fn late_requests_get_responses_at_intervals() {
    let mut bench = Bench::new();
    bench.submit(Time::ZERO, 1, full_packets(1_000));
    bench.sent(Time::ZERO);
    let mut responses = 0;
    for epoch in 40..80 {
        let late = settings().calendar.half(round(epoch, 1)) + Span::ns(1);
        let request =
            Request { message: 0, epoch, round: 1, channels: 4, prompt: 4, remaining: 100 };
        bench.receive(late, 1, Header::Request(request));
        let grants = bench.sent(late).into_iter().filter_map(|(_, header)| match header {
            Header::Grant(grant) => Some(grant.channels),
            _ => None,
        });
        responses += grants.inspect(|&channels| assert_eq!(channels, 0)).count();
    }
    // 40 epochs are 1.09 ms: twice in half a timeout.
    assert!((2..=3).contains(&responses), "{responses}");
}

#[test]
fn any_epoch_number_of_a_known_host_is_handled() {
    // From hosts that it receives from and sends to, with numbers of any size.
    let any = [0, 1, 2, u64::MAX - 1, u64::MAX];
    for epoch in any {
        for (round, channels) in [(0, 0), (1, 4), (u32::MAX, u32::MAX)] {
            let mut bench = Bench::new();
            bench.submit(Time::ZERO, 1, full_packets(1_000));
            let size = full_packets(1_000);
            let header = Header::Notification(Notification { size, ..Notification::default() });
            bench.receive(Time::us(1), 1, header);
            let (message, prompt, remaining) = (0, channels, u32::MAX);
            let headers = [
                Header::Request(Request { message, epoch, round, channels, prompt, remaining }),
                Header::Grant(Grant { message, epoch, round, channels, prompt, remaining }),
                Header::Accept(Accept { message, epoch, round, channels, prompt }),
                Header::Reject(Reject { message, epoch, round, channels, prompt }),
            ];
            for at in [Time::us(2), Time::us(40)] {
                headers.iter().for_each(|&header| _ = bench.receive(at, 1, header));
                bench.sent_until(at, at + Span::us(30));
            }
            assert_eq!(bench.app.messages[0].delivered, 0);
        }
    }
}
