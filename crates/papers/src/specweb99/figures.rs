//! Figures 1.1 to 1.8, by the model; 1.6 to 1.8 with the characteristic time beside it.

use super::Set;
use shoal_lab::figure::{Axis, Chart, Figure, Mark, Plot, Series, Shape, Unit};
use shoal_lab::model::specweb99::analytic::{Analytic, REUSE};
use shoal_lab::model::specweb99::{FileCacheResult, PathLength, RateDerivation, che, memory_megabytes};
use shoal_lab::report::{Claim, Finding, Section};
use shoal_trace::generate::specweb99::FileSet;

pub(super) fn section(sets: &[Set]) -> Section {
    let swept: Vec<CacheSweep> = sets.iter().map(CacheSweep::of).collect();
    let needed: Vec<NeededShare> = sets.iter().map(NeededShare::of).collect();
    Section {
        anchor: "figures".into(),
        title: "Figures 1.1 to 1.8".into(),
        question: "How do hit ratio, disk and throughput go with the cached share of the file set?".into(),
        figures: vec![
            memory(),
            figure(&swept, "figure-1-2", "Transfers a second by hit ratio", (SweptQuantity::HitRatio, SweptQuantity::Transfers)),
            figure(&swept, "figure-1-3", "Megabytes a second by hit ratio", (SweptQuantity::HitRatio, SweptQuantity::Megabytes)),
            figure(&swept, "figure-1-4", "Transfers a second by cached share", (SweptQuantity::Cached, SweptQuantity::Transfers)),
            figure(&swept, "figure-1-5", "Megabytes a second by cached share", (SweptQuantity::Cached, SweptQuantity::Megabytes)),
            figure(&swept, "figure-1-6", "Hit ratio by cached share", (SweptQuantity::Cached, SweptQuantity::HitRatio)),
            fraction_needed(&needed),
            figure(&swept, "figure-1-8", "Share of the throughput by cached share", (SweptQuantity::Cached, SweptQuantity::Throughput)),
        ],
        findings: findings(sets, &needed),
        notes: vec![
            "Disk and throughput are those of the restored reading. A line of its own, \u{201c}estimate\u{201d}, is the characteristic time at the largest target \
             throughput drawn. The model is made for hit ratios above 0.7 or so; it is drawn from 2 to 40% cached."
                .into(),
            "Figure 1.1's line is Eq. 1.3. The files alone take 5.119 MB a directory, 1.02 λ + 128 MB, which the text rounds to 125 + λ."
                .into(),
        ],
        ..Section::default()
    }
}

/// A quantity of a swept cache size.
#[derive(Clone, Copy, PartialEq)]
enum SweptQuantity {
    Cached,
    HitRatio,
    Transfers,
    Megabytes,
    Throughput,
}

impl SweptQuantity {
    fn axis(self) -> Axis {
        match self {
            Self::Cached => Axis::linear("share of the file set in the cache", Unit::Share).over(0.0, 0.4),
            Self::HitRatio => Axis::linear("file hit ratio", Unit::Share).over(0.7, 1.0),
            Self::Transfers => Axis::linear("transfers from disk a second", Unit::Count),
            Self::Megabytes => Axis::linear("MB from disk a second", Unit::Count),
            Self::Throughput => Axis::linear("share of the target throughput", Unit::Share).over(0.9, 1.0),
        }
    }

    fn of(self, cached: f64, outcome: &FileCacheResult, throughput: f64) -> f64 {
        match self {
            Self::Cached => cached,
            Self::HitRatio => outcome.hit_ratio,
            Self::Transfers => outcome.transfers * throughput,
            Self::Megabytes => outcome.bytes_read * throughput / 1e6,
            Self::Throughput => PathLength::default().throughput(outcome),
        }
    }
}

/// Model and estimate over growing caches.
struct CacheSweep {
    throughput: f64,
    model: Vec<(f64, FileCacheResult)>,
    time: Vec<(f64, FileCacheResult)>,
}

