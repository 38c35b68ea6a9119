//! Sweep files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Axis, Mode, SeedList, range};
use crate::error::{Error, nearest, one_of, shortened};
use crate::files;
use crate::overrides::Override;
use crate::read::tree::{Entries, Node, Place, Raw, Source};

/// A sweep that a file describes.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepFile {
    /// Scenario of the sweep.
    pub scenario: PathBuf,
    /// Changes of the scenario at all points.
    pub changes: Vec<Override>,
    /// Seeds of every point, if the file sets them.
    pub seeds: Option<SeedList>,
    /// Axes of the sweep.
    pub axes: Vec<Axis>,
    /// How their values are combined.
    pub mode: Mode,
    /// Name of the file in messages.
    pub origin: String,
}

const KEYS: [&str; 7] = ["scenario", "set", "seeds", "mode", "points", "search_seed", "axis"];
const AXIS_KEYS: [&str; 5] = ["key", "values", "from", "to", "step"];
const MODES: [&str; 3] = ["grid", "zip", "random"];
/// Size limit of a file, in bytes.
const MOST_BYTES: u64 = 4 << 20;

impl SweepFile {
    /// Reads a sweep file.
    ///
    /// # Errors
    /// If the file cannot be read, is not TOML, has an unknown key, or is invalid. The error names
    /// the place, the value found and the allowed values.
    pub fn load(path: &Path) -> Result<SweepFile, Error> {
        let origin = path.display().to_string();
        let unreadable = |why: String| {
            let found = format!("a file that cannot be read ({why})");
            Error::whole(&origin, found, "a sweep file (TOML with scenario and [[axis]])")
        };
        let bytes = files::read(path, MOST_BYTES).map_err(|why| {
            let near = (why.kind() == ErrorKind::NotFound).then(|| files::nearest(path)).flatten();
            unreadable(why.to_string()).suggest(near)
        })?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".into()))?;
        SweepFile::parse(&text, &origin)
    }

    /// Parses the text of a sweep file with this name.
    fn parse(text: &str, origin: &str) -> Result<SweepFile, Error> {
        let document = Node::document(&Source::file(origin, files::without_mark(text)))?;
        let nothing = || {
            let expected = "the path of a scenario; to vary keys of this scenario, use --vary";
            document.at.error("scenario", "nothing", expected)
        };
        let Raw::Table(entries) = &document.raw else { return Err(nothing()) };
        // The file is a scenario, so its keys would be reported as unknown.
        if entries.contains_key("fabric") && !entries.contains_key("scenario") {
            return Err(nothing());
        }
        let top = Reader::of(&document, "", &KEYS)?;
        let scenario = top.find("scenario").ok_or_else(nothing)?;
        let scenario = text_of(scenario, "scenario", "the path of a scenario")?;
        let folder = Path::new(origin).parent().unwrap_or(Path::new(""));
        // Errors about the mode concern the whole file.
        let mode = mode(&top)?;
        let axes = list(top.find("axis"), "axis", "a list of tables: [[axis]]")?
            .iter()
            .enumerate()
            .map(|(i, node)| axis(node, &format!("axis[{i}]"), mode))
            .collect::<Result<Vec<Axis>, Error>>()?;
        let seeds = top.find("seeds").map(seeds).transpose()?;
        let changes =
            list(top.find("set"), "set", "a list of strings, such as [\"duration=1ms\"]")?
                .iter()
                .enumerate()
                .map(|(i, node)| change(node, &format!("set[{i}]")))
                .collect::<Result<Vec<Override>, Error>>()?;
        let (scenario, origin) = (folder.join(scenario), origin.to_owned());
        Ok(SweepFile { scenario, changes, seeds, axes, mode, origin })
    }
}

/// Refuses a sweep file as a scenario.
pub(crate) fn refuse(document: &Node) -> Result<(), Error> {
    let Raw::Table(entries) = &document.raw else { return Ok(()) };
    match entries.get("axis") {
        Some((place, _)) if entries.contains_key("scenario") => {
            let expected = "a scenario: use `tidegate sweep` for sweep files";
            Err(place.error("axis", "a sweep", expected))
        }
        _ => Ok(()),
    }
}

