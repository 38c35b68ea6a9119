//! Runs that differ in a few values, declared together.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidegate_algos::Protocol;

use super::Run;

/// A run for each combination of values. The axis whose name sorts first changes fastest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grid {
    /// Name of each run. `{axis}` stands for the axis's value, `{0.5*axis}` for half of it,
    /// `{title}` for the protocol's title, here and in the other texts.
    name: String,
    scenario: Option<String>,
    #[serde(default)]
    set: Vec<String>,
    /// Overrides that apply if an axis has the value of the key, or for a key `a, b` if axes have
    /// all of these values. If two set the same key, the one whose name sorts later applies.
    #[serde(default)]
    with: BTreeMap<String, Vec<String>>,
    line: Option<String>,
    trace_us: Option<f64>,
    /// Axes with their values. `protocol` is the run's protocol, `x` its position on the x axis of
    /// a sweep.
    over: BTreeMap<String, Vec<Value>>,
    /// Changes under `--quick`.
    #[serde(default)]
    quick: Quick,
}

/// Changes for fewer or shorter runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Quick {
    /// Axes with a subset of their values.
    #[serde(default)]
    over: BTreeMap<String, Vec<Value>>,
    /// Further overrides, applied last.
    #[serde(default)]
    with: BTreeMap<String, Vec<String>>,
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Value {
    Number(f64),
    Text(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}

impl Grid {
    /// All runs of the grid, or those of `--quick`.
    pub(super) fn runs(&self, quick: bool) -> Result<Vec<Run>, String> {
        let known = |name: &str| self.over.values().flatten().any(|of| of.to_string() == name);
        let mut names =
            self.with.keys().chain(self.quick.with.keys()).flat_map(|names| names.split(", "));
        if let Some(name) = names.find(|name| !known(name)) {
            return Err(format!("grid {:?}: with: no axis has the value {name:?}", self.name));
        }
        for (axis, values) in &self.quick.over {
            let known = self.over.get(axis).map_or(&[][..], Vec::as_slice);
            if let Some(value) = values.iter().find(|value| !known.contains(value)) {
                return Err(format!(
                    "grid {:?}: quick: axis {axis} has no value {value}",
                    self.name
                ));
            }
        }
        let mut points: Vec<Vec<(&str, &Value)>> = vec![Vec::new()];
        for (axis, values) in self.over.iter().rev() {
            let values = self.quick.over.get(axis).filter(|_| quick).unwrap_or(values);
            let with = |point: &Vec<_>| {
                let point = point.clone();
                values.iter().map(move |value| [&point[..], &[(axis.as_str(), value)]].concat())
            };
            points = points.iter().flat_map(with).collect();
        }
        points.iter().map(|point| self.run(point, quick)).collect()
    }

    fn run(&self, point: &[(&str, &Value)], quick: bool) -> Result<Run, String> {
        let value =
            |axis: &str| point.iter().find(|(name, _)| *name == axis).map(|(_, value)| *value);
        let protocol = value("protocol").map(Value::to_string);
        let title = match &protocol {
            Some(name) => {
                let known = Protocol::named(name);
                known.ok_or_else(|| format!("unknown protocol `{name}`"))?.info().title
            }
            None => "",
        };
        let meant = |inner: &str| match inner.split_once('*') {
            None if inner == "title" => Some(title.to_owned()),
            None => value(inner).map(Value::to_string),
            Some((factor, axis)) => match (factor.parse::<f64>().ok()?, value(axis)?) {
                // Rounded to nine digits, to remove floating-point residue.
                (factor, Value::Number(x)) => Some(((factor * x * 1e9).round() / 1e9).to_string()),
                (_, Value::Text(_)) => None,
            },
        };
        let fill = |text: &String| -> Result<String, String> {
            let mut parts = text.split('{');
            let mut filled = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let known =
                    part.split_once('}').and_then(|(inner, rest)| Some((meant(inner)?, rest)));
                let (value, rest) =
                    known.ok_or_else(|| format!("grid {:?}: {text:?}: unknown axis", self.name))?;
                filled = filled + &value + rest;
            }
            Ok(filled)
        };
        let x = match value("x") {
            None => None,
            Some(Value::Number(x)) => Some(*x),
            Some(Value::Text(text)) => return Err(format!("x must be a number, found {text:?}")),
        };
        let is_here = |name: &str| point.iter().any(|(_, value)| value.to_string() == name);
        let quickly = self.quick.with.iter().filter(|_| quick);
        let with = self.with.iter().chain(quickly);
        let with = with.filter(|(names, _)| names.split(", ").all(is_here));
        let with = with.flat_map(|(_, set)| set);
        Ok(Run {
            name: fill(&self.name)?,
            protocol,
            scenario: self.scenario.as_ref().map(fill).transpose()?,
            set: self.set.iter().chain(with).map(fill).collect::<Result<_, _>>()?,
            model: None,
            real: false,
            tcp: None,
            trace_us: self.trace_us,
            x,
            line: self.line.as_ref().map(fill).transpose()?,
            drawn: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &str) -> Result<Vec<Run>, String> {
        toml::from_str::<Grid>(text).unwrap().runs(false)
    }

    #[test]
    fn each_combination_has_a_run() {
        let runs = runs(
            "name = '{title}, {kind}, {x} %'\nscenario = 'of-{kind}'\n\
             set = ['load={x}%', 'a={0.07*x}']\nwith = { b = ['c={kind}'], 'b, 20' = ['d'] }\n\
             line = '{protocol}'\n\
             over = { x = [20, 2.5], protocol = ['swift', 'dctcp'], kind = ['a', 'b'] }",
        )
        .unwrap();
        let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "Swift, a, 20 %",
                "Swift, b, 20 %",
                "DCTCP, a, 20 %",
                "DCTCP, b, 20 %",
                "Swift, a, 2.5 %",
                "Swift, b, 2.5 %",
                "DCTCP, a, 2.5 %",
                "DCTCP, b, 2.5 %",
            ]
        );
        assert_eq!(runs[6].set, ["load=2.5%", "a=0.175"]);
        assert_eq!(runs[7].set, ["load=2.5%", "a=0.175", "c=b"]);
        assert_eq!(runs[3].set, ["load=20%", "a=1.4", "c=b", "d"]);
        assert_eq!(runs[7].scenario.as_deref(), Some("of-b"));
        assert_eq!((runs[6].x, runs[6].protocol.as_deref()), (Some(2.5), Some("dctcp")));
        assert_eq!(runs[6].line.as_deref(), Some("dctcp"));
    }

    #[test]
    fn quick_has_fewer_points_and_own_settings() {
        let text = "name = '{of} {x}'\nover = { of = ['a', 'b'], x = [1, 2] }\nset = ['c']\n\
                    with = { a = ['d'] }\nquick = { over = { x = [2] }, with = { a = ['e'] } }";
        let grid: Grid = toml::from_str(text).unwrap();
        let names = |quick| -> Vec<String> {
            grid.runs(quick).unwrap().into_iter().map(|run| run.name).collect()
        };
        assert_eq!(names(true), ["a 2", "b 2"]);
        assert_eq!(names(false).len(), 4);
        let sets = |quick| grid.runs(quick).unwrap().into_iter().map(|run| run.set);
        assert_eq!(sets(true).collect::<Vec<_>>(), [vec!["c", "d", "e"], vec!["c"]]);
        assert_eq!(sets(false).next().unwrap(), ["c", "d"]);
    }

    #[test]
    fn a_wrong_grid_is_refused() {
        let refused = |text: &str| runs(text).unwrap_err();
        for name in ["{y}", "{x", "{a*x}", "{2*y}", "{2*title}"] {
            let text = format!("name = '{name}'\nover = {{ x = [1] }}");
            assert!(refused(&text).contains("unknown axis"), "{name}");
        }
        assert!(
            refused("name = 'a'\nover = { protocol = ['tcp'] }").contains("unknown protocol `tcp`")
        );
        for names in ["2", "1, 2"] {
            let with =
                refused(&format!("name = 'a'\nover = {{ x = [1] }}\nwith = {{ '{names}' = [] }}"));
            assert!(with.contains("no axis has the value \"2\""), "{with}");
        }
        assert!(refused("name = 'a'\nover = { x = ['1'] }").contains("x must be a number"));
        for (axis, value) in [("x", "2"), ("y", "1")] {
            let text =
                format!("name = 'a'\nover = {{ x = [1] }}\nquick.over = {{ {axis} = [{value}] }}");
            assert!(
                refused(&text).contains(&format!("quick: axis {axis} has no value {value}")),
                "{text}"
            );
        }
    }
}
