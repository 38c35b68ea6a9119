//! Verdicts on claims, from their values as chosen, under every alternative to the paper's open
//! values, and under the control.
//!
//! A claim is *reproduced* only if it is within its tolerance for every seed (with seeds that lead
//! to different runs) and for every alternative (each with one seed). It is *conditional* if it is
//! within the tolerance in the mean over the seeds or for some alternative, but not for all. For
//! *direction*, all of these must be measured, and in the paper's direction. If the control passes
//! the same check under the same alternative, the claim is inconclusive.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::Verdict;
use super::registry::{Claim, Figure};
use tidegate_runs::numbers::{digits, digits_apart};
use tidegate_runs::observe::Observations;

/// A claim measured with several seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// From the means over the seeds; `None` if a run gave no value.
    pub(crate) value: Option<f64>,
    /// Minimum and maximum over seeds; `None` if a seed gave no value.
    pub(crate) range: Option<(f64, f64)>,
    /// Number of seeds that led to different runs.
    pub(crate) seeds: u64,
    /// Value of the control, from the means over the seeds; `None` if there is none.
    pub(crate) control: Option<f64>,
}

/// An alternative, and the claim under it; `None` if it has not been measured with this version.
pub(crate) type Varied = (String, Option<Measured>);

impl Measured {
    /// A claim's value over all seeds, and over each.
    pub(crate) fn of(figure: &Figure, claim: &Claim, runs: &[Vec<&Observations>]) -> Measured {
        let count = runs.first().map_or(0, Vec::len);
        let value = |seeds: Range<usize>| {
            claim.value(|query, run| figure.value(query, run, |run| &runs[run][seeds.clone()]))
        };
        let each: Option<Vec<f64>> = (0..count).map(|seed| value(seed..seed + 1)).collect();
        let least = |pick: fn(f64, f64) -> f64| each.as_ref()?.iter().copied().reduce(pick);
        // Seeds with equal runs count once.
        let measured: Vec<usize> =
            claim.queries().flat_map(|query| figure.runs_of(query)).collect();
        let control = claim.control_value(|query, run| figure.value(query, run, |run| &runs[run]));
        let outcome =
            |seed: usize| measured.iter().map(|&run| &runs[run][seed].digest).collect::<Vec<_>>();
        let different: BTreeSet<Vec<&String>> = (0..count).map(outcome).collect();
        Measured {
            value: value(0..count),
            range: least(f64::min).zip(least(f64::max)),
            seeds: different.len() as u64,
            control,
        }
    }

    /// The verdict on this measurement alone: by the worst seed, and compared with its control.
    pub(crate) fn verdict(&self, claim: &Claim) -> Verdict {
        let Some((low, high)) = self.range.filter(|_| self.value.is_some()) else {
            return Verdict::Deviates;
        };
        let all = [self.value, Some(low), Some(high)].map(|value| claim.verdict(value));
        let worst =
            all.into_iter().min_by_key(|verdict| rank(*verdict)).unwrap_or(Verdict::Deviates);
        if self.shows_nothing(claim, worst) { Verdict::Deviates } else { worst }
    }

    /// The same under an alternative that changes the control alone. Single seeds do not count,
    /// because they are judged without alternatives.
    pub(crate) fn with_control_of(&self, other: &Measured) -> Measured {
        let range = self.value.map(|value| (value, value));
        Measured { range, control: other.control, ..*self }
    }

    /// Whether the mean over the seeds is within the tolerance, and the control's is not.
    fn is_within(&self, claim: &Claim) -> bool {
        let verdict = claim.verdict(self.value);
        verdict == Verdict::Reproduced && !self.shows_nothing(claim, verdict)
    }

    fn shows_nothing(&self, claim: &Claim, verdict: Verdict) -> bool {
        verdict != Verdict::Deviates && rank(claim.verdict(self.control)) >= rank(verdict)
    }
}

/// The verdict on a claim, with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// The decisive reason in a few words.
    pub(crate) short: String,
    /// All conditions in sentences.
    pub(crate) reasons: String,
}

