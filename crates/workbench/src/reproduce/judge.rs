//! What came of a claim: as chosen, under every alternative to what its paper leaves open, and where it
//! should fail.
//!
//! A claim is *reproduced* only if it is within its tolerance for every seed, with seeds that lead to
//! different runs, and for every alternative. Within it for some of them only, it is *conditional*. In the
//! paper's *direction* it must be for all of them. A claim whose check passes where it should fail shows
//! nothing and *deviates*.

use serde::{Deserialize, Serialize};

use super::Verdict;
use super::document::digits;
use super::registry::Claim;

/// A claim measured with several seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// From the means over the seeds; none where a run gave no answer.
    pub(crate) value: Option<f64>,
    /// Least and greatest of single seeds; none where one of them gave no answer.
    pub(crate) range: Option<(f64, f64)>,
    /// Seeds that led to different runs.
    pub(crate) seeds: u64,
}

/// An alternative to something open, and the claim under it; nothing where that has not been measured with
/// this version.
pub(crate) type Varied = (String, Option<Measured>);

impl Measured {
    /// What the bounds say of it, taken alone: of the worst seed.
    pub(crate) fn verdict(&self, claim: &Claim) -> Verdict {
        let Some((low, high)) = self.range.filter(|_| self.value.is_some()) else {
            return Verdict::Deviates;
        };
        let all = [self.value, Some(low), Some(high)].map(|value| claim.verdict(value));
        let all_are = |verdicts: &[Verdict]| all.iter().all(|verdict| verdicts.contains(verdict));
        if all_are(&[Verdict::Reproduced]) {
            Verdict::Reproduced
        } else if all_are(&[Verdict::Reproduced, Verdict::Direction]) {
            Verdict::Direction
        } else {
            Verdict::Deviates
        }
    }
}

/// The verdict on a claim, and what it hangs on, in sentences.
pub(crate) fn judge(
    claim: &Claim,
    chosen: &Measured,
    varied: &[Varied],
    control: Option<f64>,
) -> (Verdict, String) {
    let alone = claim.verdict(chosen.value);
    if alone != Verdict::Deviates && rank(claim.verdict(control)) >= rank(alone) {
        let value = control.map_or_else(|| "none".to_owned(), digits);
        let text = format!("It shows nothing: as much comes out with {} ({value}).", claim.control.of);
        return (Verdict::Deviates, text);
    }
    let missing = varied.iter().filter(|(_, measured)| measured.is_none()).count();
    let all = std::iter::once(chosen).chain(varied.iter().filter_map(|(_, measured)| measured.as_ref()));
    let each: Vec<Verdict> = all.clone().map(|measured| measured.verdict(claim)).collect();
    let some_value_is_within =
        all.clone().any(|measured| claim.verdict(measured.value) == Verdict::Reproduced);
    let all_are_within = each.iter().all(|verdict| *verdict == Verdict::Reproduced);
    let mut hangs = Vec::new();
    let verdict = if all_are_within && missing == 0 && chosen.seeds > 1 {
        Verdict::Reproduced
    } else if some_value_is_within {
        Verdict::Conditional
    } else if each.iter().all(|verdict| *verdict != Verdict::Deviates) {
        Verdict::Direction
    } else {
        Verdict::Deviates
    };
    if verdict == Verdict::Conditional {
        hangs.extend(exceptions(claim, varied, Verdict::Reproduced));
        if chosen.seeds < 2 {
            hangs.push("measured with one seed".to_owned());
        } else if alone != Verdict::Reproduced {
            hangs.push("not as chosen".to_owned());
        } else if chosen.verdict(claim) != Verdict::Reproduced {
            hangs.push("not for every seed".to_owned());
        }
    } else if verdict == Verdict::Deviates && chosen.verdict(claim) == Verdict::Direction {
        hangs.push("as chosen it points the paper's way".to_owned());
        hangs.extend(exceptions(claim, varied, Verdict::Direction));
    }
    if missing > 0 {
        hangs.push(format!("{missing} alternatives have not been measured with this version"));
    }
    let mut text = if hangs.is_empty() { String::new() } else { sentence(&hangs.join("; ")) };
    if let Some(value) = control {
        let failed = format!("It fails, as it should, with {}: {}.", claim.control.of, digits(value));
        text = format!("{text} {failed}").trim_start().to_owned();
    }
    (verdict, text)
}

