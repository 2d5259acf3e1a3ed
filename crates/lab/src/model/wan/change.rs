//! Lifetimes of documents between changes, and the probability that a request finds the cached
//! version still valid.
//!
//! A document is requested at rate r, and a cache that keeps everything holds the version of the
//! last request. The next request finds the version valid when no change came between. With changes
//! as a renewal process of intervals T this is
//!
//! ```text
//!     P(valid) = 1 − (1 − E[e^−rT]) / (r·E[T])    (intervals of one document vary: Law::Within)
//!     P(valid) = E[ r·T / (1 + r·T) ]             (T is each document's own mean: Law::Between)
//!     P(valid) = r·T / (1 + r·T)                  (all alike: the dissertation's model)
//! ```
//!
//! where 1 − P is the Laplace transform of the time to the next change seen from a random moment.
//! Lognormal intervals that vary more than exponential ones lift the first, at the same mean.
//! Pareto ones do so for rarely requested documents, while their least interval costs the others a
//! little. By Jensen's inequality any spread lowers the second. A cache that evicts a document τ
//! after its last request cuts each integral off at τ.
//!
//! Expectations over T are sums over quadrature nodes made once: 1 for exponential intervals, about
//! 100 for lognormal ones, up to 900 for Pareto ones.

use super::WanError;
use super::popularity::each_node;

/// Changes of documents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// 1/μ: mean interval between two changes of a document, in days. Infinite: never; 0: before
    /// every request.
    pub mean_days: f64,
    /// Distribution of the intervals about the mean.
    pub law: Law,
}

/// Distributions of intervals between changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Exponentially, with the same mean for every document: the dissertation's assumption.
    Exponential,
    /// Each document's intervals are exponential, and the documents' means have this tail.
    Between(Tail),
    /// All documents are alike, and the intervals of each have this tail.
    Within(Tail),
}

/// A heavy-tailed distribution of a given mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tail {
    /// Lognormal, by its median in days, at most the mean.
    LogNormal {
        /// Median interval, in days.
        median_days: f64,
    },
    /// Pareto: P(T > t) = (t₀/t)^shape for t ≥ t₀.
    Pareto {
        /// Shape, at least 1.1: below it the mean depends on intervals that nobody has seen.
        shape: f64,
    },
}

impl Change {
    /// Creates exponential intervals of this mean, in days.
    pub const fn every(mean_days: f64) -> Self {
        Self { mean_days, law: Law::Exponential }
    }

    /// The names of the laws.
    pub const LAWS: [&str; 5] =
        ["exponential", "lognormal-between", "lognormal-within", "pareto-between", "pareto-within"];

    /// Creates intervals of this mean, in days, by the name of their law. `tail` is the mean over
    /// the median of lognormal intervals (10 where it is not given), or the shape of Pareto ones
    /// (1.2).
    pub fn named(mean_days: f64, law: &str, tail: Option<f64>) -> Option<Self> {
        let (kind, place) = law.split_once('-').unwrap_or((law, ""));
        let tail = match kind {
            "lognormal" => Tail::LogNormal { median_days: mean_days / tail.unwrap_or(10.0) },
            _ => Tail::Pareto { shape: tail.unwrap_or(1.2) },
        };
        let law = match (kind, place) {
            ("exponential", "") => Law::Exponential,
            ("lognormal" | "pareto", "between") => Law::Between(tail),
            ("lognormal" | "pareto", "within") => Law::Within(tail),
            _ => return None,
        };
        Some(Self { mean_days, law })
    }

    pub(super) fn prepared(self) -> Result<Validity, WanError> {
        if self.mean_days.is_nan() || self.mean_days < 0.0 {
            return Err(WanError::NotAQuantity {
                what: "the interval between changes",
                found: self.mean_days,
            });
        }
        let degenerate = self.mean_days == 0.0 || self.mean_days.is_infinite();
        let (law, tail) = match self.law {
            Law::Exponential => return Ok(Validity::alike(self.mean_days)),
            Law::Between(tail) => (IntervalKind::Exponential, tail),
            Law::Within(tail) => (IntervalKind::Fixed, tail),
        };
        tail.check(self.mean_days)?;
        if degenerate {
            return Ok(Validity::alike(self.mean_days));
        }
        Ok(Validity { kind: law, nodes: tail.nodes(self.mean_days) })
    }
}

