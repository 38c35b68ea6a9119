//! Names with wildcards: `*` for any text, `?` for one character, `[0-15]` for a whole number in
//! that range.

/// A piece of a pattern.
#[derive(Clone)]
enum Piece {
    Char(char),
    AnyChar,
    AnyText,
    Number(u64, u64),
}

impl Piece {
    fn text(&self) -> String {
        match self {
            Piece::Char(c) => c.to_string(),
            Piece::AnyChar => "?".into(),
            Piece::AnyText => "*".into(),
            Piece::Number(low, high) if low == high => low.to_string(),
            Piece::Number(low, high) => format!("[{low}-{high}]"),
        }
    }
}

fn pieces(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if let Some((low, high, after)) = rest.strip_prefix('[').and_then(range) {
            pieces.push(Piece::Number(low, high));
            rest = after;
            continue;
        }
        pieces.push(match first {
            '*' => Piece::AnyText,
            '?' => Piece::AnyChar,
            other => Piece::Char(other),
        });
        rest = &rest[first.len_utf8()..];
    }
    pieces
}

/// `0-15]rest` as (0, 15, "rest").
fn range(text: &str) -> Option<(u64, u64, &str)> {
    let (inside, rest) = text.split_once(']')?;
    let (low, high) = inside.split_once('-')?;
    Some((low.parse().ok()?, high.parse().ok()?, rest))
}

/// A parsed pattern.
pub struct Glob(Vec<Piece>);

impl Glob {
    /// Parses a pattern. Any text is valid.
    pub fn new(pattern: &str) -> Glob {
        Glob(pieces(pattern))
    }

    /// Whether it contains a `[` that does not begin a range. No name contains `[`, so this is a
    /// mistake.
    pub fn is_open(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Char('[')))
    }

    /// Returns the expected value in an error about a pattern that matches nothing. `names`
    /// describes what it could match.
    pub(crate) fn expected(&self, names: String) -> String {
        let is_reversed = |piece: &Piece| matches!(piece, Piece::Number(low, high) if low > high);
        if self.is_open() {
            "a range such as [0-15]: a [ must begin one".into()
        } else if self.0.iter().any(is_reversed) {
            "the smaller number of a range first, such as [0-15]: the range is reversed".into()
        } else {
            names
        }
    }

    /// Returns the pattern with the end of a range in place of the range, if it matches none of
    /// `names`: `h39` for `h[20-39]` if the last host is h23.
    pub(crate) fn beyond(&self, names: &[impl AsRef<str>]) -> Option<String> {
        let ends = (0..self.0.len()).filter_map(|at| match self.0[at] {
            Piece::Number(_, high) => {
                let mut end = self.0.clone();
                end[at] = Piece::Number(high, high);
                Some(Glob(end))
            }
            _ => None,
        });
        let mut beyond = ends.filter(|end| !names.iter().any(|name| end.matches(name.as_ref())));
        beyond.next().map(|end| end.0.iter().map(Piece::text).collect())
    }

    /// Whether the whole of `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut piece, mut at) = (0, 0);
        // Backtracking extends only the last `*`: (index of the piece after it, end of its text).
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let step = match self.0.get(piece) {
                None if at == name.len() => return true,
                Some(Piece::AnyText) => {
                    piece += 1;
                    retry = Some((piece, at));
                    continue;
                }
                None => None,
                Some(Piece::Char(c)) => (name.get(at) == Some(c)).then_some(1),
                Some(Piece::AnyChar) => (at < name.len()).then_some(1),
                Some(Piece::Number(low, high)) => number(&name, at, *low, *high),
            };
            match (step, &mut retry) {
                (Some(chars), _) => {
                    piece += 1;
                    at += chars;
                }
                (None, Some((after, reach))) if *reach < name.len() => {
                    *reach += 1;
                    (piece, at) = (*after, *reach);
                }
                (None, _) => return false,
            }
        }
    }
}

/// Returns the length of the number at `at` if it is in range and is not the tail of a longer
/// number.
fn number(name: &[char], at: usize, low: u64, high: u64) -> Option<usize> {
    if at > 0 && name[at - 1].is_ascii_digit() {
        return None;
    }
    let digits: String = name[at..].iter().take_while(|c| c.is_ascii_digit()).collect();
    let value: u64 = digits.parse().ok()?;
    (low <= value && value <= high).then_some(digits.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match() {
        for (pattern, yes, no) in [
            ("h*", "h12", "tor1"),
            ("*1", "tor11", "tor10"),
            ("t?r0", "tor0", "tr0"),
            ("h[4-7]", "h5", "h8"),
            ("h[4-7]", "h4", "h40"),
            ("*[1-9]", "h9", "h12"),
            ("a[1-2]b[3-4]", "a2b3", "a2b5"),
            ("h0", "h0", "h01"),
            (
                "*a*a*a*a*a*a*a*b",
                "aaaaaaaaab",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            ),
            ("[1-2", "[1-2", "1"),
            ("*", "", "-"),
        ] {
            assert!(Glob::new(pattern).matches(yes), "{pattern} {yes}");
            assert!(pattern == "*" || !Glob::new(pattern).matches(no), "{pattern} {no}");
        }
    }

    #[test]
    fn ranges_beyond_the_names_are_found() {
        let names = ["a0b0", "a0b1", "a1b0", "h2", "h10"].map(str::to_owned);
        for (pattern, beyond) in [
            ("h[2-10]", None),
            ("h[0-10]", None),
            ("h[3-11]", Some("h11")),
            ("h*", None),
            ("a[0-1]b[0-1]", None),
            ("a[0-1]b[0-2]", Some("a[0-1]b2")),
            ("?[0-9]*[0-1]", Some("?9*[0-1]")),
        ] {
            assert_eq!(Glob::new(pattern).beyond(&names).as_deref(), beyond, "{pattern}");
        }
    }

    #[test]
    fn brackets_without_range_are_open() {
        let open = ["h[0-9", "h[", "h[a-b]", "h[1]", "h[1-2]b[3"];
        assert!(open.iter().all(|pattern| Glob::new(pattern).is_open()));
        assert!(["h[0-9]", "h*", "a[1-2]b[3-4]"].iter().all(|good| !Glob::new(good).is_open()));
    }
}
