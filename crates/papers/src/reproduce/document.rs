//! The reproduction document.

use std::fmt::Write;

use super::claims::counting;
use super::value_column::{has_values, measured, values_cell, values_head, worded};
use super::{ClaimResult, Counts, FigureText, PaperText, Verdict, headlines};

/// A reproduction as a document.
pub(crate) struct Document<'a> {
    /// The command that measures all of it.
    pub(crate) command: String,
    /// Seeds of each run.
    pub(crate) seeds: u64,
    pub(crate) papers: &'a [PaperText],
    pub(crate) claims: &'a [ClaimResult],
    /// The pictures beside the document; `None`: there are none.
    pub(crate) drawn: Option<Drawn<'a>>,
}

/// Pictures of the figures, as files in the folder [`FIGURES`] beside the document.
pub(crate) struct Drawn<'a> {
    /// Name and title of the pictures of a figure.
    pub(crate) of: &'a dyn Fn(&FigureText) -> &'a [(String, String)],
    /// State of the results of a figure.
    pub(crate) state: &'a dyn Fn(&FigureText) -> State,
}

/// State of the results of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Those of this version.
    Current,
    /// Those of another version.
    Outdated,
    /// Not measured yet.
    Missing,
}

/// Folder of the pictures beside the document.
pub(crate) const FIGURES: &str = "figures";
/// Longest reason in a cell of a table, in characters. Longer ones become notes.
const REASON_MAX: usize = 300;
/// Verdicts from the best to the worst.
const VERDICTS: [Verdict; 4] =
    [Verdict::Reproduced, Verdict::Conditional, Verdict::Direction, Verdict::Deviates];

