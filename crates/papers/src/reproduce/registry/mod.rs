//! The registry of papers: claims and their measurements as data. Each paper has a folder with a
//! file per figure, and `paper.toml` for what all figures share.

mod chart;
mod claim;
mod comparison;
mod figure;
#[cfg(not(embedded))]
mod folders;
mod grid;
mod model;
mod query;
mod run;
mod sources;
mod table;

use serde::Deserialize;

pub(crate) use chart::{Chart, ChartKind, Curve, PaperPoints, Waiting};
pub use claim::Verdict;
pub(crate) use claim::{Claim, Singles};
pub(crate) use figure::{Fact, Figure, PlanSource};
pub(crate) use model::Model;
pub(crate) use query::{Query, means};
pub(crate) use run::Run;
pub(crate) use sources::RECORDS;
use sources::{REGISTRY, SCENARIOS};
pub(crate) use table::Table;

use crate::plot::paper_source;
use tidegate_runs::Error;

/// Number of seeds of every figure, from 1. `--quick` and alternatives use one seed.
pub(crate) const SEEDS: u64 = 3;

/// A paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    /// Name on the command line, and of the folders of its figures and scenarios.
    #[serde(skip)]
    pub(crate) name: String,
    /// Title in texts.
    pub(crate) title: String,
    /// Introduction to the claims.
    pub(crate) about: String,
    /// Name of the source of the values that claims are compared with, in texts.
    #[serde(default = "paper_source")]
    pub(crate) source: String,
    /// Changes since the claims were written, for readers of all of them.
    #[serde(default)]
    pub(crate) history: String,
    /// Name of the picture that represents the paper; by default the first.
    #[serde(default)]
    pub(crate) picture: String,
    #[serde(default, rename = "open")]
    pub(crate) opens: Vec<Open>,
    /// Figures, by the names of their files.
    #[serde(skip)]
    pub(crate) figures: Vec<Figure>,
}

/// A value that the paper does not give: the choice for all figures, and alternatives.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Open {
    pub(crate) name: String,
    /// The choice in words.
    pub(crate) chosen: String,
    pub(crate) why: String,
    /// `key=value` overrides of the choice; empty if the default is chosen.
    #[serde(default)]
    set: Vec<String>,
    /// Protocols to which it applies; by default all.
    #[serde(default)]
    protocols: Vec<String>,
    /// Figures to which it applies, by name or number; by default all.
    #[serde(default)]
    figures: Vec<String>,
    /// Figures to which it does not apply.
    #[serde(default)]
    except: Vec<String>,
    pub(crate) instead: Vec<Instead>,
}

/// An alternative.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Instead {
    pub(crate) name: String,
    set: Vec<String>,
}

/// An alternative of a paper: index of the open value, and index of the alternative.
pub(crate) type Choice = (usize, usize);

impl Paper {
    /// All alternatives of all open values.
    pub(crate) fn choices(&self) -> impl Iterator<Item = Choice> {
        self.opens
            .iter()
            .enumerate()
            .flat_map(|(i, open)| (0..open.instead.len()).map(move |j| (i, j)))
    }

    /// Overrides of an alternative for a run; empty if the alternative does not apply.
    pub(crate) fn varied(&self, figure: &Figure, run: &Run, choice: Choice) -> &[String] {
        let open = &self.opens[choice.0];
        if open.concerns(figure, run) { &open.instead[choice.1].set } else { &[] }
    }

    /// Whether an alternative changes a run of the claim itself, and not of its control alone.
    pub(crate) fn changes(&self, figure: &Figure, claim: &Claim, choice: Choice) -> bool {
        let is_varied = |run: usize| !self.varied(figure, &figure.runs[run], choice).is_empty();
        claim.queries().flat_map(|query| figure.runs_of(query)).any(is_varied)
    }

    /// Name of an alternative.
    pub(crate) fn choice_name(&self, choice: Choice) -> String {
        let open = &self.opens[choice.0];
        format!("{}: {}", open.name, open.instead[choice.1].name)
    }

