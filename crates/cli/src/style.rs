//! Colours of verdicts, warnings and errors. The streams of `anstream` remove them if they write to
//! no terminal, or if `NO_COLOR` is set.

use anstyle::{AnsiColor, Style};
use tidegate_workbench::Verdict;

const GOOD: Style = AnsiColor::Green.on_default();
const FAIR: Style = AnsiColor::Yellow.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// Beginnings of lines on stderr, with their colours.
const PREFIXES: [(&str, Style); 2] = [("tidegate:", BAD.bold()), ("warning:", FAIR.bold())];

/// All verdicts, with their colours.
const VERDICTS: [(Verdict, Style); 4] = [
    (Verdict::Reproduced, GOOD),
    (Verdict::Conditional, FAIR),
    (Verdict::Direction, FAIR),
    (Verdict::Deviates, BAD),
];

fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Colours the prefix of a message, if it has one.
pub(crate) fn message(line: &str) -> String {
    let rest =
        |(prefix, style): (&str, Style)| Some(paint(style, prefix) + line.strip_prefix(prefix)?);
    PREFIXES.into_iter().find_map(rest).unwrap_or_else(|| line.to_owned())
}

/// Colours the verdicts of tables: the cells whose whole text is the name of one.
pub(crate) fn verdicts(text: &str) -> String {
    let cell = |cell: &str| {
        let name = cell.trim();
        let verdict = VERDICTS.into_iter().find(|(verdict, _)| verdict.name() == name);
        verdict
            .map_or_else(|| cell.to_owned(), |(_, style)| cell.replace(name, &paint(style, name)))
    };
    let line = |line: &str| line.split("  ").map(cell).collect::<Vec<_>>().join("  ");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_prefixes() {
        assert_eq!(message("warning: full"), "\u{1b}[1m\u{1b}[33mwarning:\u{1b}[0m full");
        assert_eq!(message("tidegate: x"), "\u{1b}[1m\u{1b}[31mtidegate:\u{1b}[0m x");
        assert_eq!(message("a warning: b"), "a warning: b");
    }

    #[test]
    fn verdicts_only_whole_cells() {
        // Gaps of two and three blanks.
        let text = "claim  verdict   text\nC1     deviates   it deviates\n0 deviates\n";
        let red = text.replace("     deviates ", "     \u{1b}[31mdeviates\u{1b}[0m ");
        assert_eq!(verdicts(text), red);
    }
}