impl Document<'_> {
    /// The document in Markdown: a summary, then figure by figure its pictures, its claims, and
    /// values without a claim.
    pub(crate) fn markdown(&self) -> String {
        let Document { command, seeds, papers, claims, .. } = self;
        let title = match papers {
            [paper] => format!("Reproduction: {}", paper.title),
            _ => "Reproduction".to_owned(),
        };
        let mut text = format!("# {title}\n\n");
        for paper in *papers {
            if let Some((figures, _, verb)) = self.named(paper, State::Missing, ["has", "have"]) {
                let _ = write!(
                    text,
                    "**Incomplete.** {figures} {verb} not been measured yet: see the commands \
                     below.\n\n"
                );
            }
            if let Some((figures, what, verb)) = self.named(paper, State::Outdated, ["was", "were"])
            {
                let _ = write!(
                    text,
                    "**Partly outdated.** {figures} {verb} measured with another version of the \
                     engine, of a protocol or of the scenario. `tidegate reproduce {what}` \
                     measures again.\n\n"
                );
            }
        }
        for paper in *papers {
            text.push_str(&self.summary(paper));
        }
        if !claims.is_empty() {
            text.push_str(&legend(claims, source_of(papers)));
        }
        let _ = writeln!(text, "Written by `{command}`. {}", values(*seeds));
        if *seeds > 1 {
            text.push_str(
                "± is half of a 95 % confidence interval over the seeds, by Student's t.\n",
            );
        }
        for paper in *papers {
            let _ = write!(text, "\n## {}\n\n{}\n", paper.title, paper.opening());
            for figure in &paper.figures {
                text.push_str(&self.figure(paper, figure));
            }
        }
        text
    }

    /// The figures whose results are in a state: in words, as a selection, and the verb.
    fn named(
        &self,
        paper: &PaperText,
        state: State,
        [singular, plural]: [&'static str; 2],
    ) -> Option<(String, String, &'static str)> {
        let drawn = self.drawn.as_ref()?;
        let its = paper.figures.iter().filter(|figure| (drawn.state)(figure) == state);
        let names: Vec<&str> = its.map(|figure| figure.figure.as_str()).collect();
        let (last, names) = names.split_last()?;
        let name = &paper.paper;
        Some(match names {
            [] => (format!("Figure {last}"), format!("{name}/{last}"), singular),
            names => (format!("Figures {} and {last}", names.join(", ")), name.clone(), plural),
        })
    }

    /// The picture of a paper, and its best-known claims; without such claims, the verdicts by
    /// figure, or the results of experiments without claims.
    fn summary(&self, paper: &PaperText) -> String {
        let own = |claim: &&ClaimResult| claim.paper == paper.paper;
        let claims: Vec<&ClaimResult> = self.claims.iter().filter(own).collect();
        let mut text = String::new();
        if let Some(drawn) = &self.drawn {
            let mut all = paper.figures.iter().flat_map(|figure| (drawn.of)(figure));
            let chosen = all.clone().find(|(name, _)| *name == paper.picture);
            if let Some(picture) = chosen.or_else(|| all.next()) {
                text.push_str(&image(FIGURES, picture));
            }
        }
        let headlines = headlines::table(&claims, &paper.source);
        if !headlines.is_empty() {
            text.push_str(&headlines);
        } else if !claims.is_empty() {
            let names = VERDICTS.map(Verdict::name).join(" | ");
            let _ = write!(
                text,
                "| figure | claims | {names} |\n|---|--:|{}\n",
                "--:|".repeat(VERDICTS.len())
            );
            for figure in paper.figures.iter().filter(|figure| !self.is_missing(figure)) {
                let of = claims.iter().filter(|claim| claim.figure == figure.figure);
                let verdicts: Vec<Verdict> = of.map(|claim| claim.verdict).collect();
                let count = |of| verdicts.iter().filter(|verdict| **verdict == of).count();
                let cells = VERDICTS.map(|of| count(of).to_string()).join(" | ");
                let _ = writeln!(text, "| {} | {} | {cells} |", figure.title, verdicts.len());
            }
            text.push('\n');
        } else if paper.figures.iter().any(|figure| !figure.result.is_empty()) {
            text.push_str("| experiment | result |\n|---|---|\n");
            for figure in paper.figures.iter().filter(|figure| !self.is_missing(figure)) {
                let _ = writeln!(text, "| {} | {} |", figure.title, figure.result);
            }
            text.push('\n');
        }
        text
    }

    fn is_missing(&self, figure: &FigureText) -> bool {
        self.drawn.as_ref().is_some_and(|drawn| (drawn.state)(figure) == State::Missing)
    }

    fn figure(&self, paper: &PaperText, figure: &FigureText) -> String {
        let is_its =
            |claim: &&ClaimResult| claim.paper == paper.paper && claim.figure == figure.figure;
        let claims: Vec<&ClaimResult> = self.claims.iter().filter(is_its).collect();
        let own = |claim: &&ClaimResult| claim.paper == paper.paper;
        let of_paper: Vec<&ClaimResult> = self.claims.iter().filter(own).collect();
        let pictures = self.drawn.as_ref().map_or(&[][..], |drawn| (drawn.of)(figure));
        if claims.is_empty()
            && figure.about.is_empty()
            && figure.values.is_empty()
            && pictures.is_empty()
            && !self.is_missing(figure)
        {
            return String::new();
        }
        let mut text = format!("\n### Figure {}: {}\n\n", figure.figure, figure.title);
        if !figure.about.is_empty() {
            let _ = write!(text, "{}\n\n", figure.about);
        }
        if self.is_missing(figure) {
            let (paper, figure) = (&paper.paper, &figure.figure);
            let _ = write!(
                text,
                "**Not measured yet.** `tidegate reproduce {paper}/{figure}` measures it.\n\n"
            );
        }
        pictures.iter().for_each(|picture| text.push_str(&image(FIGURES, picture)));
        if !claims.is_empty() {
            text.push_str(&folded(
                &verdicts(&claims),
                &claim_table(&paper.source, has_values(&of_paper), &claims),
            ));
        }
        if !figure.values.is_empty() {
            text.push_str(&folded("Measured values", &figure.values.join("\n\n")));
        }
        text
    }
}

