//! `tidegate reproduce` and `tidegate report`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args as Group;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tidegate_workbench::{
    self as workbench, ClaimResult, Error, FigureScheme, FigureWidth, ReproduceOptions,
    Reproduction, Verdict,
};

use crate::format::{digits, shown};
use crate::grid::{drawn, new, prose};
use crate::interrupt::interrupt_flag;
use crate::options::{CacheArgs, THREADS_MAX, Verbosity, dilation, file, folder, whole};
use crate::output::pretty;
use crate::progress::Total;
use crate::{Result, emit, follow, print_stderr, style};

/// Options of `tidegate reproduce`.
#[derive(Debug, Group)]
pub(crate) struct Reproduce {
    /// A paper, or one of its figures: `paper/14` (default: every simulated figure). Live
    /// figures run only when named: kernel, testbeds and tide/live
    #[arg(value_name = "PAPER[/FIGURE]")]
    what: Option<String>,
    /// List figures and claims instead
    #[arg(long)]
    list: bool,
    /// Use one seed instead of three, and fewer points of some sweeps
    #[arg(long)]
    quick: bool,
    /// Also vary each setting that the paper does not specify, one at a time, and write how the
    /// claims change
    #[arg(long, requires = "out", conflicts_with = "list")]
    sensitivity: bool,
    /// Only list the figures with their runs and cached runs, and estimate the time
    #[arg(long, conflicts_with_all = ["list", "check"])]
    dry_run: bool,
    /// Write claims, figures and a report to this folder; it is created
    #[arg(long, value_name = "DIR", value_parser = folder())]
    out: Option<PathBuf>,
    /// Replace existing results in the folder
    #[arg(long, requires = "out")]
    force: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if a claim deviates
    #[arg(long)]
    check: bool,
    /// Maximum number of threads (default: one per core); results do not depend on it
    #[arg(long, value_name = "N")]
    #[arg(value_parser = whole::<1, THREADS_MAX, u16>, allow_negative_numbers = true)]
    threads: Option<u16>,
    /// Time dilation of live UDP runs: emulated time runs slower than the clock by this factor
    /// (default: chosen for this machine)
    #[arg(long, value_name = "N", value_parser = dilation())]
    dilation: Option<u32>,
    #[command(flatten)]
    kept: CacheArgs,
    #[command(flatten)]
    verbosity: Verbosity,
}

/// Options of `tidegate report`.
#[derive(Debug, Group)]
pub(crate) struct Report {
    /// Folders with results of runs, comparisons, sweeps, or a reproduction
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Write the page to this file (default: report.html in the first folder)
    #[arg(long, value_name = "FILE", value_parser = file())]
    out: Option<PathBuf>,
    /// Also write every figure as SVG to this folder; needs Chromium in PATH
    #[arg(long, value_name = "DIR", value_parser = folder())]
    svg: Option<PathBuf>,
    /// Also write the figures to this PDF, one per page; needs Chromium in PATH
    #[arg(long, value_name = "FILE", value_parser = file())]
    pdf: Option<PathBuf>,
    /// Also merge the figures of a reproduction into the documents in this folder: results, page
    /// and pictures; needs Chromium in PATH
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pages: Option<PathBuf>,
    /// Width of figures of --svg and --pdf: one column (3.33 in, the default) or the full page
    /// (7 in)
    #[arg(long, value_name = "WIDTH", value_parser = width())]
    width: Option<FigureWidth>,
    /// Colours of SVG figures: black on white, or the light or dark setting of the reader
    #[arg(long, value_name = "SCHEME", value_parser = scheme(), default_value = "light")]
    #[arg(requires = "svg")]
    scheme: FigureScheme,
    /// Serve the page over HTTP instead, and follow runs while they go on (default address:
    /// 127.0.0.1:8080)
    #[arg(
        long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:8080",
        value_parser = follow::address, conflicts_with_all = ["out", "svg", "pdf"]
    )]
    serve: Option<SocketAddr>,
}

fn width() -> impl TypedValueParser<Value = FigureWidth> {
    PossibleValuesParser::new(["column", "page"]).map(|name| match name.as_str() {
        "page" => FigureWidth::Page,
        _ => FigureWidth::Column,
    })
}

