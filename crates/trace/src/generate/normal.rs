//! The normal distribution and its inverse.

/// Returns the probability of a value below `deviate` (Abramowitz, Stegun: Handbook of Mathematical
/// Functions, 1964, 7.1.26; off by 7.5e-8 at most).
pub(super) fn below(deviate: f64) -> f64 {
    let x = deviate.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = ERF.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let half = 0.5 * series * (-x * x).exp();
    if deviate > 0.0 { 1.0 - half } else { half }
}

/// Returns the deviate below which a `share` of all values lies, by bisection between -8 and 8.
pub(super) fn deviate(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if below(middle) < share { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

const ERF: [f64; 5] = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree_with_tables() {
        for (at, share) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.959_964, 0.025), (3.090_232, 0.999)] {
            assert!((below(at) - share).abs() < 2e-7, "{at}: {}", below(at));
            assert!((deviate(share) - at).abs() < 1e-4, "{share}: {}", deviate(share));
        }
        assert!(deviate(0.0) <= -5.0 && deviate(1.0) >= 5.0);
    }
}