impl Tail {
    fn check(self, mean_days: f64) -> Result<(), WanError> {
        let error = match self {
            Self::LogNormal { median_days } => {
                let fits = median_days > 0.0 && median_days <= mean_days;
                (!fits).then_some(WanError::Median { median_days, mean_days })
            }
            Self::Pareto { shape } => {
                (!(LEAST_SHAPE..=1e3).contains(&shape)).then_some(WanError::Shape { found: shape })
            }
        };
        error.map_or(Ok(()), Err)
    }

    /// Returns intervals and their probabilities.
    fn nodes(self, mean_days: f64) -> Vec<(f64, f64)> {
        let mut nodes = Vec::new();
        match self {
            Self::LogNormal { median_days } => {
                // mean = median · e^(σ²/2); beyond nine deviations, counted by documents or by
                // days, nothing is left
                let deviation = (2.0 * (mean_days / median_days).ln()).max(0.0).sqrt();
                each_node(-9.0, 9.0 + deviation, 3.0, &mut |z, weight| {
                    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
                    nodes.push((median_days * (deviation * z).exp(), weight * density));
                });
            }
            Self::Pareto { shape } => {
                // ln(T/t₀) is exponential of mean 1/shape; the days beyond the end are e^−40 of all
                let (least, bias) = (mean_days * (1.0 - 1.0 / shape), 1.0 - 1.0 / shape);
                each_node(0.0, 40.0 / bias, 8.0, &mut |log, weight| {
                    nodes.push((least * (log / shape).exp(), weight * (-log).exp()));
                });
            }
        }
        nodes
    }
}

/// The probability that a cached version is valid, prepared for many rates.
#[derive(Clone, Debug)]
pub(super) struct Validity {
    kind: IntervalKind,
    /// Mean or fixed intervals in days, each with its probability.
    nodes: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, Debug)]
enum IntervalKind {
    /// Each node is the mean of exponential intervals.
    Exponential,
    /// Each node is an interval.
    Fixed,
}

impl Validity {
    fn alike(mean_days: f64) -> Self {
        Self { kind: IntervalKind::Exponential, nodes: vec![(mean_days, 1.0)] }
    }

    /// Returns the probability that a request finds a valid version. The document is requested
    /// `per_day` times a day and evicted after `kept_days` without a request, which may be
    /// infinite. 0 for a document without requests.
    pub fn valid(&self, per_day: f64, kept_days: f64) -> f64 {
        if per_day <= 0.0 {
            return 0.0;
        }
        debug_assert!(kept_days >= 0.0, "kept for {kept_days} days");
        debug_assert!(!self.nodes.is_empty(), "a law has a node at least");
        match self.kind {
            IntervalKind::Exponential => {
                let each = |(mean, weight): &(f64, f64)| weight * exponential(per_day, *mean, kept_days);
                self.nodes.iter().map(each).sum()
            }
            IntervalKind::Fixed => {
                let (mut valid, mut mean) = (0.0, 0.0);
                for (interval, weight) in &self.nodes {
                    valid += weight * fixed(per_day * interval, per_day * kept_days.min(*interval));
                    mean += weight * per_day * interval;
                }
                valid / mean
            }
        }
    }
}

/// Returns r/(r+μ) · (1 − e^−(r+μ)τ).
fn exponential(per_day: f64, mean_days: f64, kept_days: f64) -> f64 {
    if mean_days == 0.0 {
        return 0.0;
    }
    let change = 1.0 / mean_days;
    let kept = if kept_days.is_infinite() { 1.0 } else { -(-(per_day + change) * kept_days).exp_m1() };
    per_day / (per_day + change) * kept
}

/// Returns r·∫ from 0 to c of r·e^−rt·(T − t) dt, for x = rT and y = rc.
fn fixed(x: f64, y: f64) -> f64 {
    if y < 1e-4 {
        // The closed form loses as many figures as y has zeros.
        return y * (x - x * y / 2.0 - y / 2.0 + y * y / 3.0);
    }
    let gone = -(-y).exp_m1();
    let left = if y.is_infinite() { 0.0 } else { y * (-y).exp() };
    (x - 1.0) * gone + left
}