/// A picture of `folder` with its title below.
pub(crate) fn image(folder: &str, (name, title): &(String, String)) -> String {
    format!("![{title}]({folder}/{name}.svg)\n\n*{title}*\n\n")
}

/// A part that is closed at first.
pub(super) fn folded(title: &str, text: &str) -> String {
    format!("<details><summary>{title}</summary>\n\n{}\n\n</details>\n\n", text.trim_end())
}

/// `Claims: 3 reproduced, 1 deviates`
pub(crate) fn verdicts(claims: &[&ClaimResult]) -> String {
    let count = |of: Verdict| claims.iter().filter(|claim| claim.verdict == of).count();
    let some = VERDICTS.iter().map(|&of| (count(of), of.name())).filter(|(count, _)| *count > 0);
    let some: Vec<String> = some.map(|(count, name)| format!("{count} {name}")).collect();
    format!("Claims: {}", some.join(", "))
}

/// Name of the source of the claims' values.
pub(crate) fn source_of(papers: &[PaperText]) -> &str {
    match papers {
        [paper] => &paper.source,
        _ => "paper",
    }
}

/// Claims as a table, with long reasons as notes below it. `has_values`: the source states any
/// value of the paper's claims.
fn claim_table(source: &str, has_values: bool, claims: &[&ClaimResult]) -> String {
    let [head, rule] = values_head(source, has_values);
    let mut text =
        format!("| claim | |{head} measured | verdict | why |\n|---|---|{rule}--:|---|---|\n");
    let mut notes = String::new();
    for claim in claims {
        let [short, why] = [&claim.short, &claim.why].map(|text| worded(text, source));
        let why = if claim.why.chars().count() > REASON_MAX {
            let _ = writeln!(notes, "* **{}**: {why}", claim.claim);
            format!("{short}; see below").trim_start_matches("; ").to_owned()
        } else {
            why.replace('|', "\\|")
        };
        let _ = writeln!(
            text,
            "| {} | {} |{} {} | {} | {why} |",
            claim.claim,
            claim.text,
            values_cell(claim, has_values),
            measured(claim),
            claim.verdict.name(),
        );
    }
    if !notes.is_empty() {
        let _ = write!(text, "\n{notes}");
    }
    text
}

/// Explanation of values that were measured with `seeds` seeds.
pub(crate) fn values(seeds: u64) -> String {
    if seeds <= 1 {
        return "Values are from one seed.".to_owned();
    }
    format!(
        "Values are means over {seeds} seeds, and ratios are those of two means. Square brackets, \
         as in [9.24 to 9.66], hold the minimum and maximum of single seeds. The worst of several \
         cells is that of their means; the worst of a single seed can be worse than all of these."
    )
}

/// Explanation of the paper's values in parentheses.
pub const DERIVED: &str = "Values in parentheses are not printed in the paper. They follow \
                                  from its words, such as a fair share, and count as orderings.";

/// Totals of the verdicts, and the meaning of each verdict.
fn legend(claims: &[ClaimResult], source: &str) -> String {
    let counts = Counts::of(claims).named(source);
    let derived = if claims.iter().any(|claim| claim.derived) { DERIVED } else { "" };
    let meaning = format!(
        "* *Reproduced*: within the tolerance for every seed and, with one seed, for every \
         alternative to what the {source} leaves open.\n\
         * *Conditional*: within the tolerance in the mean over the seeds or for some alternative, \
         but not for all; the others are named.\n\
         * *Direction*: in the {source}'s direction for all of these, by at least a quarter of its \
         effect (in the logarithm for factors), or by the margin that the tolerance names.\n\
         * *Deviates*: none of these, or the control passes the same check, which it must fail.\n\n\
         {derived}"
    );
    let counts = format!("{counts} {}", counting(claims));
    format!("{}\n\n{}", counts.trim_end(), folded("Meaning of the verdicts", &meaning))
}

