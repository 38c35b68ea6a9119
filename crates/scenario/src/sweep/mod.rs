//! Sweeps: runs of one scenario with different values of some keys.

mod axis;
mod failures;
mod file;
mod range;
mod seeds;

use std::collections::BTreeSet;

use tidegate_core::mix64;

use crate::error::{Error, shortened};
use crate::overrides::Override;

pub use axis::{Axis, AxisValue, FAILURE};
pub use failures::with_failures;
pub use file::SweepFile;
pub(crate) use file::refuse;
pub use seeds::SeedList;

/// How the values of axes are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All combinations.
    Grid,
    /// The first values of all axes, then the second values, and so on.
    Zip,
    /// Random points of the grid, each at most once.
    Random {
        /// Number of points.
        points: u64,
        /// Seed of the draw.
        seed: u64,
    },
}

/// A value of each axis.
pub type Point = Vec<AxisValue>;

/// Largest number of points; more are probably a mistake.
const POINTS_MAX: u64 = 100_000;

/// Returns the points of a sweep in order. In a grid, the last axis varies fastest. `option` is the
/// name of the option or file in messages.
///
/// # Errors
/// If a key is the seed, or the name alone, no key varies, a point occurs twice, zipped axes have
/// different lengths, there are too many points, or more points are to be drawn than the grid has.
pub fn points(axes: &[Axis], mode: Mode, option: &str) -> Result<Vec<Point>, Error> {
    let wrong = |found: String, expected: &str| Err(Error::whole(option, found, expected));
    if axes.is_empty() {
        return wrong("no axis".into(), "at least one key with its values");
    }
    if axes.iter().any(|axis| axis.key == "seed") {
        return wrong(
            "the key seed".into(),
            "--seeds, or the key seeds of the sweep file, instead",
        );
    }
    // Zipped with other keys, names label the points.
    let mut other = axes.iter().filter(|axis| axis.key != "name");
    let is_alone =
        axes.iter().any(|axis| axis.key == "name") && (mode != Mode::Zip || other.next().is_none());
    if is_alone {
        return wrong(
            "the key name, which does not change a run".into(),
            "another key, or mode zip with other keys, where names label the points",
        );
    }
    let lengths: Vec<u64> = axes.iter().map(|axis| axis.values.len() as u64).collect();
    let count = match mode {
        Mode::Grid => lengths.iter().try_fold(1u64, |all, length| all.checked_mul(*length)),
        Mode::Zip => Some(lengths[0]),
        Mode::Random { points, .. } => Some(points),
    };
    let Some(count) = count.filter(|count| (1..=POINTS_MAX).contains(count)) else {
        let found = count.map_or("too many points to count".into(), |n| format!("{n} points"));
        return wrong(found, &format!("1 to {POINTS_MAX} points"));
    };
    for axis in axes.iter().filter(|_| mode != Mode::Zip) {
        if let Some(place) = axis.repeated() {
            let found = format!("{}={} twice", axis.key, shortened(&axis.values[place].text));
            return wrong(found, "each value once unless keys are zipped");
        }
    }
    let place = |i: u64| axes.iter().map(move |axis| axis.values[i as usize].clone()).collect();
    match mode {
        Mode::Grid => Ok((0..count).map(|number| grid_point(axes, number)).collect()),
        Mode::Zip if lengths.iter().all(|length| *length == count) => {
            let points: Vec<Point> = (0..count).map(place).collect();
            let identity =
                |point: &Point| point.iter().map(AxisValue::identity).collect::<Vec<_>>();
            match repeated(points.iter().map(identity)) {
                None => Ok(points),
                Some(i) => {
                    let texts: Vec<&str> = points[i].iter().map(|value| &*value.text).collect();
                    let found = format!("{} twice", shortened(&texts.join(", ")));
                    wrong(found, "each combination of values once in mode zip")
                }
            }
        }
        Mode::Zip => {
            let all: Vec<String> =
                axes.iter().map(|axis| format!("{} of {}", axis.values.len(), axis.key)).collect();
            wrong(all.join(", "), "the same number of values for all keys in mode zip")
        }
        Mode::Random { points, seed } => {
            let all = lengths.iter().fold(1u64, |all, length| all.saturating_mul(*length));
            if all < points {
                let expected = format!("at most {all}, the number of points in the grid");
                return wrong(format!("{points} points"), &expected);
            }
            Ok(drawn(all, points, seed).into_iter().map(|i| grid_point(axes, i)).collect())
        }
    }
}