/// The verdict on a claim. `seeds` is the number of seeds that led to different runs.
pub(crate) fn judge(claim: &Claim, chosen: &Measured, varied: &[Varied], seeds: u64) -> Judgement {
    let missing = varied.iter().filter(|(_, measured)| measured.is_none()).count();
    let all =
        std::iter::once(chosen).chain(varied.iter().filter_map(|(_, measured)| measured.as_ref()));
    let each: Vec<Verdict> = all.map(|measured| measured.verdict(claim)).collect();
    let all_are = |least| each.iter().all(|verdict| rank(*verdict) >= rank(least));
    let verdict = if all_are(Verdict::Reproduced) && missing == 0 && seeds > 1 {
        Verdict::Reproduced
    } else if each.contains(&Verdict::Reproduced) || chosen.is_within(claim) {
        Verdict::Conditional
    } else if all_are(Verdict::Direction) && missing == 0 {
        Verdict::Direction
    } else {
        Verdict::Deviates
    };
    let mut reasons = Vec::new();
    let alone = claim.verdict(chosen.value);
    let control = claim.control.as_ref().map_or("", |control| &control.of);
    // If only an alternative is within the tolerance, the control can be within it as chosen.
    let passes = claim.verdict(chosen.control) == Verdict::Reproduced;
    match verdict {
        Verdict::Conditional if chosen.is_within(claim) => {
            reasons.extend(named(claim, "not with", varied, |other| {
                other.verdict(claim) != Verdict::Reproduced
            }));
            if chosen.verdict(claim) != Verdict::Reproduced {
                reasons.push("not for every seed".to_owned());
            } else if seeds < 2 {
                reasons.push("measured with one seed".to_owned());
            }
        }
        Verdict::Conditional => {
            reasons.extend(named(claim, "only with", varied, |other| {
                other.verdict(claim) == Verdict::Reproduced
            }));
        }
        Verdict::Deviates if chosen.shows_nothing(claim, alone) => {
            let value = chosen.control.map_or_else(|| "none".to_owned(), digits);
            let as_well = match alone {
                Verdict::Reproduced => "the tolerance also passes",
                _ => "the paper's direction is also that of",
            };
            reasons.push(format!("it is inconclusive: {as_well} {control} ({value})"));
        }
        Verdict::Deviates if chosen.verdict(claim) == Verdict::Direction => {
            reasons.push("as chosen it has the paper's direction".to_owned());
            reasons.extend(named(claim, "not with", varied, |other| {
                other.verdict(claim) == Verdict::Deviates
            }));
        }
        _ => {}
    }
    if missing > 0 {
        let some = if missing == 1 {
            "1 alternative has"
        } else {
            &format!("{missing} alternatives have")
        };
        reasons.push(format!("{some} not been measured with this version"));
    }
    if passes && verdict == Verdict::Conditional {
        let value = chosen.control.map_or_else(|| "none".to_owned(), digits);
        reasons.push(format!("as chosen it is inconclusive: {control} has {value}"));
    }
    let mut text = if reasons.is_empty() { String::new() } else { sentence(&reasons.join("; ")) };
    if verdict != Verdict::Deviates && !passes && claim.control.is_some() {
        let failed = match chosen.control {
            Some(value) => {
                format!("The check fails, as required, with {control}: {}.", digits(value))
            }
            None => format!("With {control} there is no value, which counts as a failure."),
        };
        text = format!("{text} {failed}").trim_start().to_owned();
    }
    let short = short(claim, chosen, varied, (verdict, seeds));
    Judgement { verdict, short, reasons: text }
}