impl Verdict {
    /// Name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Conditional => "conditional",
            Verdict::Direction => "direction",
            Verdict::Deviates => "deviates",
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Seeds;
    use super::*;
    use crate::Reproduction;

    #[test]
    fn counts_have_singular_and_plural() {
        let count = |all| super::super::claims::Count { all, ..Default::default() };
        let named = [0, 1, 24].map(|all| count(all).named("number", "numbers"));
        assert_eq!(named, ["0 numbers", "1 number", "24 numbers"]);
    }

    #[test]
    fn comparisons_of_our_own_count_apart() {
        let own = |name: &str| ClaimResult { own: true, ..claim(name, Verdict::Deviates, "") };
        let claims = [claim("a", Verdict::Reproduced, ""), own("b"), own("c")];
        let text = Counts::of(&claims).named("paper");
        assert!(text.contains("Of 2 comparisons that are ours"), "{text}");
        assert!(text.ends_with("0 in direction, 2 deviate."), "{text}");
        assert!(!Counts::of(&claims[..1]).named("paper").contains("ours"));
    }

    #[test]
    fn a_single_figure_omits_the_history() {
        let figure = |name: &str| FigureText {
            figure: name.to_owned(),
            title: "what it shows".to_owned(),
            about: "Description.".to_owned(),
            ..FigureText::default()
        };
        let text = |figures: Vec<FigureText>| {
            let paper = PaperText {
                paper: "paper".to_owned(),
                title: "Paper".to_owned(),
                about: "About all.".to_owned(),
                history: "P1 was otherwise.".to_owned(),
                picture: String::new(),
                source: "paper".to_owned(),
                figures,
            };
            let result = Reproduction { papers: vec![paper], ..Reproduction::default() };
            let [(_, text)] = &result.documents()[..] else { panic!("one document") };
            (text.clone(), crate::reproduction_files(&result))
        };
        let page = |files: &[(String, Vec<u8>)]| {
            let page = files.iter().find(|(name, _)| name == "report.html").unwrap();
            String::from_utf8(page.1.clone()).unwrap()
        };
        let (one, files) = text(vec![figure("1")]);
        assert!(one.contains("\n\nAbout all.\n\n### Figure 1: what it shows"), "{one}");
        assert!(page(&files).contains("About all.") && !page(&files).contains("P1 was"));
        let (two, files) = text(vec![figure("1"), figure("2")]);
        assert!(two.contains("\n\nAbout all.\n\nP1 was otherwise.\n\n### Figure 1"), "{two}");
        assert!(page(&files).contains("<p>About all.</p>\n<p>P1 was otherwise.</p>"));
    }

    /// A claim with the value 3; a headline if its name is A.
    pub(in super::super) fn claim(name: &str, verdict: Verdict, why: &str) -> ClaimResult {
        ClaimResult {
            paper: "paper".to_owned(),
            figure: "1".to_owned(),
            claim: name.to_owned(),
            sentence: name.to_owned(),
            is_part: false,
            text: "it is so".to_owned(),
            paper_value: Some(2.0),
            accepted: "1 to 4 us".to_owned(),
            derived: false,
            own: false,
            measured: Some(3.0),
            unit: "us".to_owned(),
            verdict,
            as_chosen: verdict,
            short: "depends on beta".to_owned(),
            why: why.to_owned(),
            is_headline: name == "A",
            seeds: Seeds { count: 1, least: None, most: None },
        }
    }

    #[test]
    fn ratios_below_zero_have_a_linear_axis() {
        let (a, b) = (claim("A", Verdict::Reproduced, ""), claim("B", Verdict::Deviates, ""));
        let b = ClaimResult { measured: Some(-1.0), ..b };
        let drawn = |claims: &[&ClaimResult]| {
            let plot = super::super::beside::beside_paper(claims, "paper", None).unwrap();
            (plot.x.names, plot.y.log)
        };
        assert_eq!(drawn(&[&a]), (vec!["A".to_owned()], true));
        assert_eq!(drawn(&[&a, &b]), (vec!["A".to_owned(), "B".to_owned()], false));
    }