/// The place of the first item that is equal to an earlier one.
fn repeated<T: Ord>(items: impl Iterator<Item = T>) -> Option<usize> {
    let mut known = BTreeSet::new();
    items.enumerate().find_map(|(i, item)| (!known.insert(item)).then_some(i))
}

/// Returns point `number` of the grid.
fn grid_point(axes: &[Axis], mut number: u64) -> Point {
    let mut point: Point = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        let length = axis.values.len() as u64;
        point.push(axis.values[(number % length) as usize].clone());
        number /= length;
    }
    point.reverse();
    point
}

/// Returns `count` different numbers below `all`, in the order of the draw (Floyd's algorithm,
/// which rejects no draw).
fn drawn(all: u64, count: u64, seed: u64) -> Vec<u64> {
    let below = |limit: u64, i: u64| {
        let bits = mix64(mix64(seed).wrapping_add(i));
        ((u128::from(bits) * u128::from(limit)) >> 64) as u64
    };
    let (mut known, mut order) = (BTreeSet::new(), Vec::new());
    for i in all - count..all {
        let number = below(i + 1, i - (all - count));
        let number = if known.insert(number) { number } else { i };
        known.insert(number);
        order.push(number);
    }
    order
}

/// Checks that no other axis and no change of all points changes a value that an axis varies, under
/// any path. `scenario` is the text of the file.
///
/// # Errors
/// If two changes concern the same value, or one concerns a part of the other's value.
pub fn check(scenario: &str, point: &Point, all: &[Override]) -> Result<(), Error> {
    let (document, _) = crate::parsed(scenario, "")?;
    let axes: Vec<&Override> = point.iter().map(|value| &value.change).collect();
    for (i, axis) in axes.iter().enumerate() {
        let ways = document.places(&axis.key);
        for other in axes[..i].iter().copied().chain(all) {
            let others = document.places(&other.key);
            let overlaps = |way: &Vec<String>| {
                others.iter().any(|other| way.starts_with(other) || other.starts_with(way))
            };
            if ways.iter().any(overlaps) {
                let found = format!("the key {}, which \"{}\" changes too", axis.key, other.option);
                return Err(Error::whole(&axis.option, found, "only one change of a key"));
            }
        }
    }
    Ok(())
}