impl CacheSweep {
    fn of(set: &Set) -> Self {
        let all = set.ranked.total_bytes();
        let model = |share: f64| set.ranked.solve(share * all, REUSE).outcome(RateDerivation::Restored);
        let swept = Self {
            throughput: set.throughput,
            model: SHARES.iter().map(|share| (*share, model(*share))).collect(),
            time: SHARES.iter().map(|share| (*share, che::outcome(&set.population, share * all))).collect(),
        };
        swept.invariants();
        swept
    }

    /// Checks that hit ratios are shares, and that a larger cache hits no less.
    fn invariants(&self) {
        for points in [&self.model, &self.time] {
            assert!(points.iter().all(|point| (0.0..=1.0).contains(&point.1.hit_ratio)), "a hit ratio");
            assert!(points.iter().all(|point| point.1.transfers >= 0.0), "transfers are no credit");
        }
        let grows = |pair: &[(f64, FileCacheResult)]| pair[0].1.hit_ratio <= pair[1].1.hit_ratio + 1e-9;
        assert!(self.time.windows(2).all(grows), "LRU hits more with more room");
    }

    fn series(
        &self,
        name: String,
        points: &[(f64, FileCacheResult)],
        (x, y): (SweptQuantity, SweptQuantity),
    ) -> Series {
        let place = |(share, outcome): &(f64, FileCacheResult)| {
            (x.of(*share, outcome, self.throughput), y.of(*share, outcome, self.throughput))
        };
        let drawn = |point: &(f64, f64)| x != SweptQuantity::HitRatio || point.0 >= 0.7;
        let points = points.iter().map(place).filter(drawn).collect();
        Series { name, shape: Shape::Curve, points }
    }
}

fn figure(swept: &[CacheSweep], name: &str, title: &str, axes: (SweptQuantity, SweptQuantity)) -> Figure {
    let label = |swept: &CacheSweep| format!("λ {}", Unit::Count.shown(swept.throughput));
    let mut series: Vec<Series> = swept.iter().map(|set| set.series(label(set), &set.model, axes)).collect();
    if let Some(last) = swept.last() {
        series.push(last.series("estimate".into(), &last.time, axes));
    }
    let plot = Plot { x: axes.0.axis(), y: axes.1.axis(), series, marks: Vec::new() };
    let alternative = match axes {
        (_, SweptQuantity::Transfers | SweptQuantity::Megabytes) => {
            "The disk's work falls steeply at first and little beyond 15% cached."
        }
        _ => "A tenth of the file set answers more than nine accesses in ten.",
    };
    Figure::new(name, title, alternative, Chart::Plot(plot))
}

/// Returns Figure 1.1.
fn memory() -> Figure {
    let throughputs = || (0..=20).map(|step| f64::from(step) * 500.0);
    let all = throughputs().map(|throughput| (throughput, memory_megabytes(throughput))).collect();
    let files =
        throughputs().map(|throughput| (throughput, FileSet::for_throughput(throughput).bytes() / 1e6));
    let series = vec![
        Series { name: "all memory (1.3)".into(), shape: Shape::Curve, points: all },
        Series { name: "files".into(), shape: Shape::Curve, points: files.collect() },
    ];
    let plot = Plot {
        x: Axis::linear("target throughput, operations a second", Unit::Count),
        y: Axis::linear("MB", Unit::Count),
        series,
        marks: vec![Mark::Level { y: 4096.0, label: "4 GB: a 32-bit machine".into() }],
    };
    Figure::new(
        "figure-1-1",
        "Memory that caches every file",
        "It grows linearly, and passes 4 GB at some 3,700 operations a second.",
        Chart::Plot(plot),
    )
}

/// Cached share that keeps 95% of the target throughput.
struct NeededShare {
    throughput: f64,
    model: f64,
    time: f64,
}

