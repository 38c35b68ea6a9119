//! Prefetch hints to the processor. They have no effect on results.

/// Prefetches `items[index]`. The index may be out of range.
#[inline(always)]
#[allow(
    unsafe_code,
    reason = "no safe function of the standard library does this; it saves a fifth of a large \
              run's time"
)]
pub(crate) fn prefetch<T>(items: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction needs SSE, which every x86-64 has. It is a hint about an address,
        // whatever the address: it neither faults nor reads or writes a value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().wrapping_add(index).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}
