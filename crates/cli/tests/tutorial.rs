//! Runs the commands of the first documents literally in shells, twice.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// The code blocks of a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("```{language}\n");
    let blocks = text.split(&start).skip(1);
    blocks.map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// The calls of the program in code blocks, with continued lines joined.
fn calls(text: &str) -> Vec<String> {
    let joined = blocks(text, "sh").join("\n").replace("\\\n", " ");
    joined.lines().filter(|line| line.starts_with("tidegate ")).map(str::to_owned).collect()
}

/// Installed common shells: each expands unquoted brackets differently.
fn shells() -> Vec<&'static str> {
    let is_here = |shell: &&str| Command::new(shell).args(["-c", "true"]).status().is_ok();
    ["sh", "bash", "zsh"].into_iter().filter(is_here).collect()
}

/// Runs lines in a shell with our `tidegate`, in a given folder.
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

/// Replaces values of a scenario so that a whole document takes seconds.
fn shortened(scenario: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(scenario.to_owned(), |text, (long, short)| {
        assert!(text.contains(long), "the scenario has no {long}");
        text.replace(long, short)
    })
}

#[test]
fn tutorial_runs_twice() {
    let text = document("docs/tutorial.md");
    let mut lines = calls(&text);
    assert!(lines.len() > 8, "{lines:?}");
    // One seed instead of three tests the command as well.
    let figure = lines.iter_mut().find(|line| line.contains(" reproduce poseidon/14 ")).unwrap();
    figure.push_str(" --quick");
    let scenario =
        blocks(&text, "toml").into_iter().find(|block| block.contains("duration")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let values = [
        ("duration = \"5ms\"", "duration = \"300us\""),
        ("warmup = \"1ms\"", "warmup = \"50us\""),
        ("drain = \"20ms\"", "drain = \"1ms\""),
        ("interval = \"500us\"", "interval = \"100us\""),
    ];
    fs::write(folder.path().join("mine.toml"), shortened(scenario, &values)).unwrap();
    typed("sh", &lines, &folder);
    for file in
        ["results/mine/flows.parquet", "results/compare", "report.html", "results/figure-14"]
    {
        assert!(folder.path().join(file).exists(), "{file} is not there");
    }
    typed("sh", &lines, &folder);
}

#[test]
fn readme_commands_run_twice() {
    let lines = calls(&document("README.md"));
    assert!(lines.len() > 5, "{lines:?}");
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine.toml");
    // The first command writes the scenario. A fraction of its length tests the commands as well.
    let values = [("duration = \"10ms\"", "duration = \"400us\""), ("\"2ms\"", "\"100us\"")];
    for _ in 0..2 {
        typed("sh", &lines[..1], &folder);
        fs::write(&mine, shortened(&fs::read_to_string(&mine).unwrap(), &values)).unwrap();
        typed("sh", &lines[1..], &folder);
    }
}

#[test]
fn shell_quoting() {
    for name in ["README.md", "docs/tutorial.md", "docs/sweeps.md", "docs/captures.md"] {
        for line in calls(&document(name)) {
            // The call up to a redirection or a remark.
            let as_words = line
                .split(" #")
                .next()
                .unwrap()
                .split(" > ")
                .next()
                .unwrap()
                .replace("tidegate", "printf '%s\\n'");
            let printed = |shell: &&str| {
                let answer = Command::new(shell).args(["-c", &as_words]).output().unwrap();
                assert!(answer.status.success(), "{shell}: {line}");
                answer.stdout
            };
            let plain: Vec<String> =
                as_words.split_whitespace().skip(2).map(|word| word.replace('\'', "")).collect();
            let plain = plain.join("\n") + "\n";
            for shell in shells() {
                assert_eq!(String::from_utf8_lossy(&printed(&shell)), plain, "{shell}: {line}");
            }
            // Without zsh: characters that it would expand must be quoted.
            let bare: String = line.split('\'').step_by(2).collect();
            assert!(!bare.contains(['[', '*', '?', '{']), "{line}");
        }
    }
}
