//! Merges the warnings of several runs.

/// Warnings that differ only in their numbers.
struct Kind {
    /// The text without its numbers, and its index among equal texts in one run.
    of: (String, usize),
    /// The run that has it first.
    place: String,
    text: String,
    /// Number of runs that have it.
    count: usize,
    /// Their texts are identical.
    is_same: bool,
}

/// Merges warnings. `runs` holds each run's name (`seed 3`) and warnings. Of warnings that differ
/// only in their numbers, the result holds the first, and the number of other runs that have a
/// similar one.
pub fn gathered(runs: &[(String, Vec<String>)]) -> Vec<String> {
    let mut kinds: Vec<Kind> = Vec::new();
    for (place, warnings) in runs {
        let mut of_run: Vec<String> = Vec::new();
        for text in warnings {
            let alike = without_numbers(text);
            let before = of_run.iter().filter(|other| **other == alike).count();
            of_run.push(alike.clone());
            let of = (alike, before);
            match kinds.iter_mut().find(|known| known.of == of) {
                Some(known) => {
                    known.count += 1;
                    known.is_same &= known.text == *text;
                }
                None => kinds.push(Kind {
                    of,
                    place: place.clone(),
                    text: text.clone(),
                    count: 1,
                    is_same: true,
                }),
            }
        }
    }
    let text_of = |Kind { place, text, count, is_same, .. }: Kind| match count - 1 {
        _ if is_same && count == runs.len() => text,
        0 => format!("{place}: {text}"),
        more => format!("{place}, and {more} similar: {text}"),
    };
    kinds.into_iter().map(text_of).collect()
}

/// The text without words that begin with a digit. Digits inside words belong to names.
fn without_numbers(text: &str) -> String {
    let is_number = |word: &&str| word.trim_start_matches(['(', '-']).starts_with(char::is_numeric);
    text.split_whitespace().filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(runs: &[(&str, &[&str])]) -> Vec<String> {
        let run = |(place, warnings): &(&str, &[&str])| {
            ((*place).to_owned(), warnings.iter().map(|text| (*text).to_owned()).collect())
        };
        gathered(&runs.iter().map(run).collect::<Vec<_>>())
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
        assert_eq!(merged(&runs), expected);
    }

    #[test]
    fn digits_inside_names_are_significant() {
        let both: &[&str] = &["rpc1: 9 late", "rpc2: 5 late", "7 x", "8 x"];
        assert_eq!(merged(&[("seed 1", both)]), both);
        assert_eq!(merged(&[("seed 1", both), ("seed 2", both)]), both);
    }
}
