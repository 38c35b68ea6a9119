//! Documents of reproductions in a repository: a folder per paper, with its results, a page that
//! follows from them, and plots with their pictures. The plots can be drawn again without runs.
//!
//! The results of single figures can be replaced. A figure stores a hash of everything that its
//! results depend on, so that the page names the figures that another version measured.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use tidegate_results::Partial;

use crate::kept::{Kept, KeptFigure, RESULTS};
use crate::markdown;
use crate::plot::{Plot, short};
use crate::report::{Found, drawing_hash, read_reproduction};
use crate::reproduce::{
    Claim, ClaimResult, Document, Drawn, FIGURES, FigureText, Paper, PaperText, SEEDS, State,
    beside_name, figure_key, papers,
};
use tidegate_runs::Error;
use tidegate_runs::destination::{DOCUMENTS, PLOTS};

/// Maximum number of points of a line over time in the repository: more are not visible.
const POINTS_MAX: usize = 900;
/// Width of pictures on a wide screen, in pixels. On a narrow one, they are as wide as the page.
const WIDTH: u32 = 600;

/// Merges the figures of the reproduction in the folder `results` into the documents in `folder`:
/// its results, its page, and the pictures, which `draw` writes as SVG to a folder.
///
/// # Errors
/// When `results` holds no reproduction of a single paper with all seeds, or a file cannot be read
/// or written.
pub fn publish(
    results: &Path,
    folder: &Path,
    draw: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let wrong = |message: String| Error::Usage { option: "--pages", message };
    let Some(Found { claims, papers: texts, pictures }) = read_reproduction(results)? else {
        let message = format!(
            "{} holds no reproduction: name a folder that `tidegate reproduce PAPER --out` wrote",
            results.display()
        );
        return Err(wrong(message));
    };
    let [text] = &texts[..] else {
        let message = format!(
            "{} holds {} papers; expected one: `tidegate reproduce PAPER --out DIR`",
            results.display(),
            texts.len()
        );
        return Err(wrong(message));
    };
    if text.figures.iter().any(|figure| figure.key.is_empty()) {
        let message = format!(
            "{} was made with `--quick` or by an older version; run `tidegate reproduce {}` again",
            results.display(),
            text.paper
        );
        return Err(wrong(message));
    }
    let paper = papers(false)?.into_iter().find(|paper| paper.name == text.paper);
    let paper = paper.ok_or_else(|| wrong(format!("unknown paper `{}`", text.paper)))?;
    let output = |error| Error::output(folder)(error);
    fs::create_dir_all(folder.join(FIGURES)).map_err(output)?;
    let fresh = tempfile::tempdir_in(folder).map_err(output)?;
    draw(fresh.path())?;
    let mut kept = Kept::read(folder)?;
    let mut svgs = Vec::new();
    for figure in &text.figures {
        let names = figure.pictures.iter().map(String::as_str);
        let beside = beside_name(&paper.name, &figure.figure);
        let mut drawn = Vec::new();
        for name in names.chain([beside.as_str()]) {
            let from = fresh.path().join(format!("{name}.svg"));
            let Ok(svg) = fs::read_to_string(&from) else { continue };
            svgs.push((name.to_owned(), scalable(&svg)));
            let plot = pictures.iter().find(|picture| picture.name == name).map(|of| &of.plot);
            let relative = || format!("Measured values relative to the {}'s", paper.source);
            drawn.push((name.to_owned(), plot.map_or_else(relative, |plot| plot.title.clone())));
            kept.plots.extend(plot.map(|plot| (name.to_owned(), thinned(plot))));
        }
        kept.replace(KeptFigure { text: figure.clone(), drawn });
        kept.claims.retain(|claim| claim.figure != figure.figure);
    }
    kept.claims.extend(claims);
    kept.sort(&paper);
    kept.judge(&paper, |kept| text.figures.iter().all(|of| of.figure != kept.text.figure))?;
    kept.mark(&paper);
    let plots = kept.all_plots(&paper);
    for (name, svg) in svgs {
        let Some(plot) = plots.get(&name) else { continue };
        let to = folder.join(FIGURES).join(format!("{name}.svg"));
        write(&to, signed(&svg, plot).as_bytes()).map_err(output)?;
    }
    kept.remove_other_pictures(folder).map_err(output)?;
    let mut json = Vec::new();
    tidegate_results::write_json(&kept, &mut json).map_err(output)?;
    write(&folder.join(RESULTS), &json).map_err(output)?;
    write(&folder.join(PLOTS), kept.plots_json().as_bytes()).map_err(output)?;
    write(&folder.join(DOCUMENTS[0]), kept.page(&paper)?.as_bytes()).map_err(output)
}

fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = Partial::new(path.to_owned())?;
    file.write_all(content)?;
    file.publish()
}

/// The plot with fewer points. Those of distributions and with a range belong to single values.
fn thinned(plot: &Plot) -> Plot {
    let mut plot = plot.clone();
    let is_over_time = plot.distribution.is_none();
    let lines = plot.lines.iter_mut().filter(|line| is_over_time && !line.apart);
    lines.filter(|line| line.range.is_empty()).for_each(|line| {
        line.points = line.points.thinned(POINTS_MAX);
    });
    // As they are read again: marks depend on the ends of lines.
    let points = plot.lines.iter_mut().flat_map(|line| line.points.iter_mut());
    points.for_each(|point| *point = (short(point.0), short(point.1)));
    plot
}

/// The picture with a comment from which a test finds whether it shows the present plot.
fn signed(svg: &str, plot: &Plot) -> String {
    let (head, rest) = svg.split_at(svg.find('>').map_or(0, |end| end + 1));
    format!("{head}{}{rest}", signature(plot))
}

fn signature(plot: &Plot) -> String {
    format!("<!-- drawn from {} -->", drawing_hash(plot))
}

/// The picture with its width on a screen in place of its size on paper.
fn scalable(svg: &str) -> String {
    let (head, rest) = svg.split_at(svg.find('>').unwrap_or(0));
    let mut head = head.to_owned();
    for (name, now) in [(" width=\"", format!(" width=\"{WIDTH}\"")), (" height=\"", String::new())]
    {
        let Some(start) = head.find(name) else { continue };
        let Some(length) = head[start + name.len()..].find('"') else { continue };
        head.replace_range(start..=start + name.len() + length, &now);
    }
    head + rest
}

impl Kept {
    /// The page, with the present texts of the registry.
    fn page(&self, paper: &Paper) -> Result<String, Error> {
        let mut outdated = BTreeSet::new();
        for kept in &self.figures {
            let figure = paper.figures.iter().find(|figure| figure.name == kept.text.figure);
            let key = figure.map(|figure| figure_key(paper, figure)).transpose()?;
            if key.as_ref() != Some(&kept.text.key) {
                outdated.insert(kept.text.figure.as_str());
            }
        }
        let figures = paper.figures.iter().map(|figure| {
            let kept = self.figures.iter().find(|kept| kept.text.figure == figure.name);
            FigureText {
                figure: figure.name.clone(),
                title: figure.title.clone(),
                about: figure.about.trim().to_owned(),
                result: figure.result.clone(),
                ..kept.map_or_else(FigureText::default, |kept| kept.text.clone())
            }
        });
        let text = PaperText { figures: figures.collect(), ..PaperText::of(paper) };
        let claims: Vec<ClaimResult> = self
            .claims
            .iter()
            .map(|result| {
                let figure = paper.figures.iter().find(|figure| figure.name == result.figure);
                let mut claims = figure.into_iter().flat_map(|figure| &figure.claims);
                let claim = claims.find(|claim| claim.name == result.claim);
                // A result of another version may have been judged with other bounds.
                let current = claim.filter(|_| !outdated.contains(result.figure.as_str()));
                ClaimResult {
                    is_headline: claim.is_some_and(|claim| claim.headline),
                    accepted: current.map_or_else(String::new, Claim::accepted_text),
                    ..result.clone()
                }
            })
            .collect();
        let pictures = |figure: &FigureText| {
            let kept = self.figures.iter().find(|kept| kept.text.figure == figure.figure);
            kept.map_or(&[][..], |kept| &kept.drawn)
        };
        let document = Document {
            command: format!("tidegate reproduce {} --out DIR", paper.name),
            seeds: SEEDS,
            papers: &[text],
            claims: &claims,
            drawn: Some(Drawn {
                of: &pictures,
                state: &|figure| {
                    let is_its = |kept: &KeptFigure| kept.text.figure == figure.figure;
                    if outdated.contains(figure.figure.as_str()) {
                        State::Outdated
                    } else if self.figures.iter().any(is_its) {
                        State::Current
                    } else {
                        State::Missing
                    }
                },
            }),
        };
        Ok(markdown::document(&document.markdown()))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::PathBuf;

    use super::*;
    use crate::reproduce::{
        Counts, image, lengths, recorded, sensitivity_markdown, shared_papers, verdicts,
    };

    fn documents() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers")
    }