/// The decisive reason for a verdict in a few words.
fn short(
    claim: &Claim,
    chosen: &Measured,
    varied: &[Varied],
    (verdict, seeds): (Verdict, u64),
) -> String {
    let measured = || varied.iter().filter_map(|(name, measured)| Some((name, measured.as_ref()?)));
    let differ = |wanted: bool| {
        let is_meant = |other: &Measured| (other.verdict(claim) == Verdict::Reproduced) == wanted;
        let of = measured().filter(|(_, other)| is_meant(other)).map(|(name, _)| {
            // `open value: alternative`
            name.split_once(": ").map_or(name.as_str(), |(open, _)| open)
        });
        let mut opens: Vec<&str> = of.collect();
        opens.dedup();
        opens
    };
    let listed = |opens: &[&str]| match opens {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [one, two] => format!("{one}, {two}"),
        [one, two, rest @ ..] => format!("{one}, {two} and {} more", rest.len()),
    };
    let missing = varied.len() - measured().count();
    match verdict {
        Verdict::Reproduced if varied.is_empty() => "for every seed".to_owned(),
        Verdict::Reproduced => "for every seed and alternative".to_owned(),
        Verdict::Conditional if !chosen.is_within(claim) => match &differ(true)[..] {
            [] => "not as chosen".to_owned(),
            opens => format!("only with another choice of {}", listed(opens)),
        },
        Verdict::Conditional => match &differ(false)[..] {
            [] if chosen.verdict(claim) != Verdict::Reproduced => "not for every seed".to_owned(),
            [] if missing > 0 => {
                format!("{} of {} alternatives measured", varied.len() - missing, varied.len())
            }
            [] if seeds < 2 => "measured with one seed".to_owned(),
            [] => String::new(),
            opens => format!("depends on {}", listed(opens)),
        },
        Verdict::Direction => outside(claim, verdict, chosen.value),
        Verdict::Deviates if chosen.value.is_none() => "a run gave no value".to_owned(),
        Verdict::Deviates if chosen.shows_nothing(claim, claim.verdict(chosen.value)) => {
            "inconclusive: the control passes too".to_owned()
        }
        Verdict::Deviates if chosen.verdict(claim) == Verdict::Direction => {
            "in the paper's direction, not for every alternative".to_owned()
        }
        Verdict::Deviates => outside(claim, verdict, chosen.value),
    }
}

/// The reason for the verdict on a value outside the tolerance: the bound that it violates, and the
/// value if it equals the bound in three digits.
fn outside(claim: &Claim, verdict: Verdict, value: Option<f64>) -> String {
    let violated = claim.reproduced.zip(value).map(|((least, most), value)| {
        let (bound, above, name) =
            if value > most { (most, "above", "maximum") } else { (least, "below", "minimum") };
        let unit = |text: String| format!("{text} {}", claim.unit).trim_end().to_owned();
        let of_value = if digits(value) == digits(bound) {
            unit(digits_apart(value, bound)) + " is "
        } else {
            String::new()
        };
        let bound = unit(digits_apart(bound, value));
        format!("{of_value}{above} the tolerance's {name} of {bound}")
    });
    match (verdict, violated) {
        (Verdict::Direction, Some(violated)) => format!("in the paper's direction, {violated}"),
        (Verdict::Direction, None) => {
            "in the paper's direction; the claim allows no better verdict".to_owned()
        }
        (_, Some(violated)) => violated,
        (_, None) => "not in the paper's direction".to_owned(),
    }
}