impl NeededShare {
    fn of(set: &Set) -> Self {
        let path = PathLength::default();
        let all = set.ranked.total_bytes();
        let model = |share: f64| {
            path.throughput(&set.ranked.solve(share * all, REUSE).outcome(RateDerivation::Restored))
        };
        let time = |time: f64| path.throughput(&che::after(&set.population, time));
        // The search is over the logarithm: times span orders of magnitude.
        let time = halved((0.0, 25.0), |exponent| time(exponent.exp())).exp();
        let (model, time) = (halved((0.0, 1.0), model), che::room(&set.population, time) / all);
        assert!((0.0..=1.0).contains(&model), "the model needs {model} of the file set");
        assert!((0.0..=1.0 + 1e-9).contains(&time), "the estimate needs {time} of the file set");
        Self { throughput: set.throughput, model, time }
    }
}

/// Returns the point where a growing function reaches [`KEPT`].
fn halved((mut low, mut high): (f64, f64), of: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..30 {
        let middle = (low + high) / 2.0;
        debug_assert!(low <= middle && middle <= high, "the search keeps its bounds");
        if of(middle) < KEPT { low = middle } else { high = middle }
    }
    high
}

/// Returns Figure 1.7.
fn fraction_needed(needed: &[NeededShare]) -> Figure {
    let series = |name: &str, of: fn(&NeededShare) -> f64| Series {
        name: name.into(),
        shape: Shape::Dotted,
        points: needed.iter().map(|needed| (needed.throughput, of(needed))).collect(),
    };
    let plot = Plot {
        x: Axis::log10("target throughput, operations a second", Unit::Count),
        y: Axis::linear("cached share for 95% of the throughput", Unit::Share),
        series: vec![series("model", |needed| needed.model), series("estimate", |needed| needed.time)],
        marks: vec![Mark::Point { at: (80_000.0, 0.045), label: "paper: 4.5%".into() }],
    };
    let alternative = "The share falls as the file set grows, since its popularity becomes more skewed.";
    Figure::new("figure-1-7", "Cached share for 95% of the target throughput", alternative, Chart::Plot(plot))
}

fn findings(sets: &[Set], needed: &[NeededShare]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let path = PathLength::default();
    if let Some(least) = needed.first() {
        let what = "cached share for 95% of the throughput, the smallest set";
        let claim = Claim::AtMost(0.09);
        let found = [Some(least.model), Some(least.time)];
        findings.push(Finding::new("fraction-95-small", what, Unit::Share, claim).found(&found));
    }
    if let Some(most) = needed.iter().find(|needed| needed.throughput == 80_000.0) {
        let found = [Some(most.model), Some(most.time)];
        let what = "the same at 80,000 operations a second";
        findings.push(Finding::new("fraction-95-80000", what, Unit::Share, Claim::Is(0.045)).found(&found));
    }
    if let Some(set) = sets.iter().find(|set| set.throughput == 40_000.0) {
        let bytes = 0.2 * set.ranked.total_bytes();
        let model: Analytic = set.ranked.solve(bytes, REUSE);
        let found = [
            Some(path.throughput(&model.outcome(RateDerivation::Restored))),
            Some(path.throughput(&che::outcome(&set.population, bytes))),
        ];
        let what = "throughput left at 40,000 with 20% cached";
        findings.push(Finding::new("left-40000-20", what, Unit::Share, Claim::Is(0.985)).found(&found));
    }
    for set in sets {
        let bytes = 0.1 * set.ranked.total_bytes();
        let found = [
            Some(set.ranked.solve(bytes, REUSE).hit_ratio),
            Some(che::outcome(&set.population, bytes).hit_ratio),
        ];
        let what = format!("file hit ratio at {} with 10% cached", Unit::Count.shown(set.throughput));
        let key = format!("tenth-{:.0}", set.throughput);
        findings.push(Finding::new(&key, &what, Unit::Share, Claim::AtLeast(0.9)).found(&found));
    }
    findings
}

/// Cached shares of the sweep.
const SHARES: [f64; 14] = [0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4];
/// The share of the target throughput that Figure 1.7 asks for.
const KEPT: f64 = 0.95;