    /// Sets the lengths of the runs of all figures whose results are those of this version, which
    /// has the same plans. Returns whether any has changed.
    fn put_lengths(kept: &mut Kept, paper: &Paper) -> bool {
        let mut is_new = false;
        for kept in &mut kept.figures {
            let figure = paper.figures.iter().find(|figure| figure.name == kept.text.figure);
            let Some(figure) = figure else { continue };
            if figure_key(paper, figure).unwrap() == kept.text.key {
                let lengths = lengths(paper, figure).unwrap();
                is_new |= lengths != kept.text.lengths;
                kept.text.lengths = lengths;
            }
        }
        is_new
    }

    /// Compares a generated file with the repository's, or writes it if `UPDATE` is set.
    fn check(path: &Path, text: &str) {
        if std::env::var_os("UPDATE").is_some() {
            fs::write(path, text).unwrap();
            return;
        }
        let now = fs::read_to_string(path).unwrap_or_default();
        let path = path.display();
        assert!(now == text, "{path}: UPDATE=1 cargo test -p tidegate-papers pages::");
    }

    /// The anchor of a heading.
    fn anchor(heading: &str) -> String {
        let words = heading.to_lowercase().replace(' ', "-");
        words.chars().filter(|letter| letter.is_alphanumeric() || *letter == '-').collect()
    }

    /// The pictures of all figures, each with its verdicts and scenarios, for a page in the folder
    /// above.
    fn gallery(kept: &Kept, paper: &Paper) -> String {
        let page = format!("{}/{}", paper.name, DOCUMENTS[0]);
        let mut text = format!("\n## [{}]({page})\n", paper.title);
        for figure in &paper.figures {
            let found = kept.figures.iter().find(|kept| kept.text.figure == figure.name);
            let Some(found) = found.filter(|kept| !kept.drawn.is_empty()) else { continue };
            let is_its = |claim: &&ClaimResult| claim.figure == figure.name;
            let claims: Vec<&ClaimResult> = kept.claims.iter().filter(is_its).collect();
            let counts = if claims.is_empty() {
                "No statement of a paper".to_owned()
            } else {
                verdicts(&claims)
            };
            let scenarios = figure.scenarios(paper).into_iter();
            let scenarios: Vec<String> = scenarios
                .map(|name| format!("[`{name}.toml`](../../scenarios/{name}.toml)"))
                .collect();
            let from = match &scenarios[..] {
                [] => "Equations.".to_owned(),
                some => format!("Scenarios: {}.", some.join(", ")),
            };
            let _ = write!(
                text,
                "\n### Figure {}: {}\n\n{counts}. {from}\n\n",
                figure.name, figure.title
            );
            let folder = format!("{}/{FIGURES}", paper.name);
            found.drawn.iter().for_each(|of| text.push_str(&image(&folder, of)));
        }
        text.trim_end().to_owned() + "\n"
    }

