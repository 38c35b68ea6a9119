//! The examples of docs/adding-a-protocol.md, which are tested and are not in the catalog. `gentle`
//! stands in the document: it compiles, and keeps the contract of the catalog's entries, its card
//! beside theirs too. `toy_credit` is a transport to read first.

#[allow(unreachable_pub, reason = "written for the catalog, which exports it")]
pub(crate) mod gentle;
#[allow(unreachable_pub, dead_code, reason = "written for the catalog, which exports it")]
mod toy_credit;

const DOCUMENT: &str = include_str!("../../../../docs/adding-a-protocol.md");
const EXAMPLE: &str = include_str!("gentle.rs");

mod contract_of_the_example {
    crate::contract::congestion_control!(crate::documented::gentle::Gentle);
}

#[test]
fn the_example_of_the_document_is_the_one_that_is_tested() {
    let blocks: alloc::vec::Vec<_> = DOCUMENT.split("```rust\n").skip(1).collect();
    let [block] = blocks[..] else { panic!("{} examples in Rust", blocks.len()) };
    let written = block.split("```").next().unwrap_or_default();
    assert!(
        written == EXAMPLE,
        "the example of docs/adding-a-protocol.md is not crates/algos/src/documented/gentle.rs: \
         copy the one that is right over the other"
    );
}
