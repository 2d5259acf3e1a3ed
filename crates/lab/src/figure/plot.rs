//! Curves, steps and points over two axes, labelled where they end.

use super::axis::{Axis, FixedAxis};
use super::csv::{CsvTable, number};
use super::style::{colour, text_width};
use super::svg::{Anchor, Canvas};

/// Curves and points over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical one.
    pub y: Axis,
    /// Series to plot.
    pub series: Vec<Series>,
    /// Claims to compare the series with.
    pub marks: Vec<Mark>,
}

/// One set of points under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// Way of joining the points.
    pub shape: Shape,
    /// The points, (x, y), by growing x where they are joined.
    pub points: Vec<(f64, f64)>,
}

/// Ways of joining points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Joined by straight lines.
    Curve,
    /// Joined by straight lines, each point a dot.
    Dotted,
    /// Level until the next point: a cumulative distribution.
    Steps,
    /// Not joined.
    Points,
    /// Upright lines through two points each, (x, low) and (x, high): the error of a value.
    Whiskers,
}

/// A claim to compare with.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// The claim is one point: lines lead to it from both axes.
    Point {
        /// The point, (x, y).
        at: (f64, f64),
        /// Author and text of the claim.
        label: String,
    },
    /// The claim is one height.
    Level {
        /// The height.
        y: f64,
        /// Author and text of the claim.
        label: String,
    },
}

impl Plot {
    pub(super) fn table(&self) -> CsvTable {
        let (x, y) = (self.x.heading(), self.y.heading());
        let mut table = CsvTable::new(&["series", &x, &y]);
        for series in &self.series {
            for (x, y) in &series.points {
                table.row(&[&series.name, &number(*x), &number(*y)]);
            }
        }
        for mark in &self.marks {
            match mark {
                Mark::Point { at: (x, y), label } => table.row(&[label, &number(*x), &number(*y)]),
                Mark::Level { y, label } => table.row(&[label, "", &number(*y)]),
            }
        }
        table
    }

    pub(super) fn draw(&self) -> Canvas {
        let frame = PlotFrame::of(self);
        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        frame.axes(&mut canvas, self);
        for mark in &self.marks {
            frame.mark_lines(&mut canvas, mark);
        }
        for (index, series) in self.series.iter().enumerate() {
            frame.series(&mut canvas, series, &colour(index), self);
        }
        for mark in &self.marks {
            frame.mark_label(&mut canvas, mark, &self.series);
        }
        frame.names(&mut canvas, &self.series);
        canvas
    }
}

/// Place of a series' name: its left and right end, and its height.
struct Name {
    from: f64,
    to: f64,
    y: f64,
    series: usize,
}

impl Name {
    /// Returns `true` if the two names would overlap at the same height.
    fn is_beside(&self, other: &Self) -> bool {
        self.from < other.to && other.from < self.to
    }
}

/// Rectangle between the axes, with the places of values in it.
struct PlotFrame {
    left: f64,
    right: f64,
    x: FixedAxis,
    y: FixedAxis,
}

impl PlotFrame {
    fn of(plot: &Plot) -> Self {
        let points = || plot.series.iter().flat_map(|series| series.points.iter().copied());
        let claims = || {
            plot.marks.iter().map(|mark| match mark {
                Mark::Point { at, .. } => (Some(at.0), at.1),
                Mark::Level { y, .. } => (None, *y),
            })
        };
        let x = plot.x.with_ends(points().map(|point| point.0).chain(claims().filter_map(|claim| claim.0)));
        let y = plot.y.with_ends(points().map(|point| point.1).chain(claims().map(|claim| claim.1)));
        let ticks = y.ticks.iter().map(|tick| text_width(&plot.y.unit.tick(*tick)));
        let names = plot.series.iter().map(|series| text_width(&series.name));
        let room = names.fold(0.0, f64::max).clamp(24.0, NAMES_WIDTH);
        Self { left: 34.0 + ticks.fold(0.0, f64::max), right: WIDTH - room - 14.0, x, y }
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let x = self.left + self.x.place(x) * (self.right - self.left);
        (x, BOTTOM - self.y.place(y) * (BOTTOM - TOP))
    }