    #[test]
    fn pages_follow_from_results() {
        let (mut contents, mut sections) = (String::new(), String::new());
        let (mut bytes, mut outdated) = (0, Vec::new());
        for paper in shared_papers() {
            let folder = documents().join(&paper.name);
            let mut kept = Kept::read(&folder).unwrap();
            assert!(!kept.figures.is_empty(), "{} has no results", paper.name);
            for kept in &kept.figures {
                let name = &kept.text.figure;
                assert!(!kept.drawn.is_empty(), "{}: figure {name} has no picture", paper.name);
            }
            let is_new = put_lengths(&mut kept, paper) | kept.judge(paper, |_| true).unwrap();
            if is_new && std::env::var_os("UPDATE").is_some() {
                let mut json = Vec::new();
                tidegate_results::write_json(&kept, &mut json).unwrap();
                fs::write(folder.join(RESULTS), json).unwrap();
            } else {
                assert!(!is_new, "{}: UPDATE=1 cargo test -p tidegate-papers pages::", paper.name);
            }
            let plots = kept.plots.clone();
            kept.mark(paper);
            if kept.plots != plots {
                outdated.push(format!("marks of {}", paper.name));
            }
            let plots = kept.all_plots(paper);
            check(&folder.join(DOCUMENTS[0]), &kept.page(paper).unwrap());
            if !paper.opens.is_empty() {
                let opens = recorded(paper, &kept.claims).unwrap();
                let text = sensitivity_markdown(&[(paper.title.clone(), opens)], false);
                check(&folder.join(DOCUMENTS[1]), &markdown::document(&text));
            }
            let of_figures = gallery(&kept, paper);
            let (title, count) = (&paper.title, of_figures.matches("\n### ").count());
            let _ = writeln!(contents, "* [{title}](#{}): {count}", anchor(title));
            sections.push_str(&of_figures);
            bytes += [RESULTS, PLOTS]
                .map(|name| folder.join(name).metadata().unwrap().len())
                .iter()
                .sum::<u64>();
            // Without pictures, there is no folder.
            let files = fs::read_dir(folder.join(FIGURES)).into_iter().flatten().flatten();
            let mut names = BTreeSet::new();
            for file in files {
                let svg = fs::read_to_string(file.path()).unwrap();
                bytes += svg.len() as u64;
                let file = file.file_name().into_string().unwrap();
                let plot = file.strip_suffix(".svg").and_then(|name| plots.get(name));
                let is_fresh = plot.is_some_and(|plot| svg.contains(&signature(plot)));
                if !is_fresh {
                    outdated.push(file.clone());
                }
                names.insert(file);
            }
            assert_eq!(names, kept.pictures(), "{}", paper.name);
        }
        let head = "# Gallery\n\nFigures of the reproductions, with verdicts and scenarios:\n\n";
        let page = format!("{head}{contents}{sections}");
        check(&documents().join("gallery.md"), &markdown::document(&page));
        assert!(bytes < 10_000_000, "{bytes} bytes of pictures");
        assert!(outdated.is_empty(), "make figures: another plot or style: {outdated:?}");
    }

    /// The verdicts at the head of a page are those that its totals count.
    #[test]
    fn headlines_have_the_verdicts_that_totals_count() {
        let mut rows = 0;
        for paper in shared_papers() {
            let folder = documents().join(&paper.name);
            let kept = Kept::read(&folder).unwrap();
            // `pages_follow_from_results` compares it with the results.
            let page = fs::read_to_string(folder.join(DOCUMENTS[0])).unwrap();
            for claim in paper.figures.iter().flat_map(|figure| &figure.claims) {
                let result = kept.claims.iter().find(|result| result.claim == claim.name);
                let Some(result) = result.filter(|_| claim.headline) else { continue };
                let cell = format!("({}, figure {}) |", result.claim, result.figure);
                let row = page.lines().find(|line| line.contains(&cell)).expect(&cell);
                let is_its = |other: &&ClaimResult| other.sentence == result.sentence;
                let sentence: Vec<_> = kept.claims.iter().filter(is_its).cloned().collect();
                let counts = Counts::of(&sentence);
                let is_number = result.paper_value.is_some() && !result.derived;
                let count = if is_number { counts.numbers } else { counts.others };
                let is_counted = match row.split("**").nth(1).unwrap() {
                    "reproduced" => count.reproduced,
                    "conditional" => count.conditional,
                    "direction" => count.direction,
                    _ => count.deviates,
                };
                assert_eq!((count.all, is_counted), (1, 1), "{}: {row}", paper.name);
                rows += 1;
            }
        }
        assert!(rows > 60, "{rows} headlines");
    }

