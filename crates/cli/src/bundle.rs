//! `tidegate bundle` and `tidegate verify`.

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::Args as Group;
use tidegate_workbench::{self as workbench, Error, FileVerdict, RepeatOptions};

use crate::format::shown;
use crate::interrupt::interrupt_flag;
use crate::options::{THREADS_MAX, Verbosity, file, whole};
use crate::progress::Total;
use crate::{Result, emit, print_stderr};

/// Options of `tidegate bundle`.
#[derive(Debug, Group)]
pub(crate) struct Bundle {
    /// Folder of results of `run`, `compare`, `sweep` or `reproduce`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write the archive to this file, whose name ends in .zip
    #[arg(long, value_name = "FILE", value_parser = file())]
    out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// Options of `tidegate verify`.
#[derive(Debug, Group)]
pub(crate) struct Verify {
    /// Archive that `tidegate bundle` has written, packed or unpacked, or a folder of results
    #[arg(value_name = "BUNDLE")]
    path: PathBuf,
    /// Maximum number of threads (default: one per core); results do not depend on it
    #[arg(
        long, value_name = "N", allow_negative_numbers = true,
        value_parser = whole::<1, THREADS_MAX, u64>
    )]
    threads: Option<u64>,
    /// Print no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Runs `tidegate bundle`.
pub(crate) fn bundle(args: &Bundle) -> Result<String> {
    let bundled = workbench::bundle(&args.folder, &args.out, args.force)?;
    if !bundled.left_out.is_empty() {
        let names = bundled.left_out.join(", ");
        print_stderr(&format!("warning: not in the bundle, because they are no results: {names}"));
    }
    let path = shown(&args.out.display().to_string());
    let counted = |count: usize| format!("{count} {}", if count == 1 { "file" } else { "files" });
    let files = counted(bundled.files);
    let inputs = match bundled.inputs {
        0 => String::new(),
        count => format!(" {} that scenarios name,", counted(count)),
    };
    let scenarios = match bundled.scenarios {
        0 => String::new(),
        1 => " 1 scenario,".to_owned(),
        count => format!(" {count} scenarios,"),
    };
    Ok(format!(
        "The bundle is in {path}: {files} of results,{inputs}{scenarios} a report, and a README\n\
         To repeat the runs and compare the files: tidegate verify {path}\n"
    ))
}

/// Runs `tidegate verify`.
pub(crate) fn verify(args: &Verify) -> Result<String> {
    let verbosity = Verbosity { quiet: args.quiet, verbose: false };
    let total: OnceLock<Total> = OnceLock::new();
    let of = |runs| total.get_or_init(|| Total::of(runs, verbosity));
    let begin = |runs: usize| {
        of(runs);
    };
    let update = |number: usize, progress: &workbench::Progress| of(1).update(number, progress);
    let step = |step: &workbench::Step<'_>| of(0).set(step);
    #[cfg(target_os = "linux")]
    let host = crate::testbed::program().ok();
    #[cfg(not(target_os = "linux"))]
    let host: Option<PathBuf> = None;
    let options = RepeatOptions {
        threads: args.threads.map(|threads| threads as usize),
        host: host.as_deref(),
        begin: Some(&begin),
        progress: Some(&update),
        step: Some(&step),
        interrupted: Some(interrupt_flag()),
    };
    let result = workbench::verify(&args.path, &options);
    if let Some(total) = total.get() {
        total.clear();
    }
    let files = result?.files;
    let line = |(name, verdict): &(String, FileVerdict)| {
        let verdict = match verdict {
            FileVerdict::Same => "same".to_owned(),
            FileVerdict::Differs(first) => format!("differs: {first}"),
            FileVerdict::NotCompared(why) => format!("not compared: {why}"),
        };
        shown(&format!("{name}: {verdict}")) + "\n"
    };
    let text: String = files.iter().map(line).collect();
    let is_different =
        |(_, verdict): &&(String, FileVerdict)| matches!(verdict, FileVerdict::Differs(_));
    let count = files.len();
    let differing = files.iter().filter(is_different).count();
    if differing > 0 {
        emit(&text);
        return Err(Error::Run(format!("{differing} of {count} files differ")));
    }
    let same = files.iter().filter(|(_, verdict)| *verdict == FileVerdict::Same).count();
    let files = |count: usize| if count == 1 { "file is" } else { "files are" };
    let end = match count - same {
        0 => format!("All {same} {} the same.", files(same)),
        other => {
            let were = if other == 1 { "1 was" } else { &format!("{other} were") };
            format!("{same} {} the same, {were} not compared.", files(same))
        }
    };
    Ok(text + &end + "\n")
}
