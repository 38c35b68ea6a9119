//! What several runs warn of, told once.

/// Warnings that are alike.
struct Kind {
    /// In what: the text without its numbers, and which one of those in a run it is.
    of: (String, usize),
    /// The run that has it first.
    place: String,
    text: String,
    /// How many runs have it, and whether they say the very same.
    count: usize,
    is_same: bool,
}

/// Of each run where it stands (`seed 3`) and what it warns of: all of that, where of warnings that
/// are alike but for their numbers the first is told, and how many more runs have one.
pub(crate) fn gathered(runs: &[(String, Vec<String>)]) -> Vec<String> {
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
    let told = |Kind { place, text, count, is_same, .. }: Kind| match count - 1 {
        _ if is_same && count == runs.len() => text,
        0 => format!("{place}: {text}"),
        more => format!("{place}, and {more} more much like it: {text}"),
    };
    kinds.into_iter().map(told).collect()
}

/// A text without the words in it that begin with a digit. Digits within words are of names.
fn without_numbers(text: &str) -> String {
    let is_number = |word: &&str| word.trim_start_matches(['(', '-']).starts_with(char::is_numeric);
    text.split_whitespace().filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(runs: &[(&str, &[&str])]) -> Vec<String> {
        let run = |(place, warnings): &(&str, &[&str])| {
            ((*place).to_owned(), warnings.iter().map(|text| (*text).to_owned()).collect())
        };
        gathered(&runs.iter().map(run).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_alike_but_for_numbers_is_told_once() {
        let runs: [(&str, &[&str]); 3] = [
            ("seed 3", &["always", "7 of 10 are late (3.5 %)", "4 more"]),
            ("seed 4", &["always", "5 more"]),
            ("seed 5", &["always", "9 of 11 are late (3 %)", "odd", "6 more"]),
        ];
        let expected = [
            "always",
            "seed 3, and 1 more much like it: 7 of 10 are late (3.5 %)",
            "seed 3, and 2 more much like it: 4 more",
            "seed 5: odd",
        ];
        assert_eq!(told(&runs), expected);
    }

    #[test]
    fn digits_of_names_tell_them_apart_and_so_does_one_run() {
        let both: &[&str] = &["rpc1: 9 late", "rpc2: 5 late", "7 x", "8 x"];
        assert_eq!(told(&[("seed 1", both)]), both);
        assert_eq!(told(&[("seed 1", both), ("seed 2", both)]), both);
    }
}