/// Alternatives that satisfy `which`, with their values, and those of controls that pass.
fn named(
    claim: &Claim,
    how: &str,
    varied: &[Varied],
    which: impl Fn(&Measured) -> bool,
) -> Option<String> {
    let named = varied.iter().filter_map(|(name, measured)| {
        let measured = measured.as_ref().filter(|measured| which(measured))?;
        let value = measured.value.map_or_else(|| "none".to_owned(), digits);
        let passes = measured.shows_nothing(claim, claim.verdict(measured.value));
        let control = measured.control.filter(|_| passes).map(digits);
        let control = control.map_or_else(String::new, |of| format!(", and the control has {of}"));
        Some(format!("{name} ({value}{control})"))
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("{how} {}", named.join(", ")))
}

/// Order of verdicts.
fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Reproduced => 3,
        Verdict::Conditional => 2,
        Verdict::Direction => 1,
        Verdict::Deviates => 0,
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// The verdict on a sentence with several readings. The reading counts as an open value.
pub(crate) fn of_readings(verdicts: &[Verdict]) -> Verdict {
    let all = |verdict| verdicts.iter().all(|other| *other == verdict);
    let any = |verdict| verdicts.contains(&verdict);
    if all(Verdict::Reproduced) {
        Verdict::Reproduced
    } else if any(Verdict::Reproduced) || any(Verdict::Conditional) {
        Verdict::Conditional
    } else if all(Verdict::Direction) {
        Verdict::Direction
    } else {
        Verdict::Deviates
    }
}

/// The verdict on a sentence with several parts: the worst of them.
pub(crate) fn of_parts(verdicts: &[Verdict]) -> Verdict {
    let worst = verdicts.iter().copied().min_by_key(|verdict| rank(*verdict));
    worst.unwrap_or(Verdict::Deviates)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reproduced from 8 to 18, in the paper's direction from 2.
    fn claim() -> Claim {
        let text = "name = 'x'\ntext = 'x'\npaper = 16.0\nunit = 'times'\nform = 'ratio'\n\
                    reproduced = [8.0, 18.0]\ntolerance = 'x'\nmeasure = { metric = 'goodput' }\n\
                    over = { metric = 'goodput' }\ncontrol = { of = 'another' }";
        toml::from_str(text).unwrap()
    }

    fn seen(low: f64, value: f64, high: f64) -> Measured {
        Measured { value: Some(value), range: Some((low, high)), seeds: 3, control: Some(1.0) }
    }

    fn judged(chosen: Measured, varied: &[Option<Measured>]) -> Judgement {
        let named = |(i, measured): (usize, &Option<Measured>)| (format!("open: {i}"), *measured);
        let varied: Vec<Varied> = varied.iter().enumerate().map(named).collect();
        judge(&claim(), &chosen, &varied, chosen.seeds)
    }

    fn verdict(chosen: Measured, varied: &[Option<Measured>]) -> (Verdict, String) {
        let Judgement { verdict, reasons, .. } = judged(chosen, varied);
        (verdict, reasons)
    }

    #[test]
    fn reproduced_needs_every_seed_and_alternative() {
        let (held, why) = verdict(seen(9.0, 10.0, 11.0), &[Some(seen(8.0, 9.0, 18.0))]);
        assert_eq!(held, Verdict::Reproduced);
        assert_eq!(why, "The check fails, as required, with another: 1.");
        for (chosen, varied, named) in [
            (seen(9.0, 10.0, 11.0), Some(seen(6.0, 7.0, 7.5)), "Not with open: 0 (7)"),
            (seen(9.0, 10.0, 11.0), Some(seen(7.0, 9.0, 11.0)), "Not with open: 0 (9)"),
            (seen(7.0, 10.0, 11.0), Some(seen(9.0, 10.0, 11.0)), "Not for every seed"),
            (seen(1.0, 1.0, 1.0), Some(seen(9.0, 10.0, 11.0)), "Only with open: 0 (10)"),
            (Measured { seeds: 1, ..seen(9.0, 9.0, 9.0) }, Some(seen(9.0, 10.0, 11.0)), "one seed"),
            (
                seen(9.0, 10.0, 11.0),
                Some(Measured { control: Some(12.0), ..seen(9.0, 10.0, 11.0) }),
                "Not with open: 0 (10, and the control has 12).",
            ),
            (seen(9.0, 10.0, 11.0), None, "1 alternative has not been measured"),
        ] {
            let (held, why) = verdict(chosen, &[varied]);
            assert!(held == Verdict::Conditional && why.contains(named), "{held:?} {why}");
        }
    }

    #[test]
    fn direction_needs_every_seed_and_alternative() {
        let way = seen(2.5, 3.0, 4.0);
        assert_eq!(verdict(way, &[Some(way)]).0, Verdict::Direction);
        let (held, why) = verdict(way, &[Some(way), None]);
        assert!(held == Verdict::Deviates && why.contains("has not been measured"), "{why}");
        assert_eq!(verdict(seen(1.0, 3.0, 4.0), &[Some(way)]).0, Verdict::Deviates);
        let (held, why) = verdict(way, &[Some(seen(0.5, 0.6, 0.7))]);
        assert!(held == Verdict::Deviates && why.contains("not with open: 0 (0.6)"), "{why}");
        let none = Measured { value: None, range: None, ..way };
        assert_eq!(verdict(none, &[]).0, Verdict::Deviates);
        // One alternative within its bounds for some seeds alone is not enough.
        assert_eq!(
            verdict(seen(1.0, 1.0, 1.0), &[Some(seen(7.0, 9.0, 11.0))]).0,
            Verdict::Deviates
        );
    }

    #[test]
    fn reasons_name_the_violated_bound() {
        for (value, expected) in [
            (1.0, "below the tolerance's minimum of 8 times"),
            (20.0, "in the paper's direction, above the tolerance's maximum of 18 times"),
            (18.004, "in the paper's direction, 18.004 times is above the tolerance's maximum of"),
            (3.0, "in the paper's direction, below the tolerance's minimum of 8 times"),
            (
                7.9996,
                "in the paper's direction, 7.9996 times is below the tolerance's minimum of 8",
            ),
        ] {
            let short = judged(seen(value, value, value), &[]).short;
            assert!(short.starts_with(expected), "{value}: {short}");
        }
        let mut none = claim();
        none.reproduced = None;
        let short = judge(&none, &seen(3.0, 3.0, 3.0), &[], 3).short;
        assert_eq!(short, "in the paper's direction; the claim allows no better verdict");
    }

    #[test]
    fn a_claim_is_inconclusive_if_its_control_passes() {
        let next_to = |value: f64, control| Measured { control, ..seen(value, value, value) };
        for (value, control, expected) in [
            (10.0, Some(12.0), Verdict::Deviates),
            (10.0, Some(3.0), Verdict::Reproduced),
            (3.0, Some(2.5), Verdict::Deviates),
            (3.0, Some(12.0), Verdict::Deviates),
            (3.0, Some(1.0), Verdict::Direction),
            (10.0, None, Verdict::Reproduced),
        ] {
            let (held, why) = verdict(next_to(value, control), &[]);
            assert_eq!(held, expected, "{why}");
            assert_eq!(why.contains("inconclusive"), expected == Verdict::Deviates, "{why}");
            let passes = why.contains("the tolerance also passes another (12)");
            assert_eq!(passes, value > 9.0 && expected == Verdict::Deviates, "{why}");
        }
        // The same under an alternative. If the claim deviates, the text does not mention a failed
        // control.
        let chosen = next_to(1.0, Some(12.0));
        let (held, why) = verdict(chosen, &[Some(next_to(10.0, Some(12.0)))]);
        assert!(held == Verdict::Deviates && !why.contains("fails"), "{why}");
        assert_eq!(verdict(chosen, &[Some(next_to(10.0, Some(1.0)))]).0, Verdict::Conditional);
        let (held, why) = verdict(next_to(10.0, Some(12.0)), &[Some(next_to(10.0, Some(1.0)))]);
        let expected = "Only with open: 0 (10); as chosen it is inconclusive: another has 12.";
        assert!(held == Verdict::Conditional && why == expected, "{why}");
    }

    #[test]
    fn an_alternative_of_the_control_keeps_the_value() {
        let chosen = seen(7.0, 10.0, 11.0);
        let other = |control| Measured { control: Some(control), ..seen(3.0, 3.0, 3.0) };
        for (control, expected) in
            [(1.0, ""), (12.0, "not with open: 0 (10, and the control has 12); ")]
        {
            let (_, why) = verdict(chosen, &[Some(chosen.with_control_of(&other(control)))]);
            let expected = expected.to_owned() + "not for every seed.";
            assert!(why.to_lowercase().starts_with(&expected), "{why}");
        }
    }

    #[test]
    fn a_sentence_counts_once() {
        use Verdict::{Conditional, Deviates, Direction, Reproduced};
        for (verdicts, expected) in [
            (&[Reproduced, Reproduced][..], Reproduced),
            (&[Reproduced, Deviates], Conditional),
            (&[Conditional, Direction], Conditional),
            (&[Direction, Direction], Direction),
            (&[Direction, Deviates], Deviates),
        ] {
            assert_eq!(of_readings(verdicts), expected);
        }
        assert_eq!(of_parts(&[Reproduced, Reproduced]), Reproduced);
        assert_eq!(of_parts(&[Reproduced, Direction, Conditional]), Direction);
        assert_eq!(of_parts(&[Deviates, Reproduced]), Deviates);
    }
}