    fn axes(&self, canvas: &mut Canvas, plot: &Plot) {
        for tick in &self.y.ticks {
            let y = BOTTOM - self.y.place(*tick) * (BOTTOM - TOP);
            canvas.line("grid", (self.left, y), (self.right, y));
            canvas.text("soft", Anchor::End, (self.left - 6.0, y + 4.0), &plot.y.unit.tick(*tick));
        }
        let mut free = f64::NEG_INFINITY;
        for tick in &self.x.ticks {
            let x = self.left + self.x.place(*tick) * (self.right - self.left);
            canvas.line("axis", (x, BOTTOM), (x, BOTTOM + 4.0));
            let text = plot.x.unit.tick(*tick);
            let half = text_width(&text) / 2.0;
            if x - half >= free {
                canvas.text("soft", Anchor::Middle, (x, BOTTOM + 18.0), &text);
                free = x + half + 6.0;
            }
        }
        canvas.line("axis", (self.left, BOTTOM), (self.right, BOTTOM));
        let middle = ((self.left + self.right) / 2.0, BOTTOM + 38.0);
        canvas.text("", Anchor::Middle, middle, &plot.x.label);
        canvas.upright_text("", (14.0, (TOP + BOTTOM) / 2.0), &plot.y.label);
    }

    fn series(&self, canvas: &mut Canvas, series: &Series, colour: &str, plot: &Plot) {
        let mut points: Vec<(f64, f64)> = series.points.iter().map(|point| self.place(*point)).collect();
        if matches!(series.shape, Shape::Dotted | Shape::Points) {
            for (place, (x, y)) in points.iter().zip(&series.points) {
                let hint = format!("{}: {}, {}", series.name, plot.x.unit.shown(*x), plot.y.unit.shown(*y));
                let radius = if series.shape == Shape::Points { 5.0 } else { 3.0 };
                canvas.dot(&format!("{colour} fill edge"), *place, radius, &hint);
            }
        }
        if series.shape == Shape::Steps {
            points = stepped(&points);
        }
        if series.shape == Shape::Whiskers {
            points.chunks_exact(2).for_each(|ends| canvas.line("axis", ends[0], ends[1]));
            return;
        }
        if series.shape != Shape::Points && points.len() > 1 {
            canvas.path(&format!("{colour} curve"), &points);
        }
    }

    /// Writes the series' names at their last points, pushed apart where they would overlap.
    fn names(&self, canvas: &mut Canvas, series: &[Series]) {
        let ends = series.iter().map(|series| series.points.last().map(|point| self.place(*point)));
        let mut names: Vec<(f64, f64, usize)> =
            ends.enumerate().filter_map(|(index, end)| end.map(|(x, y)| (y, x, index))).collect();
        names.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
        let mut written: Vec<Name> = Vec::new();
        for (y, x, series_index) in names {
            let from = x + 8.0;
            let mut name =
                Name { from, to: from + text_width(&series[series_index].name), y, series: series_index };
            let above = written.iter().filter(|other| name.is_beside(other));
            let free = above.map(|other| other.y + NAME_HEIGHT).fold(TOP - NAME_HEIGHT, f64::max);
            name.y = y.max(free);
            written.push(name);
        }
        // A name pushed below the axis goes up again, and pushes the names above it.
        for at in (0..written.len()).rev() {
            let below = written[at + 1..].iter().filter(|other| written[at].is_beside(other));
            let room = below.map(|other| other.y - NAME_HEIGHT).fold(BOTTOM, f64::min);
            written[at].y = written[at].y.min(room);
        }
        for Name { from, y, series: index, .. } in written {
            let class = format!("{} named bold halo", colour(index));
            canvas.text(&class, Anchor::Start, (from, y + 4.0), &series[index].name);
        }
    }

