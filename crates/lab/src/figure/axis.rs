//! An axis: its quantity, range, scale and ticks.

use super::Unit;

/// One of a plot's two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Quantity that the axis measures.
    pub label: String,
    /// Unit of the quantity.
    pub unit: Unit,
    /// Scale of the axis.
    pub scale: Scale,
    /// Fixed ends of the axis; `None` takes the data's, rounded outwards to ticks.
    pub range: Option<(f64, f64)>,
}

/// Division of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// Each step doubles; for sizes.
    Log2,
    /// Each step is ten times the last.
    Log10,
}

impl Axis {
    /// Creates an evenly divided axis with the data's ends.
    pub fn linear(label: &str, unit: Unit) -> Self {
        Self { label: label.into(), unit, scale: Scale::Linear, range: None }
    }

    /// Creates an axis on which each step doubles.
    pub fn log2(label: &str, unit: Unit) -> Self {
        Self { label: label.into(), unit, scale: Scale::Log2, range: None }
    }

    /// Creates an axis on which each step is ten times the last.
    pub fn log10(label: &str, unit: Unit) -> Self {
        Self { label: label.into(), unit, scale: Scale::Log10, range: None }
    }

    /// Returns the axis with fixed ends.
    pub fn over(mut self, first: f64, last: f64) -> Self {
        self.range = Some((first, last));
        self
    }

    /// Creates an axis for a share of one, from 0 to 100%.
    pub fn share(label: &str) -> Self {
        Self::linear(label, Unit::Share).over(0.0, 1.0)
    }

    /// Returns the label with its unit, for a CSV heading.
    pub(super) fn heading(&self) -> String {
        format!("{} [{}]", self.label, self.unit.name())
    }

    /// Returns the axis with its ends settled for these values, and its ticks.
    pub(super) fn with_ends(&self, values: impl Iterator<Item = f64>) -> FixedAxis {
        let (low, high) = self.range.unwrap_or_else(|| extent(values, self.scale));
        match self.scale {
            Scale::Linear => self.linear_ticks(low, high),
            Scale::Log2 => self.log_ticks(low, high, 2.0),
            Scale::Log10 => self.log_ticks(low, high, 10.0),
        }
    }

    fn linear_ticks(&self, low: f64, high: f64) -> FixedAxis {
        let span = if high > low { high - low } else { 1.0 };
        let step = nice_step(span / TICKS);
        let (first, last) = match self.range {
            Some(_) => ((low / step).ceil(), (high / step).floor()),
            None => ((low / step).floor(), (high / step).ceil().max((low / step).floor() + 1.0)),
        };
        let ticks: Vec<f64> =
            (0..=(last - first) as usize).map(|index| (first + index as f64) * step).collect();
        let (low, high) = match self.range {
            Some(fixed) => fixed,
            None => (first * step, last * step),
        };
        FixedAxis { scale: self.scale, low, high, ticks }
    }

    fn log_ticks(&self, low: f64, high: f64, base: f64) -> FixedAxis {
        let power = |value: f64| value.max(f64::MIN_POSITIVE).log(base);
        // a hair of slack: log(1000) of base 10 is not quite 3
        let first = (power(low) + 1e-9).floor();
        let last = (power(high) - 1e-9).ceil().max(first + 1.0);
        let every = ((last - first) / LOG_TICKS).ceil().max(1.0);
        let mut ticks = Vec::new();
        let mut exponent = first;
        while exponent <= last {
            ticks.push(base.powf(exponent));
            exponent += every;
        }
        FixedAxis { scale: self.scale, low: base.powf(first), high: base.powf(last), ticks }
    }
}

/// An axis with known ends.
pub(super) struct FixedAxis {
    scale: Scale,
    /// Value at the low end.
    pub low: f64,
    /// Value at the high end.
    pub high: f64,
    /// Values of the ticks.
    pub ticks: Vec<f64>,
}

impl FixedAxis {
    /// Returns `true` if the axis has a place for a value. A logarithm has none for 0.
    pub fn holds(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Returns the position of a value: 0 at the low end, 1 at the high end, kept within.
    pub fn place(&self, value: f64) -> f64 {
        let along = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            _ => {
                let low = self.low.ln();
                (value.max(self.low).ln() - low) / (self.high.ln() - low)
            }
        };
        if along.is_finite() { along.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Returns the ends of the data. A linear axis begins at zero unless the data fall below it.
fn extent(values: impl Iterator<Item = f64>, scale: Scale) -> (f64, f64) {
    let values = values.filter(|value| value.is_finite());
    match scale {
        Scale::Linear => {
            values.fold((0.0, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)))
        }
        _ => {
            let positive = values.filter(|value| *value > 0.0);
            let (low, high) = positive.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| {
                (low.min(value), high.max(value))
            });
            if low.is_finite() { (low, high) } else { (1.0, 10.0) }
        }
    }
}

/// Returns the least of 1, 2, 2.5, 5 times a power of ten that is no smaller than `raw`.
fn nice_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.log10().floor());
    let times = [1.0, 2.0, 2.5, 5.0].into_iter().find(|times| times * power >= raw * (1.0 - 1e-9));
    times.unwrap_or(10.0) * power
}

/// Approximate number of steps on a linear axis.
const TICKS: f64 = 5.0;
/// Largest number of steps on a logarithmic axis.
const LOG_TICKS: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_span_the_data() {
        let ticks = |axis: Axis, values: &[f64]| axis.with_ends(values.iter().copied()).ticks;
        let linear = || Axis::linear("x", Unit::Count);
        assert_eq!(ticks(linear(), &[0.0, 100.0]), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(linear(), &[3.0, 93.0]), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(linear(), &[]), [0.0, 0.2].map(|x| x));
        assert_eq!(ticks(Axis::log10("x", Unit::Count), &[1.0, 1000.0]), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(ticks(Axis::log2("x", Unit::Bytes), &[512.0, 4096.0]), [512.0, 1024.0, 2048.0, 4096.0]);
        assert_eq!(ticks(Axis::share("x"), &[0.1]).len(), 6);
    }

    #[test]
    fn every_value_has_a_place() {
        for axis in
            [Axis::linear("x", Unit::Count), Axis::log2("x", Unit::Count), Axis::log10("x", Unit::Count)]
        {
            for values in [vec![], vec![0.0], vec![5.0], vec![-1.0, 1.0], vec![1.0, f64::NAN, f64::INFINITY]]
            {
                let settled = axis.with_ends(values.iter().copied());
                for value in [-1.0, 0.0, 0.5, 1e9, f64::NAN, f64::INFINITY] {
                    let place = settled.place(value);
                    assert!((0.0..=1.0).contains(&place), "{axis:?} {values:?} {value} {place}");
                }
            }
        }
    }
}