/// A table that has only known keys.
struct Reader<'a> {
    entries: &'a Entries,
    at: &'a Place,
}

impl<'a> Reader<'a> {
    fn of(node: &'a Node, path: &str, keys: &[&'static str]) -> Result<Reader<'a>, Error> {
        let Raw::Table(entries) = &node.raw else {
            return Err(node.at.error(path, node.found(), "a table"));
        };
        for (name, (place, _)) in entries {
            if !keys.contains(&name.as_str()) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let known = || keys.iter().copied();
                let error = place.error(path, format!("the unknown key {name:?}"), one_of(known()));
                return Err(error.suggest(nearest(name, known())));
            }
        }
        Ok(Reader { entries, at: &node.at })
    }

    fn find(&self, key: &str) -> Option<&'a Node> {
        self.entries.get(key).map(|(_, node)| node)
    }
}

fn text_of<'a>(node: &'a Node, path: &str, expected: &str) -> Result<&'a str, Error> {
    match &node.raw {
        Raw::Text(text) if !text.is_empty() => Ok(text),
        _ => Err(node.at.error(path, node.found(), expected)),
    }
}

/// Returns the items of an optional list.
fn list<'a>(node: Option<&'a Node>, path: &str, expected: &str) -> Result<&'a [Node], Error> {
    match node.map(|node| (node, &node.raw)) {
        None => Ok(&[]),
        Some((_, Raw::List(items))) => Ok(items),
        Some((node, _)) => Err(node.at.error(path, node.found(), expected)),
    }
}

fn whole(node: &Node, path: &str) -> Result<u64, Error> {
    let number = match node.raw {
        Raw::Integer(number) => u64::try_from(number).ok(),
        _ => None,
    };
    number.ok_or_else(|| node.at.error(path, node.found(), "a whole number of at least 0"))
}

fn mode(top: &Reader<'_>) -> Result<Mode, Error> {
    let name = match top.find("mode") {
        None => "grid",
        Some(node) => {
            let name = text_of(node, "mode", &one_of(MODES))?;
            if !MODES.contains(&name) {
                let error = node.at.error("mode", node.found(), one_of(MODES));
                return Err(error.suggest(nearest(name, MODES)));
            }
            name
        }
    };
    let number = |key: &str| top.find(key).map(|node| whole(node, key)).transpose();
    if name == "random" {
        let Some(points) = number("points")? else {
            return Err(top.at.error("points", "nothing", "the number of points to draw"));
        };
        return Ok(Mode::Random { points, seed: number("search_seed")?.unwrap_or(1) });
    }
    for key in ["points", "search_seed"] {
        if let Some(node) = top.find(key) {
            return Err(node.at.error(
                key,
                node.found(),
                format!("no {key} unless mode is \"random\": remove {key}"),
            ));
        }
    }
    Ok(if name == "zip" { Mode::Zip } else { Mode::Grid })
}

fn seeds(node: &Node) -> Result<SeedList, Error> {
    let list = match &node.raw {
        Raw::Integer(_) => SeedList::first(whole(node, "seeds")?),
        Raw::Text(text) => text.parse(),
        Raw::List(items) => {
            let numbers =
                items.iter().enumerate().map(|(i, node)| whole(node, &format!("seeds[{i}]")));
            SeedList::of(numbers.collect::<Result<_, Error>>()?)
        }
        _ => Err("a number of seeds, a range such as \"1..5\", or a list".to_owned()),
    };
    list.map_err(|expected| {
        let expected = expected.strip_prefix("expected ").unwrap_or(&expected);
        node.at.error("seeds", node.found(), expected)
    })
}

fn change(node: &Node, path: &str) -> Result<Override, Error> {
    let expected = "key=value, such as \"transport.params.m=0.25\"";
    let text = text_of(node, path, expected)?;
    let mut change =
        Override::set(text).map_err(|_| node.at.error(path, node.found(), expected))?;
    change.option = format!("{}: {path} {}", node.at.name(), shortened(text));
    Ok(change)
}

