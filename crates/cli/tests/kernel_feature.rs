//! `tidegate kernel` in a build without the feature `kernel`.

use crate::common::answer;

#[test]
fn build_without_kernel_programs_names_the_feature() {
    for args in [&["kernel"][..], &["kernel", "status", "--json"], &["kernel", "load", "--help"]] {
        answer(args).refused(2, &["--features kernel"]);
    }
}