    /// A note is part of the results, so a note that changes has to be published again.
    #[test]
    fn published_reasons_contain_the_notes() {
        for paper in shared_papers() {
            let kept = Kept::read(&documents().join(&paper.name)).unwrap();
            for figure in &paper.figures {
                let Some(of) = kept.figures.iter().find(|of| of.text.figure == figure.name) else {
                    continue;
                };
                if figure_key(paper, figure).unwrap() != of.text.key {
                    continue;
                }
                for claim in &figure.claims {
                    let is_its = |result: &&ClaimResult| {
                        (&result.figure, &result.claim) == (&figure.name, &claim.name)
                    };
                    let Some(result) = kept.claims.iter().find(is_its) else { continue };
                    let (note, name) = (claim.note.trim(), &claim.name);
                    assert!(
                        result.why.ends_with(note),
                        "tidegate reproduce {}/{}: the note of {name} is not published: {}",
                        paper.name,
                        figure.name,
                        result.why
                    );
                }
            }
        }
    }

    /// Printed values of single runs without a mark, and the reason.
    const UNMARKED: [(&str, &str, &[&str], &str); 14] = [
        ("eqds", "incast", &["EI.1", "EI.4", "EI.7"], "medians are not drawn"),
        ("eqds", "incast", &["EI.3", "EI.6", "EI.9"], "retransmissions are not drawn"),
        ("eqds", "outcast", &["E5", "EX.1", "EX.2", "EX.3"], "completion times are not drawn"),
        ("eqds", "oversubscribed", &["EO.1", "EO.4"], "means are not drawn"),
        ("eqds", "oversubscribed", &["EO.3", "EO.6"], "retransmissions are not drawn"),
        ("eqds", "permutation", &["EP.3", "EP.6", "EP.9"], "retransmissions are not drawn"),
        ("kernel", "p12", &["K1b"], "it is a share of a link with another rate"),
        ("kernel", "p13", &["K2b"], "it is a share of a link with another rate"),
        ("ndp", "14", &["N14.3", "N14.4"], "DCTCP has no window and is not drawn"),
        (
            "ndp",
            "22",
            &["N22.1", "N22.2", "N22.3", "N22.4", "N22.5", "N22.6"],
            "the plot has other runs, for which there are no values",
        ),
        ("poseidon", "7a", &["P22a", "P22b"], "numbers of round trips are not drawn"),
        ("powertcp", "3", &["W24e2"], "times of decay are not drawn"),
        ("powertcp", "8a", &["W21a"], "shares of days are not drawn"),
        (
            "uet",
            "permutation",
            &["UP.1", "UP.3", "UP.5", "UP.7", "UP.9", "UP.11", "UP.13", "UP.15", "UP.17", "UP.19"],
            "shortest completions are not drawn",
        ),
    ];

