//! Merges the warnings of several runs.

/// Warnings that differ only in their numbers.
struct Kind {
    /// The text without its numbers, and its index among equal texts in one run.
    of: (String, usize),
    /// The runs that have it, with their texts.
    each: Vec<(String, String)>,
}

/// Similar warnings of several runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The first of them, and the number of other runs that have a similar one.
    pub text: String,
    /// The runs and their warnings, if there are several that `text` does not state completely.
    pub each: Vec<(String, String)>,
}

/// Merges warnings. `runs` holds each run's name (`seed 3`) and warnings. Of warnings that differ
/// only in their numbers, the result holds the first, and the number of other runs that have a
/// similar one.
pub fn gathered(runs: &[(String, Vec<String>)]) -> Vec<String> {
    merged(runs).into_iter().map(|of| of.text).collect()
}

/// Merges warnings as [`gathered`], and keeps the text of each run.
pub fn merged(runs: &[(String, Vec<String>)]) -> Vec<Merged> {
    let mut kinds: Vec<Kind> = Vec::new();
    for (place, warnings) in runs {
        let mut of_run: Vec<String> = Vec::new();
        for text in warnings {
            let alike = without_numbers(text);
            let before = of_run.iter().filter(|other| **other == alike).count();
            of_run.push(alike.clone());
            let of = (alike, before);
            let one = (place.clone(), text.clone());
            match kinds.iter_mut().find(|known| known.of == of) {
                Some(known) => known.each.push(one),
                None => kinds.push(Kind { of, each: vec![one] }),
            }
        }
    }
    let merged = |Kind { each, .. }: Kind| {
        let (place, text) = &each[0];
        let is_same = each.iter().all(|(_, other)| other == text);
        match each.len() - 1 {
            _ if is_same && each.len() == runs.len() => {
                Merged { text: text.clone(), each: Vec::new() }
            }
            0 => Merged { text: format!("{place}: {text}"), each: Vec::new() },
            more => Merged { text: format!("{place}, and {more} similar: {text}"), each },
        }
    };
    kinds.into_iter().map(merged).collect()
}

/// The text without words that begin with a digit. Digits inside words belong to names.
fn without_numbers(text: &str) -> String {
    let is_number = |word: &&str| word.trim_start_matches(['(', '-']).starts_with(char::is_numeric);
    text.split_whitespace().filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(runs: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
        let run = |(place, warnings): &(&str, &[&str])| {
            ((*place).to_owned(), warnings.iter().map(|text| (*text).to_owned()).collect())
        };
        runs.iter().map(run).collect()
    }

    #[test]
    fn similar_warnings_are_merged() {
        let runs: [(&str, &[&str]); 3] = [
            ("seed 3", &["always", "7 of 10 are late (3.5 %)", "4 more"]),
            ("seed 4", &["always", "5 more"]),
            ("seed 5", &["always", "9 of 11 are late (3 %)", "odd", "6 more"]),
        ];
        let expected = [
            "always",
            "seed 3, and 1 similar: 7 of 10 are late (3.5 %)",
            "seed 3, and 2 similar: 4 more",
            "seed 5: odd",
        ];
        assert_eq!(gathered(&owned(&runs)), expected);
        let each: Vec<Vec<(String, String)>> =
            merged(&owned(&runs)).into_iter().map(|of| of.each).collect();
        let texts = |of: &[(&str, &str)]| -> Vec<(String, String)> {
            of.iter().map(|(place, text)| ((*place).to_owned(), (*text).to_owned())).collect()
        };
        let late = [("seed 3", "7 of 10 are late (3.5 %)"), ("seed 5", "9 of 11 are late (3 %)")];
        let more = [("seed 3", "4 more"), ("seed 4", "5 more"), ("seed 5", "6 more")];
        assert_eq!(each, [vec![], texts(&late), texts(&more), vec![]]);
    }

    #[test]
    fn digits_inside_names_are_significant() {
        let both: &[&str] = &["rpc1: 9 late", "rpc2: 5 late", "7 x", "8 x"];
        assert_eq!(gathered(&owned(&[("seed 1", both)])), both);
        assert_eq!(gathered(&owned(&[("seed 1", both), ("seed 2", both)])), both);
    }
}