/// How much a verdict says.
fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Reproduced => 3,
        Verdict::Conditional => 2,
        Verdict::Direction => 1,
        Verdict::Deviates => 0,
    }
}

/// Alternatives under which a claim does not reach `least`.
fn exceptions(claim: &Claim, varied: &[Varied], least: Verdict) -> Option<String> {
    let falls_short = |measured: &Measured| rank(measured.verdict(claim)) < rank(least);
    let named = varied.iter().filter_map(|(name, measured)| {
        let measured = measured.as_ref().filter(|measured| falls_short(measured))?;
        Some(format!("{name} ({})", measured.value.map_or_else(|| "none".to_owned(), digits)))
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("not with {}", named.join(", ")))
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// What came of a sentence of the paper that can be read in several ways: how to read it is open, too.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reproduced from 8 to 18, in direction from 2 on.
    fn claim() -> Claim {
        let text = "name = 'x'\ntext = 'x'\npaper = 16.0\nunit = 'times'\nform = 'ratio'\n\
                    reproduced = [8.0, 18.0]\ntolerance = 'x'\nmeasure = { metric = 'goodput' }\n\
                    over = { metric = 'goodput' }\ncontrol = { of = 'another' }";
        toml::from_str(text).unwrap()
    }

    fn seen(low: f64, value: f64, high: f64) -> Measured {
        Measured { value: Some(value), range: Some((low, high)), seeds: 3 }
    }

    fn verdict(chosen: Measured, varied: &[Option<Measured>]) -> (Verdict, String) {
        let named = |(i, measured): (usize, &Option<Measured>)| (format!("open: {i}"), *measured);
        let varied: Vec<Varied> = varied.iter().enumerate().map(named).collect();
        judge(&claim(), &chosen, &varied, Some(1.0))
    }

    #[test]
    fn reproduced_is_for_every_seed_and_every_alternative() {
        let (held, why) = verdict(seen(9.0, 10.0, 11.0), &[Some(seen(8.0, 9.0, 18.0))]);
        assert_eq!(held, Verdict::Reproduced);
        assert_eq!(why, "It fails, as it should, with another: 1.");
        for (chosen, varied, named) in [
            (seen(9.0, 10.0, 11.0), Some(seen(6.0, 7.0, 7.5)), "open: 0 (7)"),
            (seen(9.0, 10.0, 11.0), Some(seen(7.0, 9.0, 11.0)), "open: 0 (9)"),
            (seen(7.0, 10.0, 11.0), Some(seen(9.0, 10.0, 11.0)), "Not for every seed"),
            (seen(1.0, 1.0, 1.0), Some(seen(9.0, 10.0, 11.0)), "Not as chosen"),
            (Measured { seeds: 1, ..seen(9.0, 9.0, 9.0) }, Some(seen(9.0, 10.0, 11.0)), "one seed"),
            (seen(9.0, 10.0, 11.0), None, "1 alternatives have not been measured"),
        ] {
            let (held, why) = verdict(chosen, &[varied]);
            assert!(held == Verdict::Conditional && why.contains(named), "{held:?} {why}");
        }
    }

    #[test]
    fn direction_is_for_every_seed_and_every_alternative() {
        let way = seen(2.5, 3.0, 4.0);
        assert_eq!(verdict(way, &[Some(way)]).0, Verdict::Direction);
        assert_eq!(verdict(seen(1.0, 3.0, 4.0), &[Some(way)]).0, Verdict::Deviates);
        let (held, why) = verdict(way, &[Some(seen(0.5, 0.6, 0.7))]);
        assert!(held == Verdict::Deviates && why.contains("not with open: 0 (0.6)"), "{why}");
        let none = Measured { value: None, range: None, seeds: 3 };
        assert_eq!(verdict(none, &[]).0, Verdict::Deviates);
    }

    #[test]
    fn a_check_that_passes_where_it_should_fail_shows_nothing() {
        for (chosen, control, shows) in [(10.0, 12.0, false), (3.0, 2.5, false), (10.0, 3.0, true)] {
            let (held, why) = judge(&claim(), &seen(chosen, chosen, chosen), &[], Some(control));
            assert_eq!((held != Verdict::Deviates, !why.contains("shows nothing")), (shows, shows), "{why}");
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
    }
}