fn axis(node: &Node, path: &str, mode: Mode) -> Result<Axis, Error> {
    let table = Reader::of(node, path, &AXIS_KEYS)?;
    let path_of = |key: &str| format!("{path}.{key}");
    let Some(key) = table.find("key") else {
        return Err(table.at.error(path_of("key"), "nothing", "the path of a key, as for --set"));
    };
    let key = text_of(key, &path_of("key"), "the path of a key, as for --set")?;
    let mut axis = Axis { key: key.to_owned(), values: Vec::new() };
    let mut push = |value: &str, node: &Node, path: &str| {
        let assignment = format!("{key}={value}");
        axis.push(value, &format!("{}: {path}, {}", node.at.name(), shortened(&assignment)));
    };
    match (table.find("values"), table.find("from"), table.find("to")) {
        (Some(values), None, None) => {
            let path = path_of("values");
            let expected = "a list of at least one value";
            let items = list(Some(values), &path, expected)?;
            if items.is_empty() {
                return Err(values.at.error(path, values.found(), expected));
            }
            for (i, item) in items.iter().enumerate() {
                push(item.at.text(), item, &format!("{path}[{i}]"));
            }
            if let Some(i) = axis.repeated().filter(|_| mode != Mode::Zip) {
                let expected = "each value once unless mode is zip";
                return Err(items[i].at.error(format!("{path}[{i}]"), items[i].found(), expected));
            }
        }
        (None, Some(from), Some(to)) => {
            let number = |node: &'_ Node| match &node.raw {
                Raw::Text(text) => text.clone(),
                _ => node.at.text().to_owned(),
            };
            let step = table.find("step").map(number);
            let values = range::values(&number(from), &number(to), step.as_deref());
            let wrong = |expected| {
                let found = format!("{} to {}", from.found(), to.found());
                from.at.error(path_of("from"), found, expected)
            };
            for value in values.map_err(wrong)? {
                push(&value, from, &path_of("from"));
            }
        }
        _ => {
            let expected = "either values, or from and to (and step)";
            return Err(table.at.error(path, "an axis with other keys", expected));
        }
    }
    if let (Some(step), Some(_)) = (table.find("step"), table.find("values")) {
        return Err(step.at.error(
            path_of("step"),
            step.found(),
            "no step with values: remove step",
        ));
    }
    Ok(axis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{AxisValue, Point, points};

    const SWEEP: &str = r#"scenario = "x.toml"
seeds = 3
set = ["duration=1ms"]
[[axis]]
key = "traffic.0.load"
from = 0.3
to = 0.5
step = 0.1
[[axis]]
key = "protocol"
values = ["swift", "dctcp"]
"#;

    fn points_of(file: &SweepFile) -> Result<Vec<Point>, Error> {
        points(&file.axes, file.mode, &file.origin)
    }

    #[test]
    fn file_equals_options() {
        let file = SweepFile::parse(SWEEP, "a/sweep.toml").unwrap();
        assert_eq!(file.scenario, Path::new("a/x.toml"));
        assert_eq!(file.seeds.as_ref().unwrap().seeds(), [1, 2, 3]);
        let varied =
            [Axis::vary("traffic.0.load=0.3..0.5:0.1"), Axis::vary("protocol=swift,dctcp")];
        for (axis, varied) in file.axes.iter().zip(varied) {
            let varied = varied.unwrap();
            assert_eq!(axis.key, varied.key);
            let values = |axis: &Axis| {
                let one = |value: &AxisValue| (value.text.clone(), value.number);
                axis.values.iter().map(one).collect::<Vec<_>>()
            };
            assert_eq!(values(axis), values(&varied));
        }
        assert_eq!(points_of(&file).unwrap().len(), 6);
        assert_eq!(file.changes[0].key, "duration");
        let option = &file.axes[1].values[0].change.option;
        assert_eq!(option, "a/sweep.toml:11: axis[1].values[0], protocol=\"swift\"");
    }

    #[test]
    fn sweep_file_is_not_a_scenario() {
        let error = crate::load(SWEEP, "s.toml", &[]).unwrap_err().to_string();
        let expected = "s.toml:4: axis: found a sweep, expected a scenario: use `tidegate sweep` \
                        for sweep files";
        assert_eq!(error, expected);
    }

    #[test]
    fn messages_cut_long_values() {
        let long = "x".repeat(70_000);
        let scenario = "duration = '1ms'\nfabric = { kind = 'star', hosts = 2 }\n\
                        traffic = [{ kind = 'poisson', sizes = '1KB', load = 0.1 }]\n";
        let loaded = |set: &str| {
            let change = Override::set(set)?;
            crate::load(scenario, "x.toml", &[change]).map(drop)
        };
        let varied = |argument: &str| Axis::vary(argument).map(drop);
        let swept = |out: &str, into: &str| {
            let file = SweepFile::parse(&SWEEP.replacen(out, into, 1), "s.toml")?;
            let changes = crate::sweep::changes(&points_of(&file)?[0], &file.changes);
            crate::load(scenario, "x.toml", &changes).map(drop)
        };
        for result in [
            loaded(&long),
            loaded(&format!("duration={long}")),
            loaded(&format!("{long}=1")),
            loaded(&format!("fabric.{long}=1")),
            varied(&long),
            varied(&format!("a={long},")),
            swept("duration=1ms", &long),
            swept("duration=1ms", &format!("duration={long}")),
            swept("swift", &long),
            swept("seeds", &long),
            swept("3", &format!("'{long}'")),
            swept("traffic.0.load", &long),
        ] {
            let message = result.unwrap_err().to_string();
            assert!(message.chars().count() < 1_500 && message.contains("xxx…"), "{message}");
        }
    }

    #[test]
    fn wrong_files_are_refused_with_their_place() {
        // Replaced text, replacement, line, and words of the message.
        for (out, into, line, words) in [
            ("scenario =", "scenari =", 1, "the unknown key \"scenari\""),
            ("scenario =", "scenari =", 1, "did you mean \"scenario\""),
            ("scenario = \"x.toml\"", "duration = '1ms'", 1, "the unknown key \"duration\""),
            (
                "scenario = \"x.toml\"",
                "fabric = 1",
                1,
                "scenario: found nothing, expected the path",
            ),
            ("scenario = \"x.toml\"", "", 1, "scenario: found nothing, expected the path"),
            ("\"x.toml\"", "7", 1, "scenario: found 7, expected the path"),
            ("seeds = 3", "seeds = 0", 2, "seeds: found 0, expected 1 to 10000 seeds"),
            ("seeds = 3", "seeds = '1..'", 2, "a range with both ends"),
            ("seeds = 3", "seeds = [1, 1]", 2, "each seed once, found 1 twice"),
            ("seeds = 3", "seeds = true", 2, "seeds: found true, expected a number of seeds"),
            (
                "\"duration=1ms\"",
                "\"duration\"",
                3,
                "set[0]: found \"duration\", expected key=value",
            ),
            ("[\"duration=1ms\"]", "1", 3, "set: found 1, expected a list of strings"),
            ("seeds = 3", "mode = 'grit'", 2, "did you mean \"grid\""),
            ("seeds = 3", "points = 3", 2, "no points unless mode is \"random\""),
            (
                "seeds = 3",
                "mode = 'random'",
                1,
                "points: found nothing, expected the number of points",
            ),
            ("seeds = 3", "mode = 'zip'", 0, "found 3 of traffic.0.load, 2 of protocol"),
            ("key = \"protocol\"", "", 9, "axis[1].key: found nothing"),
            ("values = [", "value = [", 11, "did you mean \"values\""),
            ("[\"swift\", \"dctcp\"]", "[]", 11, "a list of at least one value"),
            ("\"dctcp\"]", "\"swift\"]", 11, "axis[1].values[1]: found \"swift\", expected each"),
            ("to = 0.5", "to = 0.2", 6, "first end is not above the last"),
            ("to = 0.5", "", 4, "either values, or from and to"),
            ("seeds = 3", "seeds = = 3", 2, "expected valid TOML"),
        ] {
            let text = SWEEP.replacen(out, into, 1);
            assert_ne!(text, SWEEP, "{out}");
            let parsed = SweepFile::parse(&text, "s.toml");
            let error = parsed.and_then(|file| points_of(&file)).unwrap_err().to_string();
            let place = if line == 0 { "s.toml: ".into() } else { format!("s.toml:{line}: ") };
            assert!(error.starts_with(&place) && error.contains(words), "{into}: {error}");
        }
    }
}