const LEAST_SHAPE: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::*;

    fn valid(law: Law, per_day: f64, kept: f64) -> f64 {
        Change { mean_days: 10.0, law }.prepared().expect("a law").valid(per_day, kept)
    }

    #[test]
    fn laws_agree_where_they_must() {
        let same = Tail::LogNormal { median_days: 10.0 };
        for rate in [1e-9, 1e-3, 0.1, 3.0, 1e6] {
            let alike = valid(Law::Exponential, rate, f64::INFINITY);
            assert!((alike - rate / (rate + 0.1)).abs() <= 1e-12 * alike);
            let between = valid(Law::Between(same), rate, f64::INFINITY);
            assert!((between - alike).abs() < 1e-9 * alike, "a tail of no width: {between} {alike}");
            // intervals of exactly ten days: 1 − (1 − e^−10r) / 10r
            let within = valid(Law::Within(same), rate, f64::INFINITY);
            let x = 10.0 * rate;
            let exact = if x < 1e-4 { x / 2.0 - x * x / 6.0 } else { 1.0 + (-x).exp_m1() / x };
            assert!((within - exact).abs() < 1e-9 * exact, "{within} {exact}");
        }
    }

    #[test]
    fn heavy_tails_help_within_and_hurt_between() {
        for tail in [Tail::LogNormal { median_days: 1.0 }, Tail::Pareto { shape: 1.2 }] {
            for rate in [0.01, 0.1, 1.0] {
                let alike = valid(Law::Exponential, rate, f64::INFINITY);
                // Pareto intervals have a least one, and so lose to exponential ones where requests
                // are frequent
                let helps = rate < 1.0 || matches!(tail, Tail::LogNormal { .. });
                assert_eq!(
                    valid(Law::Within(tail), rate, f64::INFINITY) > alike,
                    helps,
                    "{tail:?} at {rate}"
                );
                assert!(valid(Law::Between(tail), rate, f64::INFINITY) < alike, "{tail:?} at {rate}");
            }
        }
    }

    #[test]
    fn means_come_out_and_giving_up_cuts_off() {
        for tail in [Tail::LogNormal { median_days: 1.0 }, Tail::Pareto { shape: 1.2 }] {
            let nodes = tail.nodes(10.0);
            let of = |term: fn(&(f64, f64)) -> f64| nodes.iter().map(term).sum::<f64>();
            assert!((of(|(_, weight)| *weight) - 1.0).abs() < 1e-9, "{tail:?}");
            assert!((of(|(days, weight)| days * weight) - 10.0).abs() < 1e-6, "{tail:?}");
            for law in [Law::Exponential, Law::Between(tail), Law::Within(tail)] {
                let kept = [0.0, 0.1, 1.0, 10.0, 1e4, f64::INFINITY].map(|kept| valid(law, 0.5, kept));
                assert!(kept[0] == 0.0 && kept.is_sorted() && kept[4] - kept[5] < 1e-9, "{law:?} {kept:?}");
            }
        }
        assert_eq!(Change::every(0.0).prepared().expect("always").valid(5.0, 1.0), 0.0);
        assert_eq!(Change::every(f64::INFINITY).prepared().expect("never").valid(5.0, f64::INFINITY), 1.0);
    }

    #[test]
    fn laws_that_are_none_are_refused() {
        let change = |mean_days, law| Change { mean_days, law }.prepared().map(|_| ());
        assert!(matches!(change(f64::NAN, Law::Exponential), Err(WanError::NotAQuantity { .. })));
        assert!(matches!(change(-1.0, Law::Exponential), Err(WanError::NotAQuantity { .. })));
        let median = |median_days| Law::Within(Tail::LogNormal { median_days });
        for wrong in [0.0, 11.0, f64::NAN] {
            assert!(matches!(change(10.0, median(wrong)), Err(WanError::Median { .. })), "{wrong}");
        }
        for shape in [1.0, f64::NAN, f64::INFINITY] {
            let law = Law::Between(Tail::Pareto { shape });
            assert!(matches!(change(10.0, law), Err(WanError::Shape { .. })));
        }
    }
}