    /// Overrides of a run for all open values.
    fn chosen(
        &self,
        figure: &Figure,
        run: &Run,
        choice: Option<Choice>,
    ) -> impl Iterator<Item = &String> {
        let opens =
            self.opens.iter().enumerate().filter(move |(_, open)| open.concerns(figure, run));
        opens.flat_map(move |(i, open)| match choice {
            Some((varied, number)) if varied == i => &open.instead[number].set,
            _ => &open.set,
        })
    }
}

impl Open {
    fn concerns(&self, figure: &Figure, run: &Run) -> bool {
        let protocol = run.protocol.as_ref();
        let is_meant = |number: &String| figure.is_meant(number);
        run.model.is_none()
            && (self.figures.is_empty() || self.figures.iter().any(is_meant))
            && !self.except.iter().any(is_meant)
            && (self.protocols.is_empty()
                || protocol.is_some_and(|name| self.protocols.contains(name)))
    }
}

impl Paper {
    /// Parses a paper from its files by name: `paper`, and one per figure, with all runs or those
    /// of `--quick`.
    fn read(name: &str, files: &[(&str, &str)], quick: bool) -> Result<Paper, Error> {
        let wrong = |file: &str, message: String| {
            Error::Run(format!("registry, {name}/{file}.toml: {message}"))
        };
        let is_paper = |(file, _): &&(&str, &str)| *file == "paper";
        let (_, text) = files
            .iter()
            .find(is_paper)
            .ok_or_else(|| wrong("paper", "the file is missing".to_owned()))?;
        let paper: Paper =
            toml::from_str(text).map_err(|error| wrong("paper", error.to_string()))?;
        let figures = files.iter().filter(|file| !is_paper(file));
        let figure = |(file, text): &(&str, &str)| {
            Figure::read(file, text, quick).map_err(|message| wrong(file, message))
        };
        let figures: Vec<Figure> = figures.map(figure).collect::<Result<_, Error>>()?;
        let own: Vec<(String, Vec<Run>)> =
            figures.iter().map(|figure| (figure.name.clone(), figure.runs.clone())).collect();
        let resolved = |figure: Figure| {
            let file = figure.file.clone();
            let others = match &figure.runs_of {
                None => &[][..],
                Some(name) => match own.iter().find(|(other, _)| other == name) {
                    Some((_, runs)) => runs,
                    None => {
                        return Err(wrong(&file, format!("runs_of: unknown figure `{name}`")));
                    }
                },
            };
            figure.resolved(others).map_err(|message| wrong(&file, message))
        };
        let figures: Vec<Figure> =
            figures.into_iter().map(resolved).collect::<Result<_, Error>>()?;
        let known = |name: &&String| figures.iter().any(|figure| figure.is_meant(name));
        for open in &paper.opens {
            let mut named = open.figures.iter().chain(&open.except);
            if let Some(missing) = named.find(|name| !known(name)) {
                let message = format!("open {:?}: unknown figure `{missing}`", open.name);
                return Err(wrong("paper", message));
            }
        }
        Ok(Paper { name: name.to_owned(), figures, ..paper })
    }
}

/// All papers, with all runs or those of `--quick`.
pub(crate) fn papers(quick: bool) -> Result<Vec<Paper>, Error> {
    let folders = REGISTRY.chunk_by(|(one, _), (other, _)| folder(one) == folder(other));
    let paper = |files: &[(&'static str, &'static str)]| {
        let name = folder(files[0].0);
        let file = |&(path, text): &(&'static str, _)| (&path[name.len() + 1..], text);
        Paper::read(name, &files.iter().map(file).collect::<Vec<_>>(), quick)
    };
    folders.map(paper).collect()
}

/// All papers with all runs, for tests: their plans are made and hashed once.
#[cfg(test)]
pub(crate) fn shared_papers() -> &'static [Paper] {
    static PAPERS: std::sync::LazyLock<Vec<Paper>> =
        std::sync::LazyLock::new(|| papers(false).unwrap());
    &PAPERS
}

