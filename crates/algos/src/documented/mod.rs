//! The examples of docs/adding-a-protocol.md, which are tested and are not in the catalog. `gentle`
//! is in the document verbatim: it compiles and keeps the contract of catalog entries, including
//! unique protocol information. `toy_credit` is the smallest transport.

#[allow(unreachable_pub, reason = "written for the catalog, which exports it")]
pub(crate) mod gentle;
#[allow(unreachable_pub, dead_code, reason = "written for the catalog, which exports it")]
mod toy_credit;

const DOCUMENT: &str = include_str!("../../../../docs/adding-a-protocol.md");
const EXAMPLE: &str = include_str!("gentle.rs");

#[test]
fn documented_example_equals_the_tested_one() {
    let blocks: alloc::vec::Vec<_> = DOCUMENT.split("```rust\n").skip(1).collect();
    let [block] = blocks[..] else { panic!("{} examples in Rust", blocks.len()) };
    let written = block.split("```").next().unwrap_or_default();
    assert!(
        written == EXAMPLE,
        "the example of docs/adding-a-protocol.md is not crates/algos/src/documented/gentle.rs: \
         copy the correct one over the other"
    );
}
