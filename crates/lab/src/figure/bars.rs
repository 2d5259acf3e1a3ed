//! Quantities of named things: horizontal bars, each a stack of parts, with a claim to compare each
//! with.

use super::axis::{Axis, FixedAxis};
use super::csv::{CsvTable, number};
use super::style::{colour, text_width};
use super::svg::{Anchor, Canvas};

/// Bars over one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Axis of the bars' lengths.
    pub axis: Axis,
    /// The names of the parts that a bar is stacked of, first at the axis.
    pub parts: Vec<String>,
    /// The bars, from the top.
    pub bars: Vec<Bar>,
    /// Author of the claims, for the legend when any bar has one.
    pub claimant: String,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Name of the measured thing.
    pub name: String,
    /// Parts of the bar, one for each of [`Bars::parts`].
    pub values: Vec<f64>,
    /// Claimed length of the whole bar.
    pub claim: Option<f64>,
}

impl Bar {
    /// Creates a bar without a claim.
    pub fn new(name: &str, values: &[f64]) -> Self {
        Self { name: name.into(), values: values.to_vec(), claim: None }
    }

    /// Returns the bar with a claimed length.
    pub fn claimed(mut self, claim: f64) -> Self {
        self.claim = Some(claim);
        self
    }

    /// Returns the sum of the parts.
    pub fn total(&self) -> f64 {
        self.values.iter().sum()
    }
}

impl Bars {
    pub(super) fn table(&self) -> CsvTable {
        let heading = self.axis.heading();
        let mut table = CsvTable::new(&["bar", "part", &heading]);
        for bar in &self.bars {
            for (part, value) in self.parts.iter().zip(&bar.values) {
                table.row(&[&bar.name, part, &number(*value)]);
            }
            if let Some(claim) = bar.claim {
                table.row(&[&bar.name, &self.claimant, &number(claim)]);
            }
        }
        table
    }

    pub(super) fn draw(&self) -> Canvas {
        let legend = if self.has_legend() { LEGEND_HEIGHT } else { 0.0 };
        let top = 10.0 + legend;
        let bottom = top + self.bars.len() as f64 * ROW;
        let mut canvas = Canvas::new(WIDTH, bottom + 48.0);
        let frame = BarsFrame::of(self);
        if self.has_legend() {
            self.legend(&mut canvas, frame.left);
        }
        for tick in &frame.axis.ticks {
            let x = frame.place(*tick);
            canvas.line("grid", (x, top), (x, bottom));
            canvas.text("soft", Anchor::Middle, (x, bottom + 16.0), &self.axis.unit.tick(*tick));
        }
        for (index, bar) in self.bars.iter().enumerate() {
            self.bar(&mut canvas, &frame, bar, top + index as f64 * ROW);
        }
        let zero = frame.place(0.0);
        canvas.line("axis", (zero, top), (zero, bottom));
        let middle = ((frame.left + frame.right) / 2.0, bottom + 36.0);
        canvas.text("", Anchor::Middle, middle, &self.axis.label);
        canvas
    }

    fn bar(&self, canvas: &mut Canvas, frame: &BarsFrame, bar: &Bar, top: f64) {
        canvas.text("", Anchor::End, (frame.left - 8.0, top + ROW / 2.0 + 4.0), &bar.name);
        let mut from = 0.0;
        for (index, value) in bar.values.iter().enumerate() {
            let (x, to) = (frame.place(from), frame.place(from + value));
            let hint = format!("{}, {}: {}", bar.name, self.parts[index], self.axis.unit.shown(*value));
            let class = format!("{} fill", colour(index));
            canvas.rectangle(&class, (x.min(to), top + 4.0), ((to - x).abs(), ROW - 8.0), &hint);
            from += value;
        }
        // The label of a negative bar stands on the other side of zero.
        let end = bar.claim.map_or(from, |claim| claim.max(from)).max(0.0);
        if let Some(claim) = bar.claim {
            let x = frame.place(claim);
            canvas.line("tick", (x, top + 1.0), (x, top + ROW - 1.0));
        }
        let at = (frame.place(end) + 7.0, top + ROW / 2.0 + 4.0);
        canvas.text("bold halo", Anchor::Start, at, &self.axis.unit.shown(bar.total()));
    }

    fn has_legend(&self) -> bool {
        self.parts.len() > 1 || self.bars.iter().any(|bar| bar.claim.is_some())
    }

    fn legend(&self, canvas: &mut Canvas, left: f64) {
        let mut x = left;
        for (index, part) in self.parts.iter().enumerate() {
            canvas.rectangle(&format!("{} fill", colour(index)), (x, 8.0), (11.0, 11.0), "");
            canvas.text("", Anchor::Start, (x + 16.0, 18.0), part);
            x += 32.0 + text_width(part);
        }
        if self.bars.iter().any(|bar| bar.claim.is_some()) {
            canvas.line("tick", (x + 4.0, 6.0), (x + 4.0, 21.0));
            canvas.text("claimed bold", Anchor::Start, (x + 12.0, 18.0), &self.claimant);
        }
    }
}

/// Horizontal extent of the bars, with their axis.
struct BarsFrame {
    left: f64,
    right: f64,
    axis: FixedAxis,
}

impl BarsFrame {
    fn of(bars: &Bars) -> Self {
        let totals = bars.bars.iter().map(Bar::total);
        let claims = bars.bars.iter().filter_map(|bar| bar.claim);
        let names = bars.bars.iter().map(|bar| text_width(&bar.name));
        let shown = bars.bars.iter().map(|bar| text_width(&bars.axis.unit.shown(bar.total())));
        Self {
            left: 18.0 + names.fold(40.0, f64::max),
            right: WIDTH - 16.0 - shown.fold(30.0, f64::max),
            axis: bars.axis.with_ends(totals.chain(claims)),
        }
    }

    fn place(&self, value: f64) -> f64 {
        self.left + self.axis.place(value) * (self.right - self.left)
    }
}

const WIDTH: f64 = 680.0;
const ROW: f64 = 30.0;
const LEGEND_HEIGHT: f64 = 22.0;
