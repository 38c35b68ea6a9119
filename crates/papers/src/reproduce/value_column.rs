//! The column with the values of a source, and the words for it.

use super::{ClaimResult, Seeds};
use tidegate_runs::numbers::{digits, with_unit};

/// A reason with the name of the source in place of the paper.
pub(crate) fn worded(reason: &str, source: &str) -> String {
    reason.replace("the paper's direction", &format!("the {source}'s direction"))
}

/// Whether any claim of a paper has a value of its source.
pub(crate) fn has_values(claims: &[&ClaimResult]) -> bool {
    claims.iter().any(|claim| claim.paper_value.is_some())
}

/// Head and rule of the column with the values of the source; empty if it states none.
pub(super) fn values_head(source: &str, has_values: bool) -> [String; 2] {
    [format!(" {source} |"), "--:|".to_owned()]
        .map(|cell| if has_values { cell } else { String::new() })
}

/// The cell of a claim in this column.
pub(super) fn values_cell(claim: &ClaimResult, has_values: bool) -> String {
    if has_values { format!(" {} |", paper_value(claim)) } else { String::new() }
}

/// A claim's value in the paper as text.
pub(crate) fn paper_value(claim: &ClaimResult) -> String {
    if claim.paper_value.is_none() {
        "no number".to_owned()
    } else {
        let value = with_unit(claim.paper_value, &claim.unit);
        if claim.derived { format!("({value})") } else { value }
    }
}

/// A claim's measured value as text.
pub(crate) fn measured(claim: &ClaimResult) -> String {
    let value = with_unit(claim.measured, &claim.unit);
    match claim.seeds {
        Seeds { count: 2.., least: Some(least), most: Some(most) } => {
            format!("{value} [{} to {}]", digits(least), digits(most))
        }
        _ => value,
    }
}