/// The registry's text about a figure without what has no effect on its measured values: titles,
/// remarks, explanations, the source's numbers and bounds of claims, and tolerances of comparisons.
/// A verdict follows from these and recorded values. The source's numbers in comparisons and plots
/// are part of it.
pub(crate) fn definition(paper: &Paper, figure: &Figure) -> Result<String, Error> {
    const WORDS: [&str; 9] =
        ["about", "across", "down", "headline", "note", "result", "text", "title", "tolerance"];
    fn cut(value: &mut toml::Value) {
        match value {
            toml::Value::Table(table) => {
                WORDS.iter().for_each(|key| drop(table.remove(*key)));
                table.iter_mut().for_each(|(_, value)| cut(value));
            }
            toml::Value::Array(values) => values.iter_mut().for_each(cut),
            _ => {}
        }
    }
    let path = format!("{}/{}", paper.name, figure.file);
    let text = REGISTRY.iter().find(|(name, _)| *name == path).map_or("", |(_, text)| text);
    let mut all: toml::Table = toml::from_str(text)
        .map_err(|error| Error::Run(format!("registry, {path}.toml: {error}")))?;
    all.remove("wrong");
    remove(&mut all, "claim", &["paper", "reproduced", "direction"]);
    remove(&mut all, "comparison", &["within", "slack", "limited_by"]);
    let comparisons = all.get_mut("comparison").and_then(toml::Value::as_array_mut);
    for comparison in comparisons.into_iter().flatten().filter_map(toml::Value::as_table_mut) {
        remove(comparison, "columns", &["within", "slack"]);
        remove(comparison, "rows", &["limits"]);
    }
    WORDS.iter().for_each(|key| drop(all.remove(*key)));
    all.iter_mut().for_each(|(_, value)| cut(value));
    Ok(all.to_string())
}

/// Removes keys from the tables of a list.
fn remove(all: &mut toml::Table, list: &str, keys: &[&str]) {
    let tables = all.get_mut(list).and_then(toml::Value::as_array_mut).into_iter().flatten();
    for table in tables.filter_map(toml::Value::as_table_mut) {
        keys.iter().for_each(|key| drop(table.remove(*key)));
    }
}

