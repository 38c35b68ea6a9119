//! The outstanding credit of a receiver never exceeds its budget, nor that of a sender its bucket:
//! checked after every event of any host.

use alloc::collections::VecDeque;

use super::super::header::Request;
use super::*;
use crate::message::tide::{Tide, TideParams};
use alloc::format;
use tidegate_core::{Domain, Rng};

const FULL: i64 = 1_538;
const BDP: i64 = 100_000;
/// Smallest number of whole packets that covers a BDP.
const WHOLE: i64 = 66 * FULL;

/// Budget and credit limit of one sender, in bytes, as the head of `mod.rs` defines them.
fn bounds(rules: Rules, budget: f64) -> (i64, i64) {
    let requested = ((budget * BDP as f64) as i64).max(FULL);
    match rules {
        Rules::PublishedCode => (requested, BDP),
        Rules::Paper if requested < BDP => (requested, WHOLE),
        Rules::Paper => (requested + WHOLE - BDP, WHOLE),
    }
}

/// Outstanding credit of all hosts.
struct Ledger {
    budget: i64,
    most: i64,
    /// Whether every packet needs credit and all packets are full: the outstanding credit then also
    /// follows from the credit packets and the delivered bytes.
    all_scheduled: bool,
    /// Credit issued so far, by receiver and sender.
    issued: [[u64; 4]; 4],
    /// Largest outstanding credit of a host.
    peak: i64,
    /// Number of checks at which credit had just been issued, and at which a sender became silent.
    issues: u64,
    silences: u64,
}

impl Ledger {
    fn new(rules: Rules, budget: f64, all_scheduled: bool) -> Ledger {
        let (budget, most) = bounds(rules, budget);
        let issued = [[0; 4]; 4];
        Ledger { budget, most, all_scheduled, issued, peak: 0, issues: 0, silences: 0 }
    }

    fn look(&mut self, net: &Net) {
        for (dst, host) in net.hosts.iter().enumerate() {
            let (mut sum, mut fresh) = (0, false);
            for source in &host.inbox.sources {
                let out = source.bucket.outstanding;
                if self.all_scheduled {
                    let returned = returned(net, source.host, dst as u32);
                    assert_eq!(
                        out,
                        source.granted_bytes as i64 - returned,
                        "the booked credit is wrong"
                    );
                }
                let issued = &mut self.issued[dst][source.host as usize];
                if source.granted_bytes > *issued {
                    // The bucket is compared before the packet is added.
                    let bucket = source.bucket.bytes() as i64;
                    let most = self.most.min(bucket + FULL);
                    assert!(out <= most, "{out} B for {} with a bucket of {bucket}", source.host);
                    (*issued, fresh) = (source.granted_bytes, true);
                }
                self.silences += source.silent as u64;
                sum += if source.silent { 0 } else { out };
            }
            assert_eq!(sum, host.inbox.outstanding, "the sum differs from its terms");
            // Credit that senders take themselves, or that returns with formerly silent senders,
            // may exceed the budget; but then no credit is issued.
            if fresh || self.all_scheduled && self.silences == 0 {
                assert!(sum <= self.budget, "host {dst} has {sum} B out of {}", self.budget);
            }
            self.issues += fresh as u64;
            self.peak = self.peak.max(sum);
        }
    }
}

/// Wire bytes that have arrived for the first time.
fn returned(net: &Net, src: u32, dst: u32) -> i64 {
    let ours = net.app.messages.iter().filter(|message| (message.src, message.dst) == (src, dst));
    ours.map(|message| message.delivered as i64 / MTU as i64 * FULL).sum()
}

/// Messages of whole packets among four hosts, all from the start.
fn busy(params: &SirdParams, faults: Faults, seed: u64) -> Net {
    let mut net = Net::new(4, params, faults, seed).through_a_switch();
    let mut rng = Rng::stream(seed, Domain::Traffic, 1);
    for number in 0..16 {
        let src = rng.below(4) as u32;
        // Most of them to host 0.
        let dst = if src > 0 && number % 4 > 0 { 0 } else { (src + 1 + rng.below(3) as u32) % 4 };
        net.submit_weighed(src, dst, (1 + rng.below(120)) * MTU as u64, 1 + number % 5);
    }
    net
}

#[test]
fn outstanding_credit_respects_budget_and_bucket() {
    let (mut issues, mut silences, mut full) = (0, 0, 0);
    for seed in 0..192 {
        let policy = |of: u64| POLICIES[(seed / of % 4) as usize];
        let rules = [Rules::Paper, Rules::PublishedCode][(seed / 4 % 2) as usize];
        let budget = [0.0, 0.5, 1.0, 1.25, 1.5, 3.0][(seed % 6) as usize];
        let params = SirdParams {
            budget: Extent::Bdp(budget),
            unscheduled_threshold: Extent::Bdp(0.0),
            receiver_policy: policy(1),
            sender_policy: policy(16),
            network_signal: SIGNALS[(seed / 5 % 3) as usize],
            credit_pacing: seed % 7 > 1,
            rules,
            ..SirdParams::default()
        };
        let loss = [0.0, 0.02, 0.25][(seed / 64) as usize];
        let congestion = [0.0, 0.3][(seed / 2 % 2) as usize];
        let faults = Faults { loss, congestion, jitter: Span::us(1 + seed % 9), ..NO_FAULTS };
        let mut net = busy(&params, faults, seed);
        let mut ledger = Ledger::new(rules, budget, true);
        net.run_watched(Time::s(20), |net| ledger.look(net));
        net.assert_all_delivered(&alloc::format!("seed {seed}"));
        full += (ledger.budget - ledger.peak < FULL) as u64;
        issues += ledger.issues;
        silences += ledger.silences;
    }
    assert!(issues > 50_000 && silences > 0, "{issues} credits, {silences} silent");
    assert!(full > 120, "only {full} of 192 have been at their budgets");
}