    /// Values of several runs, such as ratios, have no place on an axis.
    #[test]
    fn printed_values_are_marked() {
        let (mut unmarked, mut marked) = (BTreeSet::new(), 0);
        for paper in shared_papers() {
            let kept = Kept::read(&documents().join(&paper.name)).unwrap();
            for figure in &paper.figures {
                let of = kept.figures.iter().find(|kept| kept.text.figure == figure.name);
                let names = of.map_or(&[][..], |kept| &kept.text.pictures);
                let plots: Vec<&Plot> = names.iter().map(|name| &kept.plots[name]).collect();
                let printed = |claim: &&Claim| {
                    let is_printed = claim.paper.is_some() && !claim.derived && !claim.own;
                    is_printed && claim.of_one_run().is_some() && !plots.is_empty()
                };
                for claim in figure.claims.iter().filter(printed) {
                    let marks = plots.iter().flat_map(|plot| &plot.paper_marks);
                    if marks.clone().any(|mark| mark.name == claim.name) {
                        marked += 1;
                    } else {
                        unmarked.insert((&*paper.name, &*figure.name, &*claim.name));
                    }
                }
            }
        }
        let listed = UNMARKED.iter().flat_map(|(paper, figure, claims, _)| {
            claims.iter().map(move |claim| (*paper, *figure, *claim))
        });
        assert_eq!(unmarked, listed.collect());
        assert!(marked > 120, "{marked} marked values");
    }

    #[test]
    fn pictures_of_papers_exist() {
        for paper in papers(false).unwrap() {
            let kept = Kept::read(&documents().join(&paper.name)).unwrap();
            let (name, drawn) = (format!("{}.svg", paper.picture), kept.pictures());
            let is_drawn = drawn.is_empty() || drawn.contains(&name);
            assert!(paper.picture.is_empty() || is_drawn, "{}: {name}", paper.name);
        }
    }

    #[test]
    fn a_picture_has_the_width_of_screens() {
        let svg = "<svg xmlns=\"x\" width=\"7in\" height=\"3in\" viewBox=\"0 0 840 357\"><rect \
                   width=\"8\"/></svg>";
        let expected =
            "<svg xmlns=\"x\" width=\"600\" viewBox=\"0 0 840 357\"><rect width=\"8\"/></svg>";
        assert_eq!(scalable(svg), expected);
        assert_eq!(scalable(expected), expected);
    }

    #[test]
    fn a_picture_shows_whether_its_plot_has_changed() {
        let plot = |title: &str| Plot { title: title.to_owned(), ..Plot::default() };
        let svg = signed("<svg><g/></svg>", &plot("a"));
        assert!(
            svg.starts_with("<svg><!-- drawn from ") && svg.ends_with(" --><g/></svg>"),
            "{svg}"
        );
        assert!(svg.contains(&signature(&plot("a"))) && !svg.contains(&signature(&plot("b"))));
    }

    #[test]
    fn fresh_figures_replace_old_ones_in_registry_order() {
        let papers = papers(false).unwrap();
        let paper = papers.iter().find(|paper| paper.name == "poseidon").unwrap();
        let figure = |name: &str, title: &str| KeptFigure {
            text: FigureText {
                figure: name.to_owned(),
                title: title.to_owned(),
                ..FigureText::default()
            },
            drawn: Vec::new(),
        };
        let mut kept = Kept::default();
        for (name, title) in [("14", "old"), ("removed", "old"), ("12", "old"), ("14", "new")] {
            kept.replace(figure(name, title));
        }
        kept.sort(paper);
        let names: Vec<_> =
            kept.figures.iter().map(|kept| (&*kept.text.figure, &*kept.text.title)).collect();
        assert_eq!(names, [("12", "old"), ("14", "new")]);
        let page = kept.page(paper).unwrap();
        assert!(page.contains("**Incomplete.** Figures "), "{page}");
        assert!(page.contains("**Not measured yet.** `tidegate reproduce poseidon/15`"), "{page}");
        // Without keys, all figures are those of another version.
        let page = kept.page(paper).unwrap();
        assert!(page.contains("**Partly outdated.** Figures 12 and 14 were measured"), "{page}");
        let current = paper.figures.iter().find(|figure| figure.name == "12").unwrap();
        kept.figures[0].text.key = figure_key(paper, current).unwrap();
        let page = kept.page(paper).unwrap();
        assert!(page.contains("**Partly outdated.** Figure 14 was measured"), "{page}");
    }
}
