//! What every connection does about time and loss, step by step.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::recovery::Recovery;
use super::sender::Sender;
use super::{ConnectionParams, MAX_BACKOFF};
use crate::cc::swift::{Swift, SwiftParams};
use crate::contract::path;
use tidegate_core::{CongestionControl, Time, WindowRule};

fn sender() -> Sender<Swift> {
    let cc = Swift::start(&SwiftParams::default(), &path(), Time::ZERO, 0);
    Sender::new(cc, 1, 0, 7, false, path(), WindowRule::Fits)
}

#[test]
fn timeouts_follow_rfc_6298() {
    let params = ConnectionParams { min_rto: Time::us(1), ..Default::default() };
    let mut sender = sender();
    assert_eq!(sender.rto(&params), params.initial_rto);
    // SRTT = R, RTTVAR = R / 2.
    sender.sample_rtt(Time::us(96));
    assert_eq!(sender.rto(&params), Time::us(96 + 4 * 48));
    // RTTVAR = 3/4 · 48 + 1/4 · |96 − 160| = 52, SRTT = 7/8 · 96 + 1/8 · 160 = 104.
    sender.sample_rtt(Time::us(160));
    assert_eq!(sender.rto(&params), Time::us(104 + 4 * 52));
    // RTTVAR = 3/4 · 52 + 1/4 · |104 − 24| = 59, SRTT = 7/8 · 104 + 1/8 · 24 = 94.
    sender.sample_rtt(Time::us(24));
    assert_eq!(sender.rto(&params), Time::us(94 + 4 * 59));
    assert_eq!(sender.rto(&ConnectionParams::default()), Time::us(94 + 4 * 59));
    let params = ConnectionParams { min_rto: Time::us(400), ..Default::default() };
    assert_eq!(sender.rto(&params), Time::us(400));
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
        assert_eq!(expire(&params), Time::ms(doubled));
    }
    for _ in 0..2 * u64::from(MAX_BACKOFF) {
        assert_eq!(expire(&params), params.max_rto);
    }
    // The smallest and the first hold where they are above the largest.
    assert_eq!(expire(&ConnectionParams { initial_rto: Time::s(1), ..params.clone() }), Time::s(1));
    assert_eq!(expire(&ConnectionParams { min_rto: Time::s(2), ..params }), Time::s(2));
}

#[test]
fn three_later_arrivals_and_no_fewer_tell_of_a_loss() {
    let mut recovery = Recovery::default();
    recovery.begin(10);
    let mut lost = Vec::new();
    for (arrived, expected) in [(11, &[][..]), (12, &[]), (13, &[10]), (15, &[10]), (16, &[10]), (17, &[10, 14])] {
        recovery.sack(arrived);
        recovery.lose_overtaken(10, &mut |seq| lost.push(seq));
        assert_eq!(lost, expected, "after {arrived}");
    }
}