fn scheme() -> impl TypedValueParser<Value = FigureScheme> {
    PossibleValuesParser::new(["light", "auto"]).map(|name| match name.as_str() {
        "auto" => FigureScheme::Auto,
        _ => FigureScheme::Light,
    })
}

/// `327 runs, 131 of them cached; about 8 minutes on 2 threads of an idle machine, estimated …`
fn forecast_text(all: &workbench::Forecast) -> String {
    let kept = match all.kept {
        0 => String::new(),
        kept => format!(", {kept} of them cached"),
    };
    let minutes = all.seconds() / 60.0;
    let time = match minutes.round() {
        0.0 => "less than a minute".to_owned(),
        1.0 => "about 1 minute".to_owned(),
        minutes => format!("about {minutes} minutes"),
    };
    let threads = if all.threads == 1 { "thread" } else { "threads" };
    let estimated = match all.trials {
        0 => String::new(),
        1 => ", estimated from the beginning of 1 run".to_owned(),
        trials => format!(", estimated from the beginning of {trials} runs"),
    };
    format!(
        "{} runs{kept}; {time} on {} {threads} of an idle machine{estimated}",
        all.runs, all.threads
    )
}

/// Runs `tidegate reproduce`.
pub(crate) fn reproduce(args: &Reproduce) -> Result<String> {
    let what = args.what.as_deref();
    if args.list {
        let figures = workbench::figures(what)?;
        return Ok(if args.json { pretty(&figures) } else { list(&figures) });
    }
    let cache = args.kept.folder(args.verbosity)?;
    if args.dry_run {
        return dry_run(args, cache.as_deref());
    }
    let destination =
        args.out.as_ref().map(|out| workbench::Destination::open(out, args.force)).transpose()?;
    let total = Total::of(0, args.verbosity);
    let update = |step: &workbench::Step<'_>| {
        if args.verbosity.verbose {
            print_stderr(&format!("{} of {} runs: {}", step.done, step.all, step.name));
        }
        total.set(step);
    };
    let forecast = |all: &workbench::Forecast| print_stderr(&forecast_text(all));
    #[cfg(target_os = "linux")]
    let (host, controls) = (crate::testbed::program().ok(), crate::testbed::controls());
    #[cfg(not(target_os = "linux"))]
    let (host, controls) = (None::<std::path::PathBuf>, None);
    let options = ReproduceOptions {
        forecast: (!args.verbosity.quiet).then_some(&forecast),
        quick: args.quick,
        sensitivity: args.sensitivity,
        threads: args.threads.map(usize::from),
        dilation: args.dilation,
        cache: cache.as_deref(),
        host: host.as_deref(),
        controls,
        progress: Some(&update),
        interrupted: Some(interrupt_flag()),
    };
    let result = workbench::reproduce(what, &options);
    total.clear();
    let result = result?;
    if let Some(destination) = destination {
        let mut files = workbench::reproduction_files(&result);
        files.insert(0, workbench::reproduction_manifest(what, &options));
        destination.write(&files)?;
    }
    let mut text = if args.json { pretty(&result.claims) } else { table(&result) };
    if let Some(out) = args.out.as_ref().filter(|_| !args.json) {
        text.push_str(&format!(
            "\nThe figures and the report are in {}\n",
            shown(&out.display().to_string())
        ));
    }
    if args.check && !result.holds() {
        emit(&text);
        let deviating =
            result.claims.iter().filter(|claim| claim.verdict == Verdict::Deviates).count();
        return Err(Error::Run(format!("{deviating} of {} claims deviate", result.claims.len())));
    }
    Ok(text)
}

/// Lists figures with their runs, and the cost of all.
fn dry_run(args: &Reproduce, cache: Option<&Path>) -> Result<String> {
    let options = ReproduceOptions {
        quick: args.quick,
        sensitivity: args.sensitivity,
        threads: args.threads.map(usize::from),
        dilation: args.dilation,
        cache,
        ..ReproduceOptions::default()
    };
    let (figures, all) = workbench::forecast_reproduction(args.what.as_deref(), &options)?;
    if args.json {
        return Ok(pretty(&serde_json::json!({ "figures": figures, "total": all })));
    }
    let mut table = new(&["figure", "runs", "cached", "description"], 1);
    for figure in figures {
        table.add_row([
            format!("{}/{}", figure.paper, figure.figure),
            figure.runs.to_string(),
            figure.kept.to_string(),
            figure.title,
        ]);
    }
    Ok(format!("{}\n{}\n", drawn(&table), forecast_text(&all)))
}

