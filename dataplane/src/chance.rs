//! Jitter.

/// Within 0..=1.
pub(crate) fn random() -> f64 {
    getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX))
}
