//! Digest of the results of a run.

use tidegate_core::mix64;

/// The digest `before`, extended by `values`.
pub(crate) fn extended(before: u64, values: impl IntoIterator<Item = u64>) -> u64 {
    let values = values.into_iter();
    values.fold(before, |digest, value| mix64(digest ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15))
}
