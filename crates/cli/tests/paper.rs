//! The paper counts the verdicts that the pages of reproductions state, cites what its bibliography
//! has, and is as long as its journal permits.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Titles of the pages in the table, and their folders.
const PAGES: [(&str, &str); 12] = [
    ("Poseidon", "poseidon"),
    ("PowerTCP", "powertcp"),
    ("SIRD", "sird"),
    ("Homa", "homa"),
    ("dcPIM", "dcpim"),
    ("reTCP", "etalon"),
    ("NDP", "ndp"),
    ("EQDS", "eqds"),
    ("Ultra Ethernet", "uet"),
    ("testbeds", "testbeds"),
    ("kernel", "kernel"),
    ("authors", "authors"),
];

const END: &str = "\n<!-- End of the generated table. -->";

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(root(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The ten counts at the head of a page: numbers and orderings of papers, in all and by verdict.
fn counts(page: &str) -> Vec<u32> {
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let of = |is_head: fn(&str) -> bool| -> Vec<u32> {
        // A page without any of a kind does not state their number.
        let Some((_, sentence)) = page
            .match_indices("Of ")
            .map(|(at, start)| (at, page[at + start.len()..].split('.').next().unwrap()))
            .find(|(_, sentence)| sentence.contains(" reproduced, ") && is_head(sentence))
        else {
            return vec![0; 5];
        };
        let words = sentence.split(|letter: char| !letter.is_ascii_digit());
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let numbers = of(|sentence| sentence.contains("s print, "));
    [numbers, of(|sentence| sentence.contains(" without a number, "))].concat()
}

#[test]
fn counts_are_read_from_a_page() {
    let page = "x\nOf the 2 numbers that the papers print, 1 reproduced, 1 conditional, 0 in\n\
                direction, 0 deviate. Of 1 ordering or trend without a number, 1 reproduced, 0\n\
                conditional, 0 in direction, 0 deviate. Several readings count once, 7.";
    assert_eq!(counts(page), [2, 1, 1, 0, 0, 1, 1, 0, 0, 0]);
    let (numbers, _) = page.split_once(" Of 1").unwrap();
    assert_eq!(counts(numbers), [2, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn paper_counts_verdicts_of_pages() {
    let mut rows = String::new();
    for (title, folder) in PAGES {
        let page = text(&format!("docs/papers/{folder}/reproduction.md"));
        let counts = counts(&page);
        for all in counts.chunks(5) {
            assert_eq!(all[0], all[1..].iter().sum::<u32>(), "{folder}: {counts:?}");
        }
        let mark = if page.contains("**Partly outdated.**") { " \\*" } else { "" };
        let cells: Vec<String> = counts.iter().map(u32::to_string).collect();
        rows += &format!("| {title}{mark} | {} |\n", cells.join(" | "));
    }
    let paper = text("paper/paper.md");
    let (before, _) = paper.split_once(END).expect("the end of the table");
    let start = before.rfind("--:|\n").expect("the head of the table") + "--:|\n".len();
    if std::env::var_os("UPDATE").is_some() {
        let after = &paper[before.len()..];
        fs::write(root("paper/paper.md"), format!("{}{rows}{after}", &paper[..start])).unwrap();
    } else {
        let now = &before[start..];
        assert!(now == rows, "paper/paper.md: UPDATE=1 cargo test --test main paper::\n{rows}");
    }
}

/// Numbers that are compared with those of the simulators whose names begin with one of `of`.
fn compared_with(page: &str, of: &[&str]) -> u32 {
    let rows =
        page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once("'s simulator: "));
    let own = rows.filter(|(simulator, _)| of.contains(simulator));
    own.map(|(_, row)| row.split(" | ").nth(1).unwrap().parse::<u32>().unwrap()).sum()
}

#[test]
fn paper_counts_comparisons_of_the_page() {
    let page = text("docs/papers/authors/reproduction.md");
    let own = compared_with(&page, &["SIRD", "PowerTCP"]);
    let consortium = compared_with(&page, &["Ultra Ethernet"]);
    assert_eq!(own + consortium, counts(&page)[0]);
    let paper = text("paper/paper.md").split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        format!("{own} numbers of SIRD's and PowerTCP's own simulators,"),
        format!("{consortium} of the Ultra Ethernet consortium's,"),
    ] {
        assert!(paper.contains(&expected), "paper/paper.md: {expected}");
    }
}

/// Claims that the registry states one by one; comparisons with numbers of simulators have a table.
#[test]
fn paper_counts_claims_without_a_control() {
    let mut without = Vec::new();
    for folder in fs::read_dir(root("crates/papers/src/reproduce")).unwrap() {
        let Ok(files) = fs::read_dir(folder.unwrap().path()) else { continue };
        let paths = files.map(|file| file.unwrap().path());
        for path in paths.filter(|path| path.extension().is_some_and(|kind| kind == "toml")) {
            let registry = fs::read_to_string(&path).unwrap();
            for claim in registry.split("\n[[claim]]\n").skip(1) {
                let claim = claim.split("\n[[").next().unwrap();
                let has = |start: &str| claim.lines().any(|line| line.starts_with(start));
                if !has("control = ") && !has("[claim.control]") && !has("own = true") {
                    let name = claim.lines().find_map(|line| line.strip_prefix("name = "));
                    without.push(name.unwrap().trim_matches('"').to_owned());
                }
            }
        }
    }
    without.sort();
    assert_eq!(without, ["M7", "M8"]);
    assert!(text("paper/paper.md").contains("All claims of papers but two have a control"));
    assert!(text("docs/design/measures.md").contains("except M7 and M8 of Ultra"));
    let page = text("docs/papers/uet/reproduction.md");
    assert!(page.contains("M7 and M8 have no control."));
}

/// The README and the paper name the papers whose text was not available, as their pages do.
#[test]
fn sources_of_papers_are_stated() {
    let (mut without, mut with) = (0, 0);
    for (_, folder) in &PAGES[..9] {
        let page = text(&format!("docs/papers/{folder}/reproduction.md"));
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_unavailable = page.contains("text of the paper was not available");
        // The page on Ultra Ethernet lists four papers.
        match *folder {
            "uet" => without += page.matches("(arXiv ").count(),
            _ if is_unavailable => without += 1,
            _ => with += 1,
        }
        let names_source = page.contains("The column \"source\" holds");
        assert_eq!(names_source, is_unavailable || *folder == "uet", "{folder}");
    }
    assert_eq!((with, without), (5, 7));
    for (name, with, without) in [
        ("README.md", "The text of five papers was", "For seven others (dcPIM,"),
        ("paper/paper.md", "The text of five papers was", "For seven others, values"),
    ] {
        let text = text(name).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(with) && text.contains(without), "{name}");
    }
}

#[test]
fn citations_are_those_of_the_bibliography() {
    let (paper, bibliography) = (text("paper/paper.md"), text("paper/paper.bib"));
    let keys = paper.split("[@").skip(1).map(|rest| rest.split(']').next().unwrap());
    let cited: BTreeSet<&str> = keys.collect();
    let entries = bibliography.lines().filter(|line| line.starts_with('@'));
    let listed: BTreeSet<&str> =
        entries.filter_map(|line| line.split_once('{')?.1.strip_suffix(',')).collect();
    assert_eq!(cited, listed);
}

#[test]
fn figures_of_the_paper_exist() {
    let paper = text("paper/paper.md");
    let files: Vec<_> =
        paper.split("](../").skip(1).filter_map(|rest| rest.split_once(')')).collect();
    assert!(!files.is_empty());
    assert!(files.iter().all(|(file, _)| root(file).exists()), "{files:?}");
}

#[test]
fn paper_has_the_length_and_sections_of_its_journal() {
    let paper = text("paper/paper.md");
    let (_, body) = paper.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap();
    let prose = body.lines().filter(|line| !line.starts_with(['|', '<', '#']));
    let words: usize = prose.map(|line| line.split_whitespace().count()).sum();
    // The journal permits 750 to 1,750 words; the aim is about 1,000.
    assert!((750..=1100).contains(&words), "{words} words");
    let required = [
        "Summary",
        "Statement of need",
        "State of the field",
        "Software design",
        "Research impact statement",
        "AI usage disclosure",
        "References",
    ];
    for section in required {
        assert!(body.contains(&format!("\n# {section}\n")), "no section {section}");
    }
}