/// Runs `tidegate report`.
pub(crate) fn report(args: &Report) -> Result<String> {
    if args.width.is_some() && args.svg.is_none() && args.pdf.is_none() {
        let message = "sets the width of SVG and PDF figures, but none are written: add --svg DIR \
                       or --pdf FILE";
        return Err(Error::Usage { option: "--width", message: message.to_owned() });
    }
    let figure_width = args.width.unwrap_or(FigureWidth::Column);
    if let Some(address) = args.serve {
        return follow::serve(address, &args.folders);
    }
    let warn = |warning: &str| print_stderr(&format!("warning: {warning}"));
    let page = workbench::report(&args.folders, &warn)?;
    let path = args.out.clone().unwrap_or_else(|| args.folders[0].join("report.html"));
    let shown = |path: &PathBuf| shown(&path.display().to_string());
    let mut text = String::new();
    // Figures come first: they fail if no browser is installed.
    if let Some(folder) = &args.svg {
        let count = workbench::write_svg(&page, figure_width, args.scheme, folder)?;
        let figures = if count == 1 { "figure is" } else { "figures are" };
        text.push_str(&format!("{count} {figures} in {}\n", shown(folder)));
    }
    if let Some(file) = &args.pdf {
        workbench::write_pdf(&page, figure_width, file)?;
        text.push_str(&format!("The figures are in {}\n", shown(file)));
    }
    if let Some(folder) = &args.pages {
        let [results] = &args.folders[..] else {
            let message = format!("expected one reproduction, found {}", args.folders.len());
            return Err(Error::Usage { option: "--pages", message });
        };
        let (width, scheme) = (FigureWidth::Screen, FigureScheme::Auto);
        let draw = |to: &Path| workbench::write_svg(&page, width, scheme, to).map(drop);
        workbench::publish(results, folder, draw)?;
        text.push_str(&format!("The document is in {}\n", shown(folder)));
    }
    workbench::write_report(&path, &page)?;
    Ok(text + &format!("The report is in {}\n", shown(&path)))
}

fn list(figures: &[workbench::FigureInfo]) -> String {
    let mut table = new(&["figure", "runs per seed", "description", "claims"], 4);
    for figure in figures {
        let name = format!("{}/{}", figure.paper, figure.figure);
        let claims = ranges(&figure.claims).join(", ");
        table.add_row([name, figure.runs.to_string(), figure.title.clone(), claims]);
    }
    drawn(&table)
}

/// Names with consecutive numbers as one: `incast.1` to `incast.40` become `incast.1-40`.
fn ranges(names: &[String]) -> Vec<String> {
    let number = |name: &String| {
        let (stem, number) = name.rsplit_once('.')?;
        Some((stem.to_owned(), number.parse::<u32>().ok()?))
    };
    let follows = |a: &String, b: &String| {
        let next = number(a).map(|(stem, number)| (stem, number + 1));
        next.is_some() && next == number(b)
    };
    let range = |names: &[String]| match (names, names.last().and_then(number)) {
        ([first, _, ..], Some((_, last))) => format!("{first}-{last}"),
        _ => names.concat(),
    };
    names.chunk_by(follows).map(range).collect()
}

/// The measured statements of figures without claims, in Markdown.
fn figure_texts(result: &Reproduction) -> String {
    let figures = result.papers.iter().flat_map(|paper| &paper.figures);
    let text = |figure: &workbench::FigureText| {
        let values = figure.values.join("\n\n");
        format!("Figure {}: {}\n\n{}\n\n{values}\n", figure.figure, figure.title, figure.about)
    };
    figures.map(text).collect::<Vec<_>>().join("\n")
}

