//! The examples of docs/adding-a-protocol.md, which are tested and are not in the catalog. `gentle`
//! and `choices` are in the document verbatim. `gentle` keeps the contract of catalog entries,
//! including unique protocol information. `toy_credit` is the smallest transport.

#[allow(unreachable_pub, dead_code, reason = "written for the catalog, which exports it")]
mod choices;
#[allow(unreachable_pub, reason = "written for the catalog, which exports it")]
pub(crate) mod gentle;
#[allow(unreachable_pub, dead_code, reason = "written for the catalog, which exports it")]
mod toy_credit;

const DOCUMENT: &str = include_str!("../../../../docs/adding-a-protocol.md");
const EXAMPLES: [(&str, &str); 2] =
    [("gentle.rs", include_str!("gentle.rs")), ("choices.rs", include_str!("choices.rs"))];

#[test]
fn documented_examples_equal_the_tested_ones() {
    // rustdoc ignores the second: its import of `alloc` needs a crate without `std`, as here.
    let blocks: alloc::vec::Vec<_> = DOCUMENT.split("```rust").skip(1).collect();
    assert_eq!(blocks.len(), EXAMPLES.len(), "examples in Rust");
    for (block, (file, example)) in blocks.iter().zip(EXAMPLES) {
        let (_, code) = block.split_once('\n').unwrap_or_default();
        let written = code.split("```").next().unwrap_or_default();
        assert!(
            written == example,
            "the example of docs/adding-a-protocol.md is not crates/algos/src/documented/{file}: \
             copy the correct one over the other"
        );
    }
}

#[test]
fn documented_conflict_is_reported() {
    use tidegate_core::{Span, params::Params};
    let conflict = |growth, us| {
        let wait = Span::us(us);
        choices::GentleParams { growth, wait }.conflict()
    };
    assert_eq!(conflict(choices::Growth::Doubling, 100), None);
    assert_eq!(conflict(choices::Growth::Steps, 101), None);
    assert!(conflict(choices::Growth::Doubling, 101).is_some());
}
