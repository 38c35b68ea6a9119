//! A choice, and values that exclude each other. An example.
use alloc::string::String;

use tidegate_core::{Span, choice, params};

choice! {
    /// How to grow.
    pub enum Growth { Steps = "steps", Doubling = "doubling" }
}

params! {
    /// Parameters of Gentle.
    pub struct GentleParams {
        /// How it grows.
        growth: Growth = Growth::Steps, "our choice";
        /// Longest wait between two steps.
        wait: Span = Span::us(40), within Span::us(1) => Span::ms(1), "our choice";
    }
    conflict = growth_and_wait;
}

fn growth_and_wait(params: &GentleParams) -> Option<String> {
    let both = params.growth == Growth::Doubling && params.wait > Span::us(100);
    both.then(|| "doubling waits for 100us at most".into())
}
