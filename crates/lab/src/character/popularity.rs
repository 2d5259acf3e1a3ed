//! Decline of popularity: counts by rank, the Zipf exponent with the error of its fit, and objects
//! with one request.

use shoal_trace::Trace;

/// The popularity of a trace's objects.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Popularity {
    /// The exponent: minus the slope of log count on log rank, by least squares. The ranks lie at
    /// even steps of their logarithm, so that the many objects of one request do not outweigh the
    /// rest.
    pub alpha: f64,
    /// The standard error of the slope.
    pub alpha_error: f64,
    /// The share of the variance of log counts that the line explains (R²).
    pub fit: f64,
    /// Share of objects with one request.
    pub one_hit_objects: f64,
    /// Share of requests that go to objects with one request.
    pub one_hit_requests: f64,
    /// Shares of the most popular objects, each with the share of requests for them.
    pub concentration: Vec<(f64, f64)>,
    /// (rank, count) at even steps of the rank's logarithm.
    pub curve: Vec<(f64, f64)>,
    /// Requests for each object.
    pub counts: Vec<u32>,
}

impl Popularity {
    /// Computes the popularity of a trace's objects.
    pub fn of(trace: &Trace) -> Self {
        let mut counts = vec![0u32; trace.objects().len()];
        trace.requests().iter().for_each(|request| counts[request.object as usize] += 1);
        let mut sorted = counts.clone();
        sorted.retain(|count| *count > 0);
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let mut ranks: Vec<usize> = (0..STEPS).map(|step| 1.04f64.powi(step) as usize).collect();
        ranks.dedup();
        let count = |rank: usize| Some((rank as f64, f64::from(*sorted.get(rank - 1)?)));
        let curve: Vec<(f64, f64)> = ranks.into_iter().filter_map(count).collect();
        let logs: Vec<(f64, f64)> = curve.iter().map(|(rank, count)| (rank.ln(), count.ln())).collect();
        let line = Line::through(&logs);
        let once = sorted.iter().filter(|count| **count == 1).count() as f64;
        let (objects, requests) = (sorted.len().max(1) as f64, trace.requests().len().max(1) as f64);
        let concentration = CONCENTRATION
            .into_iter()
            .map(|part| {
                let top = (sorted.len() as f64 * part).ceil() as usize;
                (
                    part,
                    sorted[..top.min(sorted.len())].iter().map(|count| f64::from(*count)).sum::<f64>()
                        / requests,
                )
            })
            .collect();
        Self {
            alpha: -line.slope,
            alpha_error: line.slope_error,
            fit: line.explained,
            one_hit_objects: once / objects,
            one_hit_requests: once / requests,
            concentration,
            curve,
            counts,
        }
    }
}

/// A line by least squares.
struct Line {
    slope: f64,
    slope_error: f64,
    explained: f64,
}

impl Line {
    fn through(points: &[(f64, f64)]) -> Self {
        let count = points.len() as f64;
        let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count.max(1.0);
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for point in points {
            let (across, up) = (point.0 - x, point.1 - y);
            xx += across * across;
            xy += across * up;
            yy += up * up;
        }
        if xx == 0.0 {
            return Self { slope: 0.0, slope_error: 0.0, explained: 0.0 };
        }
        let slope = xy / xx;
        let unexplained = (yy - slope * xy).max(0.0);
        let slope_error = if count > 2.0 { (unexplained / (count - 2.0) / xx).sqrt() } else { 0.0 };
        let explained = if yy > 0.0 { 1.0 - unexplained / yy } else { 1.0 };
        Self { slope, slope_error, explained }
    }
}

/// Steps of the ranks in the fit: up to 1.04^600, beyond any trace.
const STEPS: i32 = 600;
/// Shares of the objects in `concentration`.
const CONCENTRATION: [f64; 4] = [0.001, 0.01, 0.1, 0.5];