fn table(result: &Reproduction) -> String {
    if result.claims.is_empty() {
        return figure_texts(result);
    }
    let is_same = |a: &ClaimResult, b: &ClaimResult| (&a.paper, &a.figure) == (&b.paper, &b.figure);
    let tables: String =
        result.claims.chunk_by(is_same).map(|claims| figure(result, claims)).collect();
    let is_any_derived = result.claims.iter().any(|claim| claim.derived);
    let derived = if is_any_derived { format!("{}\n", workbench::DERIVED) } else { String::new() };
    let n = "n is the number of seeds with different runs.";
    let text = prose(&format!("{tables}{derived}{n}\n{}\n", result.totals()));
    style::verdicts(&text)
}

/// The title of a figure and a table of its claims.
fn figure(result: &Reproduction, claims: &[ClaimResult]) -> String {
    let ClaimResult { paper, figure, .. } = &claims[0];
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), digits);
    let mut table = new(&["claim", "verdict", result.source(), "measured", "n", "unit", "text"], 7);
    for claim in claims {
        let paper = number(claim.paper_value);
        table.add_row([
            claim.claim.clone(),
            claim.verdict.name().to_owned(),
            if claim.derived { format!("({paper})") } else { paper },
            number(claim.measured),
            claim.seeds.count.to_string(),
            claim.unit.clone(),
            claim.text.clone(),
        ]);
    }
    let figures =
        result.papers.iter().filter(|text| text.paper == *paper).flat_map(|text| &text.figures);
    let title =
        figures.filter(|text| text.figure == *figure).map(|text| format!(": {}", text.title));
    format!("{paper}/{figure}{}\n{}\n", title.collect::<String>(), drawn(&table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_derived_values_in_parentheses() {
        let claim = |paper_value, derived| workbench::ClaimResult {
            paper: "p".to_owned(),
            figure: "1".to_owned(),
            claim: "c".to_owned(),
            sentence: "c".to_owned(),
            is_part: false,
            text: "it is so".to_owned(),
            paper_value: Some(paper_value),
            accepted: String::new(),
            derived,
            own: false,
            measured: Some(2.0),
            unit: String::new(),
            verdict: workbench::Verdict::Direction,
            as_chosen: workbench::Verdict::Direction,
            short: String::new(),
            why: String::new(),
            is_headline: false,
            seeds: workbench::Seeds { count: 1, least: None, most: None },
        };
        let of = |claims| table(&Reproduction { claims, ..Reproduction::default() });
        let both = of(vec![claim(1.77, true), claim(3.5, false)]);
        assert!(both.contains("(1.77)") && both.contains(workbench::DERIVED), "{both}");
        assert!(both.contains(" 3.50 ") && both.contains("Of 1 number"), "{both}");
        assert!(both.starts_with("p/1\nclaim  verdict"), "{both}");
        assert!(!of(vec![claim(3.5, false)]).contains('('));
    }

    #[test]
    fn ranges_of_consecutive_numbers() {
        let names = ["a.1", "a.2", "a.3", "b.1", "b.3", "P1a", "P1b", "c d.9", "c d.10"];
        let shown = ranges(&names.map(str::to_owned));
        assert_eq!(shown, ["a.1-3", "b.1", "b.3", "P1a", "P1b", "c d.9-10"]);
    }

    #[test]
    fn forecast_text_runs_and_time() {
        let of = |runs, kept, cpu_s, clock_s, threads| {
            let trials = if kept > 0 { 6 } else { threads - 1 };
            forecast_text(&workbench::Forecast { runs, kept, cpu_s, clock_s, threads, trials })
        };
        assert_eq!(
            of(327, 131, 960.0, 0.0, 2),
            "327 runs, 131 of them cached; about 8 minutes on 2 threads of an idle machine, \
             estimated from the beginning of 6 runs"
        );
        assert_eq!(of(2, 0, 58.0, 0.0, 1), "2 runs; about 1 minute on 1 thread of an idle machine");
        assert_eq!(
            of(2, 0, 10.0, 0.0, 1),
            "2 runs; less than a minute on 1 thread of an idle machine"
        );
        assert_eq!(
            of(3, 0, 60.0, 210.0, 2),
            "3 runs; about 4 minutes on 2 threads of an idle machine, estimated from the \
             beginning of 1 run"
        );
    }
}