fn folder(path: &str) -> &str {
    path.split_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tidegate_core::Span;

    use super::*;
    use tidegate_runs::in_parallel;
    use tidegate_runs::observe::Measurement;

    #[test]
    fn every_run_of_every_figure_has_a_plan() {
        let papers = papers(false).unwrap();
        let mut requested = Vec::new();
        for paper in &papers {
            for figure in &paper.figures {
                for run in figure.runs.iter().filter(|run| run.model.is_none()) {
                    // Other alternatives leave the plan as chosen.
                    let concerns = |choice: &Choice| paper.opens[choice.0].concerns(figure, run);
                    let varied = paper.choices().filter(concerns).map(Some);
                    let choices = std::iter::once(None).chain(varied);
                    requested.extend(choices.map(|choice| (paper, figure, run, choice)));
                }
            }
        }
        assert!(requested.len() > 1000, "{} plans", requested.len());
        let plans = in_parallel(requested.len(), 2, |i, _| {
            let (paper, figure, run, choice) = requested[i];
            figure.plan(paper, run, 1, choice).map(drop)
        });
        for ((paper, figure, run, choice), plan) in requested.into_iter().zip(plans) {
            plan.unwrap_or_else(|error| {
                panic!("{}/{}/{} {choice:?}: {error}", paper.name, figure.name, run.name)
            });
        }
    }

    #[test]
    fn quick_uses_only_runs_that_it_makes() {
        let runs = |papers: Vec<Paper>| -> usize {
            papers.iter().flat_map(|paper| &paper.figures).map(|figure| figure.runs.len()).sum()
        };
        let (quick, all) = (runs(papers(true).unwrap()), runs(papers(false).unwrap()));
        assert!(quick < all, "{quick} of {all}");
    }

    #[test]
    fn labels_are_those_of_the_scenario() {
        for paper in papers(false).unwrap() {
            for figure in &paper.figures {
                let queries = figure.claims.iter().flat_map(Claim::all_queries);
                let queries = queries.chain(figure.facts.iter().map(|fact| &fact.measure));
                let queries = queries.chain(figure.tables.iter().map(|table| &table.cells));
                let measured = queries.chain(figure.charts.iter().flat_map(Chart::queries));
                let measured = measured.filter_map(|query| {
                    let parameters: serde_json::Value = serde_json::from_str(&query.text).unwrap();
                    parameters["label"].as_str().map(str::to_owned)
                });
                let curves = figure.charts.iter().flat_map(|chart| &chart.labels);
                let curves = curves.filter_map(|curve| match curve {
                    Curve::Flows(label, _) => Some(label.clone()),
                    Curve::Queue(..) | Curve::Together => None,
                });
                let drawn = figure.charts.iter().map(|chart| chart.label.clone());
                let drawn = drawn.filter(|label| !label.is_empty());
                let mut needed: BTreeSet<String> = measured.chain(curves).chain(drawn).collect();
                for run in figure.runs.iter().filter(|run| run.model.is_none()) {
                    if needed.is_empty() {
                        break;
                    }
                    let plan = figure.plan(&paper, run, 1, None).unwrap();
                    needed.retain(|label| !plan.labels.contains(label));
                }
                assert!(needed.is_empty(), "figure {}: {needed:?}", figure.name);
            }
        }
    }

    #[test]
    fn names_are_unique_and_tolerances_are_stated() {
        for paper in papers(false).unwrap() {
            let mut names = Vec::new();
            for figure in &paper.figures {
                names.push(format!("figure {}", figure.name));
                let runs =
                    figure.runs.iter().map(|run| format!("run {} of {}", run.name, figure.name));
                names.extend(runs);
                for claim in &figure.claims {
                    names.push(format!("claim {}", claim.name));
                    assert!(
                        claim.reading_of.is_none() || claim.part_of.is_none(),
                        "{}: a reading or a part",
                        claim.name
                    );
                    let bounds = [claim.reproduced, claim.direction()];
                    assert!(
                        bounds.iter().flatten().all(|(low, high)| low <= high),
                        "{}",
                        claim.name
                    );
                    assert!(
                        bounds.iter().any(Option::is_some) && !claim.tolerance.is_empty(),
                        "{}",
                        claim.name
                    );
                    if let [Some(inner), Some(outer)] = bounds {
                        assert!(outer.0 <= inner.0 && inner.1 <= outer.1, "{}", claim.name);
                    }
                }
            }
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{}: duplicate name", paper.name);
        }
    }

    /// Claims whose source gives a bound and no value, so that any value on one side reproduces it,
    /// and numbers that differ from the limit by less than the least tolerance.
    const BOUNDS: [(&str, &[&str], &str); 6] = [
        (
            "authors",
            &["M1 queue.1", "M1 queue.2", "M1 queue.3", "M1 queue.4", "M1 queue.5"],
            "queues below a packet, the least tolerance",
        ),
        (
            "authors",
            &["incast queue.11", "incast queue.20", "incast queue.21", "incast queue.22"],
            "queues below the least tolerance",
        ),
        ("homa", &["H1", "H2", "H3", "H4", "H5"], "\"2.2 or less\""),
        ("powertcp", &["W22a", "W22b", "W22c", "W22d", "W22e", "W22f"], "\"at least\""),
        ("sird", &["S4a", "S4a long", "S4b", "S4c"], "a queue that is never exceeded"),
        ("sird", &["S17d"], "the queue of at most four packets"),
    ];

    /// A tolerance that no value on one side of the number violates shows nothing on that side.
    #[test]
    fn numbers_are_bounded_on_both_sides() {
        let mut open = BTreeSet::new();
        for paper in shared_papers() {
            for claim in paper.figures.iter().flat_map(|figure| &figure.claims) {
                if !claim.open_sides().is_empty() {
                    open.insert((&*paper.name, &*claim.name));
                }
                let (least, most) = claim.reproduced.unwrap_or_default();
                let is_wide = 0.0 < least && most.is_finite() && 20.0 * least < most;
                assert!(!is_wide, "{}/{}: {least} to {most}", paper.name, claim.name);
            }
        }
        let listed = BOUNDS.iter();
        let listed = listed.flat_map(|(paper, claims, _)| claims.iter().map(|of| (*paper, *of)));
        assert_eq!(open, listed.collect());
    }

    #[test]
    fn controls_can_pass() {
        for paper in papers(false).unwrap() {
            for figure in &paper.figures {
                for claim in &figure.claims {
                    assert!(
                        !claim.has_tautological_control(),
                        "{}/{}: the control of {} fails for any effect: use a third run",
                        paper.name,
                        figure.name,
                        claim.name
                    );
                }
            }
        }
    }

    const PAPER: &str = "title = 'X'\nabout = ''\n";
    const FIGURE: &str = "title = 'x'\ntrace_us = 10.0\n[[run]]\nname = 'a'\n[[claim]]\n\
                          name = 'c'\ntext = 'x'\nunit = ''\ntolerance = 'x'\n\
                          reproduced = [1.0, 2.0]\nmeasure = { metric = 'goodput', run = 'a' }\n\
                          control = { of = 'y', measure = { metric = 'rtt', run = 'a' } }\n\
                          [[chart]]\ntitle = 'x'\nkind = 'series'\nx = 'x'\ny = 'y'\n\
                          quantity = 'window'\nlabels = ['new', 'tor0>h0']\n";

    #[test]
    fn claims_and_charts_determine_recordings() {
        use tidegate_runs::cache::Recording;
        let paper = Paper::read("x", &[("figure-07a", FIGURE), ("paper", PAPER)], false).unwrap();
        let figure = &paper.figures[0];
        assert_eq!((paper.name.as_str(), figure.name.as_str()), ("x", "7a"));
        let recording = figure.recording(&figure.runs[0]);
        let parts = [Measurement::Traces, Measurement::Windows, Measurement::Queues];
        let expected =
            Recording { interval: Some(Span::us(10)), parts: parts.into(), ..Recording::default() };
        assert_eq!(recording, expected);
        let hidden = FIGURE.replace("name = 'a'\n", "name = 'a'\ndrawn = false\n");
        let paper = Paper::read("x", &[("figure-1", &hidden), ("paper", PAPER)], false).unwrap();
        let figure = &paper.figures[0];
        assert_eq!(figure.recording(&figure.runs[0]).parts, [Measurement::Traces].into());
    }

    #[test]
    fn models_and_packets_have_separate_keys() {
        let model = "[run.model]\nlaw = 'power'\ngbps = 1.0\nbase_rtt_us = 1.0\ngamma = 1.0\n\
                     update_us = 1.0\nincrease_kb = 1.0\nuntil_us = 1.0\nstarts = [[0.0, 1.0]]\n";
        let chart = |text: &str| format!("[[chart]]\ntitle = 'x'\nx = 'x'\ny = 'y'\n{text}\n");
        let read = |run: &str, text: &str| {
            let text = format!("title = 'x'\ntrace_us = 1.0\n{run}{text}");
            Paper::read("x", &[("figure-1", &text), ("paper", PAPER)], false)
        };
        let (packets, followed) =
            ("[[run]]\nname = 'a'\n", format!("[[run]]\nname = 'm'\n{model}"));
        let both = format!("{packets}{followed}");
        for (run, text, expected) in [
            (
                format!("[[run]]\nname = 'm'\nset = ['seed=1']\n{model}"),
                String::new(),
                "run m: `protocol`",
            ),
            (both.clone(), chart("kind = 'phase'"), "needs a `port`"),
            (both.clone(), chart("kind = 'reaction'\nstates = [[0.0, 0.0, 0.0]]"), "only models"),
            (followed.clone(), chart("kind = 'reaction'"), "needs `states`"),
            (followed.clone(), chart("kind = 'cdf'"), "a model needs a `phase`"),
        ] {
            let error = read(&run, &text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        // No open value applies to a model, whatever its figure.
        let open = "[[open]]\nname = 'n'\nchosen = ''\nwhy = ''\nfigures = ['1']\n\
                    instead = [{ name = 'x', set = ['seed=2'] }]";
        let (figure, paper) = (format!("title = 'x'\n{both}"), format!("{PAPER}{open}"));
        let paper = Paper::read("x", &[("figure-1a", &figure), ("paper", &paper)], false).unwrap();
        let [figure] = &paper.figures[..] else { panic!("one figure") };
        let varied = [0, 1].map(|run| paper.varied(figure, &figure.runs[run], (0, 0)).len());
        assert_eq!(varied, [1, 0]);
    }

    #[test]
    fn an_alternative_may_change_the_control_alone() {
        let [one, other] = [0, 1].map(|i| tidegate_algos::Protocol::ALL[i].info().name);
        let run = |name: &str, protocol: &str| {
            format!("[[run]]\nname = '{name}'\nprotocol = '{protocol}'\n")
        };
        let figure = FIGURE.replace("'rtt', run = 'a'", "'rtt', run = 'b'");
        let figure = figure.replace("[[run]]\nname = 'a'\n", &(run("a", one) + &run("b", other)));
        let open = |protocol: &str| {
            format!(
                "[[open]]\nname = '{protocol}'\nchosen = ''\nwhy = ''\nprotocols = ['{protocol}']\n\
                 instead = [{{ name = 'x', set = ['seed=2'] }}]\n"
            )
        };
        let paper = PAPER.to_owned() + &open(one) + &open(other);
        let paper = Paper::read("x", &[("figure-1", &figure), ("paper", &paper)], false).unwrap();
        let figure = &paper.figures[0];
        let changes = [(0, 0), (1, 0)].map(|of| paper.changes(figure, &figure.claims[0], of));
        assert_eq!(changes, [true, false]);
    }

    #[test]
    fn an_invalid_file_is_refused_by_name_and_key() {
        let figure = |from: &str, to: &str| {
            assert!(FIGURE.contains(from), "{from}");
            let text = FIGURE.replacen(from, to, 1);
            Paper::read("x", &[("figure-07a", &text), ("paper", PAPER)], false)
                .unwrap_err()
                .to_string()
        };
        for (from, to, expected) in [
            ("trace_us", "trace_ms", "unknown field `trace_ms`"),
            ("unit = ''", "unite = ''", "unknown field `unite`"),
            ("'goodput', run", "'goodputs', run", "unknown metric `goodputs`; expected one of"),
            ("'goodput', run", "'goodput', form_ms = 1.0, run", "unknown field `form_ms`"),
            ("run = 'a' }", "run = 'b' }", "claim c: unknown run `b`; expected one of a"),
            (", run = 'a' }", " }", "claim c: set `run` or `runs`"),
            ("trace_us = 10.0", "", "set `trace_us`"),
            ("quantity = 'window'", "quantity = 'windows'", "unknown variant `windows`"),
            ("quantity = 'window'", "", "chart \"x\": a series needs a `quantity`"),
            ("'tor0>h0'", "'tor0>'", "`tor0>` is not a port"),
        ] {
            let error = figure(from, to);
            let named = error.starts_with("registry, x/figure-07a.toml: ");
            assert!(named && error.contains(expected), "{to}: {error}");
        }
        let paper =
            |files: &[(&str, &str)]| Paper::read("x", files, false).unwrap_err().to_string();
        let open = "[[open]]\nname = 'n'\nchosen = ''\nwhy = ''\nfigures = ['9']\ninstead = []";
        let open = format!("{PAPER}{open}");
        for (files, expected) in [
            (&[("figure-1", FIGURE)][..], "x/paper.toml: the file is missing"),
            (&[("7a", FIGURE), ("paper", PAPER)], "x/7a.toml: expected a file name such as"),
            (&[("paper", open.as_str())], "x/paper.toml: open \"n\": unknown figure `9`"),
        ] {
            assert!(paper(files).contains(expected), "{}", paper(files));
        }
    }
}
