//! Sweeps: one scenario many times, each with other values of some keys.

mod axis;
mod file;
mod range;
mod seeds;

use std::collections::BTreeSet;

use tidegate_core::mix64;

use crate::error::Error;
use crate::files::without_mark;
use crate::overrides::Override;
use crate::read::tree::{Node, Source};

pub use axis::{Axis, AxisValue};
pub use file::SweepFile;
pub(crate) use file::refuse;
pub use seeds::SeedList;

/// Which values go with which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each with each.
    Grid,
    /// The first of each axis, then the second, and so on.
    Zip,
    /// So many points of the grid, each once, drawn from a seed of their own.
    Random {
        /// How many.
        points: u64,
        /// From which they are drawn.
        seed: u64,
    },
}

/// A value of each axis.
pub type Point = Vec<AxisValue>;

/// More points are a slip of the pen.
const POINTS_MAX: u64 = 100_000;

/// The points of a sweep, in order: of a grid the last axis goes fastest. `option` names what says
/// the mode in messages.
///
/// # Errors
/// When a key is the seed, no key varies, axes that go together are not of
/// one length, or there are too many points or fewer than are to be drawn.
pub fn points(axes: &[Axis], mode: Mode, option: &str) -> Result<Vec<Point>, Error> {
    let wrong = |found: String, expected: &str| Err(Error::whole(option, found, expected));
    if axes.is_empty() {
        return wrong("nothing that varies".into(), "a key and its values at least");
    }
    if axes.iter().any(|axis| axis.key == "seed") {
        return wrong("the key seed".into(), "seeds by --seeds, or seeds of the file");
    }
    let lengths: Vec<u64> = axes.iter().map(|axis| axis.values.len() as u64).collect();
    let count = match mode {
        Mode::Grid => lengths.iter().try_fold(1u64, |all, length| all.checked_mul(*length)),
        Mode::Zip => Some(lengths[0]),
        Mode::Random { points, .. } => Some(points),
    };
    let Some(count) = count.filter(|count| (1..=POINTS_MAX).contains(count)) else {
        let found =
            count.map_or("more points than can be counted".into(), |n| format!("{n} points"));
        return wrong(found, &format!("1 to {POINTS_MAX} points"));
    };
    let place = |i: u64| axes.iter().map(move |axis| axis.values[i as usize].clone()).collect();
    match mode {
        Mode::Grid => Ok((0..count).map(|number| grid_point(axes, number)).collect()),
        Mode::Zip if lengths.iter().all(|length| *length == count) => {
            Ok((0..count).map(place).collect())
        }
        Mode::Zip => {
            let all: Vec<String> =
                axes.iter().map(|axis| format!("{} of {}", axis.values.len(), axis.key)).collect();
            wrong(all.join(", "), "as many values of each key, which go together")
        }
        Mode::Random { points, seed } => {
            let all = lengths.iter().fold(1u64, |all, length| all.saturating_mul(*length));
            if all < points {
                let expected = format!("at most {all}, as many as there are different ones");
                return wrong(format!("{points} points"), &expected);
            }
            Ok(drawn(all, points, seed).into_iter().map(|i| grid_point(axes, i)).collect())
        }
    }
}

/// Point `number` of the grid.
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

/// `count` different numbers below `all`, in the order in which they are drawn (Floyd's way, which
/// draws no number in vain).
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

/// Checks that nothing else changes what an axis varies: neither another axis nor what is changed
/// at all points, whatever they call it. `scenario` is what its file says.
///
/// # Errors
/// When two change the same value, or one a part of what the other does.
pub fn check(scenario: &str, point: &Point, all: &[Override]) -> Result<(), Error> {
    let document = Node::document(&Source::file("", without_mark(scenario)))?;
    let axes: Vec<&Override> = point.iter().map(|value| &value.change).collect();
    for (i, axis) in axes.iter().enumerate() {
        let ways = document.places(&axis.key);
        for other in axes[..i].iter().copied().chain(all) {
            let others = document.places(&other.key);
            let meets = |way: &Vec<String>| {
                others.iter().any(|other| way.starts_with(other) || other.starts_with(way))
            };
            if ways.iter().any(meets) {
                let found =
                    format!("the key {}, which \"{}\" changes, too", axis.key, other.option);
                return Err(Error::whole(&axis.option, found, "each key once"));
            }
        }
    }
    Ok(())
}

/// What a point changes in the scenario, next to what is changed for all of them: a protocol first,
/// as what is set is of the one that runs.
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
        let random = |points, seed| shown(&["a=1..30", "b=1..30"], Mode::Random { points, seed });
        assert_eq!(random(20, 1), random(20, 1));
        assert_ne!(random(20, 1), random(20, 2));
        for points in [1, 20, 900] {
            let different: BTreeSet<String> = random(points, 3).into_iter().collect();
            assert_eq!(different.len(), points as usize);
        }
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        let random = |points| Mode::Random { points, seed: 1 };
        for (all, mode, said) in [
            (&[][..], Mode::Grid, "found nothing that varies"),
            (&["seed=1,2"], Mode::Grid, "the key seed, expected seeds by --seeds"),
            (&["a=1..400", "b=1..400"], Mode::Grid, "160000 points, expected 1 to 100000"),
            (&["a=1,2", "b=1,2,3"], Mode::Zip, "found 2 of a, 3 of b, expected as many"),
            (&["a=1,2", "b=1,2,3"], random(7), "found 7 points, expected at most 6"),
            (&["a=1,2"], random(0), "found 0 points"),
        ] {
            let error = points(&axes(all), mode, "--vary").unwrap_err().to_string();
            assert!(error.starts_with("--vary: ") && error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_value_is_changed_by_one_axis_alone() {
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
            let said = checked(vary, set).unwrap_err();
            assert!(said.contains("changes, too, expected each key once"), "{said}");
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
    fn a_protocol_is_changed_before_what_is_set() {
        let point = points(&axes(&["a=1", "protocol=swift"]), Mode::Grid, "").unwrap().remove(0);
        let all = [Override::set("b=2").unwrap()];
        let keys: Vec<String> = changes(&point, &all).into_iter().map(|one| one.key).collect();
        assert_eq!(keys, ["transport.protocol", "b", "a"]);
    }
}