#[test]
fn small_budgets_are_warned_of() {
    let path = crate::contract::path();
    let warnings = |budget| {
        let sird = SirdParams { budget, ..SirdParams::default() };
        let tide = TideParams { budget, ..TideParams::default() };
        let rate = path.nic_rate.as_bps() as f64;
        let of_sird = Sird::operating_point(&sird, &path, rate).domain_warnings;
        let of_tide = Tide::operating_point(&tide, &path, rate).domain_warnings;
        assert!(of_tide.starts_with(&of_sird), "{of_tide:?}");
        of_sird
    };
    // The path holds 75,000 B, 17.9 packets of 4,200; a BDP is set to 100,000 B. Half of it is
    // eleven packets.
    for (budget, share) in [(Extent::Bytes(100.0), "0.06"), (Extent::Bdp(0.5), "0.62")] {
        let expected = format!("budget = {budget} fills {share} of a path with a base RTT of 6.00");
        let found = warnings(budget);
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
        assert!(found[0].ends_with("set budget = \"75600B\""), "{found:?}");
    }
    for budget in [Extent::Bytes(75_600.0), Extent::Bdp(1.0)] {
        assert_eq!(warnings(budget), [""; 0]);
    }
}

#[test]
fn self_taken_credit_counts_against_the_budget() {
    let mut above = 0;
    for seed in 0..48 {
        let rules = [Rules::Paper, Rules::PublishedCode][(seed / 4 % 2) as usize];
        let receiver_policy = POLICIES[(seed % 4) as usize];
        let params = SirdParams { rules, receiver_policy, ..SirdParams::default() };
        let faults = Faults { loss: [0.0, 0.03][(seed / 8 % 2) as usize], ..NO_FAULTS };
        let mut net = busy(&params, faults, seed);
        let mut ledger = Ledger::new(rules, 1.5, false);
        net.run_watched(Time::s(20), |net| ledger.look(net));
        net.assert_all_delivered(&alloc::format!("seed {seed}"));
        above += (ledger.peak > ledger.budget) as u64;
    }
    assert!(above > 24, "senders took more than the budget in {above} of 48 runs");
}

#[test]
fn false_claims_of_taken_credit_are_bounded() {
    let (settings, mut inbox) = (settings(), Inbox::new(Pacer::new(RATE, true)));
    let source = inbox.source(&settings, 1, true).unwrap();
    let (mut control, mut booked) = (VecDeque::new(), Vec::new());
    for lane in 0..100 {
        let (unscheduled, size) = (1 << 20, (1 << 20) * MTU as u64);
        let request = Request { lane, message: FORGED, unscheduled, size, ..Request::default() };
        let step = &mut Step { settings: &settings, now: Time::ZERO, control: &mut control };
        inbox.on_request(step, source, &request, &mut Checking::default());
        booked.push(inbox.outstanding);
    }
    // Whole packets of each.
    assert_eq!(booked[0], BDP / FULL * FULL);
    assert!(booked[99] > 15 * BDP && booked[99] <= 16 * BDP, "{booked:?}");
}

#[test]
fn credit_accounts_hold_across_different_bdps() {
    for seed in 0..48 {
        let params =
            SirdParams { receiver_policy: POLICIES[seed as usize % 4], ..Default::default() };
        let faults = Faults { loss: [0.0, 0.03][seed as usize / 4 % 2], ..NO_FAULTS };
        let mut net = Net::new(4, &params, faults, seed);
        for (host, of) in [(0, 0.02), (1, 20.0), (2, 0.3)] {
            let bdp_bytes = of * BDP as f64;
            net.hosts[host as usize] =
                Sird::new(&params, &HostContext { bdp_bytes, ..context(host) });
        }
        for number in 0..24u64 {
            let (src, ahead) = ((number % 4) as u32, 1 + (number / 4 % 3) as u32);
            net.submit(src, (src + ahead) % 4, 1 + (number * 7_919 + seed * 104_729) % 150_000);
        }
        net.run(Time::s(20));
        net.assert_all_delivered(&alloc::format!("seed {seed}"));
    }
}

#[test]
fn budget_covers_a_raised_threshold() {
    let budget = |packets: f64, budget: f64, sender_threshold: f64| {
        let params = SirdParams {
            budget: Extent::Bdp(budget),
            sender_threshold: Extent::Bdp(sender_threshold),
            ..SirdParams::default()
        };
        let Credits { budget, threshold, .. } = Credits::new(&params, 1_000, packets * 1_000.0);
        (budget, threshold)
    };
    // A BDP, the threshold of two packets and one more.
    assert_eq!(budget(3.0, 1.5, 0.5), (6_000, 2_000));
    assert_eq!(budget(2.6, 1.5, 0.5), (3_000 + 2_000 + 1_000, 2_000));
    assert_eq!(budget(4.0, 1.5, 0.5), (6_000, 2_000), "half a BDP is two packets");
    assert_eq!(budget(3.0, 1.5, 1.0), (4_500, 3_000), "the threshold is not raised");
    assert_eq!(budget(3.0, 0.9, 0.5), (2_700, 2_000), "less than a BDP");
}
