//! Sets of failures as values of an axis: `failure=each-link`.

use super::{Axis, FAILURE, changes};
use crate::compile::failure::{Each, NONE};
use crate::error::{Error, one_of};
use crate::overrides::Override;

/// Replaces the sets of failures in axes by their members on the fabric of a scenario. Without
/// `none` among the values, `none` becomes the first. `scenario` is the text of the file `origin`;
/// `all` are the changes of all points.
///
/// # Errors
/// If the scenario is invalid, another axis changes the fabric, or the fabric has no such failure.
pub fn with_failures(
    axes: &[Axis],
    (scenario, origin): (&str, &str),
    all: &[Override],
) -> Result<Vec<Axis>, Error> {
    let mut expanded = axes.to_vec();
    for (i, axis) in axes.iter().enumerate().filter(|(_, axis)| has_sets(axis)) {
        let others = || axes.iter().enumerate().filter(|(other, _)| *other != i);
        let option = || axis.values.iter().find(|value| Each::of(&value.text).is_some());
        let wrong = |found: String, expected: &str| {
            let option = option().map_or("", |value| &value.change.option);
            Err(Error::whole(option, found, expected))
        };
        if let Some((_, fabric)) = others().find(|(_, axis)| is_fabric(&axis.key)) {
            let found = format!("a set of failures beside an axis of the fabric, {}", fabric.key);
            return wrong(found, "failures by name, or a sweep for each fabric");
        }
        let first = others().filter_map(|(_, axis)| axis.values.first().cloned()).collect();
        let fabric = crate::load(scenario, origin, &changes(&first, all))?.setup.fabric;
        let mut values = Axis { key: axis.key.clone(), values: Vec::new() };
        if axis.values.iter().all(|value| value.text != NONE) {
            values.push(NONE, &axis.values[0].change.option);
        }
        for value in &axis.values {
            let Some(each) = Each::of(&value.text) else {
                values.values.push(value.clone());
                continue;
            };
            let failures = each.failures(&fabric);
            if failures.is_empty() {
                let other = |name: &&str| {
                    Each::of(name).is_some_and(|each| !each.failures(&fabric).is_empty())
                };
                let found = format!("{} in a fabric without such failures", value.text);
                return wrong(found, &one_of(Each::names().filter(other)));
            }
            for failure in failures {
                values.push(&format!("{failure:?}"), &value.change.option);
            }
        }
        expanded[i] = values;
    }
    Ok(expanded)
}

fn has_sets(axis: &Axis) -> bool {
    let is_set = |text: &str| Each::of(text).is_some();
    let its_key = axis.values.first().map(|value| value.change.key.as_str());
    its_key == Some(FAILURE) && axis.values.iter().any(|value| is_set(&value.text))
}

fn is_fabric(key: &str) -> bool {
    key == "fabric" || key.starts_with("fabric.")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "duration = '1ms'\ntransport = { protocol = 'swift' }\n\
        flows = [{ src = 'h0', dst = 'h1' }]\n[fabric]\n";

    fn texts(fabric: &str, vary: &[&str], set: &[&str]) -> Result<Vec<String>, String> {
        let axes: Vec<Axis> = vary.iter().map(|axis| Axis::vary(axis).unwrap()).collect();
        let set: Vec<Override> = set.iter().map(|one| Override::set(one).unwrap()).collect();
        let text = format!("{SCENARIO}{fabric}");
        let axes = with_failures(&axes, (&text, "x.toml"), &set);
        let texts = |axis: &Axis| axis.values.iter().map(|value| value.text.clone()).collect();
        axes.map(|axes| texts(axes.last().unwrap())).map_err(|error| error.to_string())
    }

    #[test]
    fn sets_have_every_failure_of_the_fabric() {
        let leaf_spine = "kind = 'leaf-spine'\nracks = 2\nhosts_per_rack = 2\nspines = 2";
        let of = |vary: &str| texts(leaf_spine, &[vary], &[]).unwrap();
        let links = ["tor0-spine0", "tor0-spine1", "tor1-spine0", "tor1-spine1"];
        assert_eq!(of("failure=each-link"), [&["none"][..], &links].concat());
        assert_eq!(of("faults.failure=each-link,none"), [&links[..], &["none"]].concat());
        assert_eq!(of("failure=each-switch"), ["none", "spine0", "spine1"]);
        assert_eq!(of("failure=each-host-link").len(), 1 + 4);
        assert_eq!(of("failure=each-pair-of-links").len(), 1 + 6);
        assert_eq!(of("failure=tor0,spine1"), ["tor0", "spine1"], "names stay as they are");
        let mixed = of("failure=each-switch,tor0");
        assert_eq!(mixed, ["none", "spine0", "spine1", "tor0"]);
        let three = texts(leaf_spine, &["failure=each-link"], &["fabric.spines=3"]).unwrap();
        assert_eq!(three.len(), 1 + 6);
        let parallel = texts(leaf_spine, &["failure=each-link"], &["fabric.links_per_spine=3"]);
        assert_eq!(parallel.unwrap().len(), 1 + 4, "parallel links fail together");
        // 4 pods of 2 + 2 switches, and 4 cores: 16 links to aggregation switches, 16 to cores.
        let fat_tree = |vary: &str| texts("kind = 'fat-tree'\nk = 4", &[vary], &[]).unwrap().len();
        assert_eq!(fat_tree("failure=each-link"), 1 + 32);
        assert_eq!(fat_tree("failure=each-switch"), 1 + 8 + 4);
    }

    #[test]
    fn impossible_sets_are_refused() {
        let star = "kind = 'star'\nhosts = 3";
        let error = texts(star, &["failure=each-link"], &[]).unwrap_err();
        let expected = "--vary failure=each-link: found each-link in a fabric without such \
                        failures, expected \"each-host-link\"";
        assert_eq!(error, expected);
        let both = ["fabric.hosts=3,4", "failure=each-host-link"];
        let error = texts(star, &both, &[]).unwrap_err();
        assert!(error.contains("beside an axis of the fabric, fabric.hosts"), "{error}");
        let error = texts(star, &["failure=each-link"], &["duration=x"]).unwrap_err();
        assert!(error.contains("--set duration=x"), "{error}");
    }

    /// A host whose rack fails in one plane has the other planes left.
    #[test]
    fn failures_of_switches_leave_every_host_a_port() {
        let number = |planes: &str| {
            let fabric = format!("kind = 'leaf-spine'\nracks = 2\nspines = 3{planes}");
            texts(&fabric, &["failure=each-switch"], &[]).unwrap().len()
        };
        assert_eq!(number("\nplanes = 2"), number("") + 7);
    }
}
