//! What the first pages tell people to type is typed here, as they stand there, twice.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// Blocks of code of a language, one after the other.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("```{language}\n");
    let blocks = text.split(&start).skip(1);
    blocks.map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// The calls of the program in a document's blocks, those over several lines joined.
fn calls(text: &str) -> Vec<String> {
    let joined = blocks(text, "sh").join("\n").replace("\\\n", " ");
    joined.lines().filter(|line| line.starts_with("tidegate ")).map(str::to_owned).collect()
}

/// Shells that people use, as far as they are here: each expands unquoted brackets in its own way.
fn shells() -> Vec<&'static str> {
    let is_here = |shell: &&str| Command::new(shell).args(["-c", "true"]).status().is_ok();
    ["sh", "bash", "zsh"].into_iter().filter(is_here).collect()
}

/// Types the lines into a shell whose `tidegate` is ours, in a folder of theirs.
fn typed(shell: &str, lines: &[String], folder: &TempDir) {
    let program = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for line in lines {
        let mut command = Command::new(shell);
        command.args(["-c", line]).current_dir(folder).env("PATH", &path);
        let answer = command.env("XDG_CACHE_HOME", folder.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&answer.stderr);
        assert!(answer.status.success(), "{shell}: {line}\n{stderr}");
    }
}

/// What is shorter in the scenario so that the whole tutorial takes seconds; commands are as they
/// stand there.
fn shortened(scenario: &str) -> String {
    let long =
        ["duration = \"5ms\"", "warmup = \"1ms\"", "drain = \"20ms\"", "interval = \"500us\""];
    let short =
        ["duration = \"300us\"", "warmup = \"50us\"", "drain = \"1ms\"", "interval = \"100us\""];
    long.iter().zip(short).fold(scenario.to_owned(), |text, (long, short)| {
        assert!(text.contains(long), "the scenario has no {long}");
        text.replace(long, short)
    })
}

#[test]
fn the_tutorial_can_be_typed_twice() {
    let text = document("docs/tutorial.md");
    let lines = calls(&text);
    assert!(lines.len() > 8, "{lines:?}");
    let scenario =
        blocks(&text, "toml").into_iter().find(|block| block.contains("duration")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.toml"), shortened(scenario)).unwrap();
    typed("sh", &lines, &folder);
    for file in
        ["results/mine/flows.parquet", "results/compare", "report.html", "results/figure-14"]
    {
        assert!(folder.path().join(file).exists(), "{file} is not there");
    }
    typed("sh", &lines, &folder);
}

#[test]
fn the_commands_of_the_readme_can_be_typed_twice() {
    let lines = calls(&document("README.md"));
    assert!(lines.len() > 5, "{lines:?}");
    let folder = tempfile::tempdir().unwrap();
    typed("sh", &lines, &folder);
    typed("sh", &lines, &folder);
}

#[test]
fn no_shell_changes_what_is_typed() {
    for name in ["README.md", "docs/tutorial.md", "docs/sweeps.md", "docs/captures.md"] {
        for line in calls(&document(name)) {
            // Up to where the output goes, or a remark.
            let as_words = line
                .split(" #")
                .next()
                .unwrap()
                .split(" > ")
                .next()
                .unwrap()
                .replace("tidegate", "printf '%s\\n'");
            let said = |shell: &&str| {
                let answer = Command::new(shell).args(["-c", &as_words]).output().unwrap();
                assert!(answer.status.success(), "{shell}: {line}");
                answer.stdout
            };
            let plain: Vec<String> =
                as_words.split_whitespace().skip(2).map(|word| word.replace('\'', "")).collect();
            let plain = plain.join("\n") + "\n";
            for shell in shells() {
                assert_eq!(String::from_utf8_lossy(&said(&shell)), plain, "{shell}: {line}");
            }
            // Where zsh is not here: what it would expand stands in quotes.
            let bare: String = line.split('\'').step_by(2).collect();
            assert!(!bare.contains(['[', '*', '?', '{']), "{line}");
        }
    }
}
