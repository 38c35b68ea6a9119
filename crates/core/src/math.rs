//! The few real functions that algorithms use, from one pinned version of `libm`.
//!
//! For a few per cent of inputs, the standard library's `ln` and `exp` differ in the last bit
//! between platforms, so runs on two machines would diverge.

/// Natural logarithm.
#[inline]
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}
/// e to the power `x`.
#[inline]
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}
/// `x` to the power `y`.
#[inline]
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}
/// Square root (correctly rounded on every platform).
#[inline]
pub fn sqrt(x: f64) -> f64 {
    libm::sqrt(x)
}
/// Nearest whole number; halves are rounded away from zero.
#[inline]
pub fn round(x: f64) -> f64 {
    libm::round(x)
}
/// Largest whole number not above `x`.
#[inline]
pub fn floor(x: f64) -> f64 {
    libm::floor(x)
}