    #[test]
    fn long_reasons_become_notes() {
        let long = "word ".repeat(70);
        let (a, b) =
            (claim("A", Verdict::Conditional, &long), claim("B", Verdict::Reproduced, "Short."));
        let text = claim_table("paper", true, &[&a, &b]);
        assert!(text.contains("| conditional | depends on beta; see below |\n"), "{text}");
        assert!(text.contains("| reproduced | Short. |\n"), "{text}");
        assert!(text.ends_with(&format!("\n* **A**: {long}\n")), "{text}");
        assert_eq!(verdicts(&[&a, &b]), "Claims: 1 reproduced, 1 conditional");
    }

    #[test]
    fn texts_name_the_source_of_values() {
        let mut claim = claim("A", Verdict::Direction, "It has the paper's direction.");
        let text = claim_table("simulator", true, &[&claim]);
        assert!(text.starts_with("| claim | | simulator | measured |"), "{text}");
        assert!(text.contains("| 2 us | 3 us | direction | It has the simulator's direction. |"));
        let head = legend(std::slice::from_ref(&claim), "simulator");
        assert!(head.starts_with("Of 1 number that the simulators print, 0 rep"), "{head}");
        assert!(head.contains("in the simulator's direction") && !head.contains(DERIVED), "{head}");
        // Without any value, there is no column, and no sentence about numbers.
        claim.paper_value = None;
        let text = claim_table("criterion", false, &[&claim]);
        assert!(
            text.starts_with("| claim | | measured |") && !text.contains("no number"),
            "{text}"
        );
        let head = legend(&[claim], "criterion");
        assert!(head.starts_with("Of 1 ordering or trend without a number, 0"), "{head}");
    }

    #[test]
    fn page_begins_with_outdated_figures_and_headlines() {
        let figures =
            ["1", "2"].map(|name| FigureText { figure: name.to_owned(), ..FigureText::default() });
        let paper = PaperText {
            paper: "paper".to_owned(),
            title: "Paper".to_owned(),
            about: String::new(),
            history: String::new(),
            picture: "second".to_owned(),
            source: "paper".to_owned(),
            figures: figures.into(),
        };
        let pictures = ["first", "second"].map(|name| (name.to_owned(), format!("the {name}")));
        let claims =
            [claim("A", Verdict::Conditional, "Long."), claim("B", Verdict::Reproduced, "Short.")];
        let markdown = |claims: &[ClaimResult]| {
            Document {
                command: "tidegate".to_owned(),
                seeds: 1,
                papers: std::slice::from_ref(&paper),
                claims,
                drawn: Some(Drawn {
                    of: &|figure| if figure.figure == "1" { &pictures } else { &[] },
                    state: &|figure| match figure.figure.as_str() {
                        "2" => State::Outdated,
                        _ => State::Current,
                    },
                }),
            }
            .markdown()
        };
        let text = markdown(&claims);
        let expected = "# Reproduction: Paper\n\n**Partly outdated.** Figure 2 was measured with \
                        another version of the engine, of a protocol or of the scenario. \
                        `tidegate reproduce paper/2` measures again.\n\n\
                        ![the second](figures/second.svg)\n\n*the second*\n\n\
                        | claim | paper | accepted | measured | verdict | reason |\n\
                        |---|--:|--:|--:|---|---|\n\
                        | it is so (A, figure 1) | 2 us | 1 to 4 us | 3 us | **conditional** | \
                        depends on beta |\n\nOf the 2 numbers";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("(figures/first.svg)\n\n*the first*\n\n![the second]"), "{text}");
        let text = markdown(&claims[1..]);
        assert!(text.contains("|  | 1 | 1 | 0 | 0 | 0 |"), "verdicts by figure: {text}");
    }
}