/// Returns the changes of a point, together with those of all points. Changes of the protocol come
/// first, because the others apply to the new protocol.
pub fn changes(point: &Point, all: &[Override]) -> Vec<Override> {
    let changes = || point.iter().map(|value| value.change.clone());
    let protocols = changes().filter(|change| change.replaces_protocol);
    let others = changes().filter(|change| !change.replaces_protocol);
    protocols.chain(all.iter().cloned()).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(all: &[&str]) -> Vec<Axis> {
        all.iter().map(|axis| Axis::vary(axis).unwrap()).collect()
    }

    fn shown(all: &[&str], mode: Mode) -> Vec<String> {
        let text = |point: &Point| {
            point.iter().map(|value| value.text.clone()).collect::<Vec<_>>().join(" ")
        };
        points(&axes(all), mode, "--vary").unwrap().iter().map(text).collect()
    }

    #[test]
    fn points_are_a_grid_a_list_or_drawn() {
        let two = ["a=1,2", "b=x,y"];
        assert_eq!(shown(&two, Mode::Grid), ["1 x", "1 y", "2 x", "2 y"]);
        assert_eq!(shown(&two, Mode::Zip), ["1 x", "2 y"]);
        let zipped = shown(&["a=1,2,1", "b=x,x,y"], Mode::Zip);
        assert_eq!(zipped, ["1 x", "2 x", "1 y"], "a value may occur in several combinations");
        let random = |points, seed| shown(&["a=1..30", "b=1..30"], Mode::Random { points, seed });
        assert_eq!(random(20, 1), random(20, 1));
        assert_ne!(random(20, 1), random(20, 2));
        for points in [1, 20, 900] {
            let different: BTreeSet<String> = random(points, 3).into_iter().collect();
            assert_eq!(different.len(), points as usize);
        }
    }

    #[test]
    fn invalid_sweeps_are_refused() {
        let random = |points| Mode::Random { points, seed: 1 };
        for (all, mode, expected) in [
            (&[][..], Mode::Grid, "found no axis"),
            (&["seed=1,2"], Mode::Grid, "the key seed, expected --seeds"),
            (&["name=a,b", "x=1"], Mode::Grid, "the key name, which does not change a run"),
            (&["name=a,b"], Mode::Zip, "the key name, which does not change a run"),
            (&["a=1..400", "b=1..400"], Mode::Grid, "160000 points, expected 1 to 100000"),
            (&["a=1,2", "b=1,2,3"], Mode::Zip, "found 2 of a, 3 of b, expected the same number"),
            (&["a=1,2", "b=1,2,3"], random(7), "found 7 points, expected at most 6"),
            (&["a=1,2"], random(0), "found 0 points"),
            (&["a=1,2,1"], Mode::Grid, "found a=1 twice, expected each value once unless"),
            (
                &["a=30%,0.3", "b=1"],
                random(1),
                "found a=0.3 twice, expected each value once unless",
            ),
            (&["a=1,2,1", "b=x,y,x"], Mode::Zip, "found 1, x twice, expected each combination"),
        ] {
            let error = points(&axes(all), mode, "--vary").unwrap_err().to_string();
            assert!(error.starts_with("--vary: ") && error.contains(expected), "{error}");
        }
    }

    #[test]
    fn conflicting_changes_are_refused() {
        let scenario =
            "[[traffic]]\nlabel = 'a'\n[[traffic]]\nlabel = 'b'\n[fabric]\nkind = 'star'\n";
        let checked = |vary: &[&str], set: &[&str]| {
            let point = points(&axes(vary), Mode::Grid, "").unwrap().remove(0);
            let set: Vec<Override> = set.iter().map(|one| Override::set(one).unwrap()).collect();
            check(scenario, &point, &set).map_err(|error| error.to_string())
        };
        let clashes: [(&[&str], &[&str]); 10] = [
            (&["x=1", "x=2"], &[]),
            (&["traffic.a.load=1", "traffic.0.load=2"], &[]),
            (&["traffic[1].load=1", "traffic.*.load=2"], &[]),
            (&["traffic.b.load=1", "traffic[1]={}"], &[]),
            (&["fabric.host_link.rate=1Gbps"], &["fabric.host_link={}"]),
            (&["fabric.host_link={}"], &["fabric.host_link.rate=1Gbps"]),
            (&["protocol=swift", "transport.protocol=sird"], &[]),
            (&["protocol=swift"], &["transport.protocol=sird"]),
            (&["protocol=swift"], &["transport={}"]),
            (&["traffic.a.load=1"], &["traffic.a.load=2"]),
        ];
        for (vary, set) in clashes {
            let message = checked(vary, set).unwrap_err();
            assert!(
                message.contains("changes too, expected only one change of a key"),
                "{message}"
            );
        }
        let fine: [(&[&str], &[&str]); 4] = [
            (&["traffic.a.load=1", "traffic.1.load=2"], &["traffic.a.size=3"]),
            (&["fabric.host_link.rate=1Gbps"], &["fabric.host_link.delay=1us"]),
            (&["protocol=swift", "transport.params.x=1"], &["protocols.swift.preset=y"]),
            (&["traffic.c.load=1"], &["x=1", "x=2"]),
        ];
        for (vary, set) in fine {
            assert_eq!(checked(vary, set), Ok(()), "{vary:?} {set:?}");
        }
    }

    #[test]
    fn protocol_changes_come_first() {
        let point = points(&axes(&["a=1", "protocol=swift"]), Mode::Grid, "").unwrap().remove(0);
        let all = [Override::set("b=2").unwrap()];
        let keys: Vec<String> = changes(&point, &all).into_iter().map(|one| one.key).collect();
        assert_eq!(keys, ["transport.protocol", "b", "a"]);
    }
}
