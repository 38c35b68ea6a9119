//! Sizes beyond any realistic value.

use super::*;

#[test]
fn largest_sizes_do_not_overflow() {
    for most in [Extent::Bytes(i64::MAX as f64), Extent::Bytes(1e300), Extent::Bdp(1e9)] {
        let params = SirdParams {
            budget: most,
            unscheduled_threshold: most,
            sender_threshold: most,
            delay_threshold: most,
            ..SirdParams::default()
        };
        for rules in [Rules::Paper, Rules::PublishedCode] {
            let settings = Settings::new(&SirdParams { rules, ..params.clone() }, &context(0));
            assert!(settings.budget >= 100_000_000_000_000, "{}", settings.budget);
            assert!(settings.sender_threshold >= 100_000_000_000_000);
            assert!(settings.delay_threshold > Span::s(1_000), "{}", settings.delay_threshold);
        }
        let signal = NetworkSignal::Delay;
        let params = SirdParams { network_signal: signal, ..params };
        let mut net = Net::new(2, &params, NO_FAULTS, 1);
        net.submit(0, 1, 400_000);
        net.run(Time::s(1));
        net.assert_all_delivered("all at once");
    }
}