    fn mark_lines(&self, canvas: &mut Canvas, mark: &Mark) {
        match mark {
            Mark::Point { at, .. } => {
                let (x, y) = self.place(*at);
                canvas.path("claim", &[(self.left, y), (x, y), (x, BOTTOM)]);
            }
            Mark::Level { y, .. } => {
                let y = BOTTOM - self.y.place(*y) * (BOTTOM - TOP);
                canvas.path("claim", &[(self.left, y), (self.right, y)]);
            }
        }
    }

    fn mark_label(&self, canvas: &mut Canvas, mark: &Mark, series: &[Series]) {
        let class = "claimed bold halo";
        match mark {
            Mark::Point { at, label } => {
                let at = self.place(*at);
                canvas.dot("claimed edge", at, 4.0, label);
                let (anchor, place) = self.free_corner(at, text_width(label), series);
                canvas.text(class, anchor, place, label);
            }
            Mark::Level { y, label } => {
                let y = BOTTOM - self.y.place(*y) * (BOTTOM - TOP);
                canvas.text(class, Anchor::Start, (self.left + 8.0, y - 6.0), label);
            }
        }
    }

    /// Returns the place of a text of `width` pixels beside a point, near it if possible. The text
    /// covers the least of the series there.
    fn free_corner(&self, (x, y): (f64, f64), width: f64, series: &[Series]) -> (Anchor, (f64, f64)) {
        let drawn: Vec<(f64, f64)> = series.iter().flat_map(|series| self.trail(series)).collect();
        let corners = MARK_BASES.map(|down| [(x + 8.0, y + down), (x - 8.0 - width, y + down)]);
        let fits = |(left, base): &(f64, f64)| {
            *left >= self.left && left + width < WIDTH && *base > TOP && *base < BOTTOM
        };
        let covered = |(left, base): (f64, f64)| {
            let is_below = |at: &&(f64, f64)| {
                (left - 2.0..left + width + 2.0).contains(&at.0) && (base - 12.0..base + 4.0).contains(&at.1)
            };
            drawn.iter().filter(is_below).count()
        };
        let best = corners
            .into_iter()
            .flatten()
            .filter(fits)
            .min_by_key(|corner| covered(*corner))
            .unwrap_or((x + 8.0, y - 8.0));
        // Anchored at the end next to the point, since the width is a guess.
        if best.0 > x { (Anchor::Start, best) } else { (Anchor::End, (x - 8.0, best.1)) }
    }

    /// Returns the places where a series is drawn, every few pixels.
    fn trail(&self, series: &Series) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = series.points.iter().map(|point| self.place(*point)).collect();
        match series.shape {
            Shape::Points | Shape::Whiskers => return points,
            Shape::Steps => points = stepped(&points),
            Shape::Curve | Shape::Dotted => {}
        }
        let between = |pair: &[(f64, f64)]| {
            let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
            let steps = ((to_x - x).abs().max((to_y - y).abs()) / TRAIL_STEP).clamp(1.0, WIDTH) as u32;
            (0..=steps).map(move |step| {
                let part = f64::from(step) / f64::from(steps);
                (x + (to_x - x) * part, y + (to_y - y) * part)
            })
        };
        points.windows(2).flat_map(between).collect()
    }
}

/// Returns the points with a level stretch before each rise.
fn stepped(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut steps = Vec::with_capacity(points.len() * 2);
    for (index, (x, y)) in points.iter().enumerate() {
        if index > 0 {
            steps.push((*x, points[index - 1].1));
        }
        steps.push((*x, *y));
    }
    steps
}

const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 340.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 290.0;
/// Largest width of the names at the right.
const NAMES_WIDTH: f64 = 190.0;
const NAME_HEIGHT: f64 = 15.0;
/// Offsets of a label below its claimed point, the nearest first, in pixels.
const MARK_BASES: [f64; 6] = [-8.0, 16.0, -26.0, 34.0, 56.0, 80.0];
/// Pixels between the places at which a curve is looked for under a text.
const TRAIL_STEP: f64 = 3.0;
