//! Curves, steps and points over two axes, labelled beside their ends or at the right.
//!
//! On a logarithmic axis a value of 0 has no place. It is kept: an open dot at the foot of the plot
//! shows it, and the curve has a gap there.

use super::axis::{Axis, FixedAxis};
use super::csv::{CsvTable, number};
use super::labels::{Labels, TextPlace};
use super::style::{COLOURS, colour, mark, text_width};
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
    /// Upright lines through two points each, (x, low) and (x, high): the error of a value. A name
    /// `NAME ±` gives them the colour of the series NAME.
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

    /// Returns both axes with their ends and ticks.
    pub(super) fn axes(&self) -> (FixedAxis, FixedAxis) {
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let claims = || {
            self.marks.iter().map(|mark| match mark {
                Mark::Point { at, .. } => (Some(at.0), at.1),
                Mark::Level { y, .. } => (None, *y),
            })
        };
        let x = self.x.with_ends(points().map(|point| point.0).chain(claims().filter_map(|claim| claim.0)));
        let y = self.y.with_ends(points().map(|point| point.1).chain(claims().map(|claim| claim.1)));
        (x, y)
    }

    /// Returns the series to which whiskers belong.
    pub(super) fn interval_of(&self, whiskers: &Series) -> Option<usize> {
        self.series.iter().position(|other| is_interval_of(whiskers, other))
    }

    /// Returns the values of a point, for a pointer that rests on it.
    fn hint(&self, series: &Series, (x, y): (f64, f64)) -> String {
        format!("{}: {}, {}", series.name, self.x.unit.hint(x), self.y.unit.hint(y))
    }

    pub(super) fn draw(&self) -> Canvas {
        let frame = PlotFrame::of(self);
        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        frame.axes(&mut canvas, self);
        for mark in &self.marks {
            frame.mark_lines(&mut canvas, mark);
        }
        for (index, series) in self.series.iter().enumerate() {
            frame.series(&mut canvas, series, index, self);
        }
        let mut labels = Labels::over(frame.drawn(self));
        for mark in &self.marks {
            frame.mark_label(&mut canvas, mark, &mut labels);
        }
        frame.names(&mut canvas, &self.series, &mut labels);
        canvas
    }
}

/// Name of a series in the margin at the right.
struct MarginName {
    y: f64,
    /// End of the series.
    end: (f64, f64),
    series: usize,
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
        let (x, y) = plot.axes();
        let ticks = y.ticks.iter().map(|tick| text_width(&plot.y.unit.tick(*tick)));
        let names = plot.series.iter().filter(|series| series.shape != Shape::Whiskers);
        let names = names.map(|series| text_width(&series.name));
        let sample = if needs_samples(&plot.series) { SAMPLE } else { 0.0 };
        let room = names.fold(0.0, f64::max).clamp(24.0, NAMES_WIDTH) + sample;
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

    fn series(&self, canvas: &mut Canvas, series: &Series, index: usize, plot: &Plot) {
        if series.shape == Shape::Whiskers {
            let points: Vec<(f64, f64)> = series.points.iter().map(|point| self.place(*point)).collect();
            let of = plot.interval_of(series);
            let class = of.map_or("axis".into(), |index| format!("{} interval", colour(index)));
            points.chunks_exact(2).for_each(|ends| canvas.line(&class, ends[0], ends[1]));
            return;
        }
        let colour = colour(index);
        for run in self.runs(series) {
            if series.shape != Shape::Points && run.len() > 1 {
                canvas.path(&format!("{colour} curve"), &run);
            }
            if let ([alone], Shape::Curve | Shape::Steps) = (run.as_slice(), series.shape) {
                canvas.dot(&format!("{colour} fill edge"), *alone, 3.0, "");
            }
        }
        self.marks(canvas, series, index, plot);
        self.hints(canvas, series, &colour, plot);
    }

    /// Draws the marks of a line: on each of its points, or now and then along a curve among
    /// others.
    fn marks(&self, canvas: &mut Canvas, series: &Series, index: usize, plot: &Plot) {
        let (outline, class) = mark(index);
        let is_each = matches!(series.shape, Shape::Dotted | Shape::Points);
        if !is_each && plot.series.len() == 1 {
            return;
        }
        // The marks of neighbours do not lie on one another.
        let mut free = self.left + MARK_SHIFT * index as f64;
        for point in series.points.iter().filter(|point| point.0.is_finite() && self.y.holds(point.1)) {
            let place = self.place(*point);
            if is_each {
                canvas.mark(&class, place, outline, &plot.hint(series, *point));
            } else if place.0 >= free {
                canvas.mark(&class, place, outline, "");
                free = place.0 + MARK_GAP;
            }
        }
    }

    /// Draws the values that a pointer finds, and the values that the axis cannot hold.
    fn hints(&self, canvas: &mut Canvas, series: &Series, colour: &str, plot: &Plot) {
        // A curve of thousands of points has no room for the hints of all.
        let every = series.points.len().div_ceil(HINTS_MAX).max(1);
        let has_marks = matches!(series.shape, Shape::Dotted | Shape::Points);
        for (index, point) in series.points.iter().enumerate() {
            if !(point.0.is_finite() && point.1.is_finite()) {
                continue;
            }
            let hint = plot.hint(series, *point);
            if !self.y.holds(point.1) {
                canvas.dot(&format!("{colour} empty"), self.place(*point), 3.0, &hint);
            } else if !has_marks && index % every == 0 {
                canvas.dot(&format!("{colour} hover"), self.place(*point), 5.0, &hint);
            }
        }
    }

    /// Returns the stretches of a series that are drawn through: the series is cut at values that
    /// the axis cannot hold.
    fn runs(&self, series: &Series) -> Vec<Vec<(f64, f64)>> {
        let runs = series.points.split(|point| !self.y.holds(point.1)).filter(|run| !run.is_empty());
        let placed = runs.map(|run| {
            let points: Vec<(f64, f64)> = run.iter().map(|point| self.place(*point)).collect();
            if series.shape == Shape::Steps { stepped(&points) } else { points }
        });
        placed.collect()
    }

    /// Writes the series' names: beside their ends where there is room, else at the right, with a
    /// line to the end.
    fn names(&self, canvas: &mut Canvas, series: &[Series], labels: &mut Labels) {
        let has_samples = needs_samples(series);
        let mut margin: Vec<MarginName> = Vec::new();
        let ends: Vec<Option<(f64, f64)>> = series.iter().map(|one| self.end(one)).collect();
        for (index, one) in series.iter().enumerate() {
            let Some(end) = ends[index] else { continue };
            let inside = if end.0 >= self.right - 2.0 || has_samples || is_crowded(&ends, index) {
                None
            } else {
                let width = text_width(&one.name);
                let beside = [4.0, -8.0, 18.0].map(|down| (end.0 + 8.0, end.1 + down));
                let fits = |(left, base): &TextPlace| {
                    left + width < self.right && *base > TOP && *base < BOTTOM - 4.0
                };
                let beside: Vec<TextPlace> = beside.into_iter().filter(fits).collect();
                labels.free(&one.name, &beside)
            };
            match inside {
                Some(place) => {
                    let class = format!("{} named bold halo", colour(index));
                    canvas.text(&class, Anchor::Start, place, &one.name);
                }
                None => margin.push(MarginName { y: end.1, end, series: index }),
            }
        }
        margin.sort_by(|a, b| a.y.total_cmp(&b.y).then(a.series.cmp(&b.series)));
        pushed_apart(&mut margin);
        let sample = if has_samples { SAMPLE } else { 0.0 };
        for MarginName { y, end, series: index } in margin {
            let from = self.right + 8.0;
            if end.0 < self.right - 2.0 {
                canvas.line("leader", (end.0 + 4.0, end.1), (from - 2.0, y));
            }
            if has_samples {
                canvas.line(&format!("{} sample", colour(index)), (from, y), (from + SAMPLE - 6.0, y));
                let (outline, class) = mark(index);
                canvas.mark(&class, (from + SAMPLE / 2.0 - 3.0, y), outline, "");
            }
            let class = format!("{} named bold halo", colour(index));
            canvas.text(&class, Anchor::Start, (from + sample, y + 4.0), &series[index].name);
        }
    }

    /// Returns the end of a series, where it has a name and its last value that the axis can hold.
    fn end(&self, series: &Series) -> Option<(f64, f64)> {
        let is_named = !series.name.is_empty() && series.shape != Shape::Whiskers;
        let last = series.points.iter().rev().find(|point| self.y.holds(point.1));
        last.or(series.points.last()).filter(|_| is_named).map(|point| self.place(*point))
    }

    /// Returns places for a text of `width` pixels beside a point, within the frame, the nearest
    /// first.
    fn beside(&self, (x, y): (f64, f64), width: f64) -> Vec<TextPlace> {
        let places = LABEL_BASES
            .into_iter()
            .flat_map(|down| [(x + 8.0, y + down), (x - 8.0 - width, y + down), (x - width / 2.0, y + down)]);
        let beyond = LABEL_BASES.into_iter().flat_map(|down| {
            [(x + 60.0, y + down), (x - 60.0 - width, y + down), (x - 140.0 - width, y + down)]
        });
        let fits = |(left, base): &TextPlace| {
            *left >= self.left + 2.0 && left + width < self.right && *base > TOP && *base < BOTTOM - 4.0
        };
        places.chain(beyond).filter(fits).collect()
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

    fn mark_label(&self, canvas: &mut Canvas, mark: &Mark, labels: &mut Labels) {
        let class = "claimed bold halo";
        match mark {
            Mark::Point { at, label } => {
                let at = self.place(*at);
                canvas.dot("claimed edge", at, 4.0, label);
                let mut places = self.beside(at, text_width(label));
                if places.is_empty() {
                    places.push((at.0 + 8.0, at.1 - 8.0));
                }
                let place = labels.best(label, &places);
                canvas.text(class, Anchor::Start, place, label);
            }
            Mark::Level { y, label } => {
                let y = BOTTOM - self.y.place(*y) * (BOTTOM - TOP);
                let last = (self.right - text_width(label) - 8.0).max(self.left + 8.0);
                let step = (last - self.left - 8.0) / LEVEL_PLACES as f64;
                let along = |place: usize| self.left + 8.0 + step * place as f64;
                let places: Vec<TextPlace> = [y - 6.0, y + 15.0]
                    .into_iter()
                    .filter(|base| *base > TOP - 6.0 && *base < BOTTOM - 2.0)
                    .flat_map(|base| (0..=LEVEL_PLACES).map(move |place| (along(place), base)))
                    .collect();
                let place = labels.best(label, &places);
                canvas.text(class, Anchor::Start, place, label);
            }
        }
    }

    /// Returns the places where anything is drawn that a label must not cover, every few pixels.
    fn drawn(&self, plot: &Plot) -> Vec<(f64, f64)> {
        let mut drawn: Vec<(f64, f64)> = plot.series.iter().flat_map(|series| self.trail(series)).collect();
        drawn.extend(plot.marks.iter().filter_map(|mark| match mark {
            Mark::Point { at, .. } => Some(self.place(*at)),
            Mark::Level { .. } => None,
        }));
        drawn
    }

    /// Returns the places where a series is drawn, every few pixels.
    fn trail(&self, series: &Series) -> Vec<(f64, f64)> {
        let points = || series.points.iter().map(|point| self.place(*point));
        let between = |pair: &[(f64, f64)]| {
            let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
            let steps = ((to_x - x).abs().max((to_y - y).abs()) / TRAIL_STEP).clamp(1.0, WIDTH) as u32;
            (0..=steps).map(move |step| {
                let part = f64::from(step) / f64::from(steps);
                (x + (to_x - x) * part, y + (to_y - y) * part)
            })
        };
        match series.shape {
            Shape::Points => points().collect(),
            Shape::Whiskers => {
                let points: Vec<(f64, f64)> = points().collect();
                points.chunks_exact(2).flat_map(between).collect()
            }
            Shape::Curve | Shape::Dotted | Shape::Steps => {
                let runs = self.runs(series);
                let lines = runs.iter().flat_map(|run| run.windows(2).flat_map(between));
                lines.chain(points()).collect()
            }
        }
    }
}

/// Returns `true` if there are more series than colours, so that a name needs a sample of its line.
fn needs_samples(series: &[Series]) -> bool {
    series.iter().filter(|one| one.shape != Shape::Whiskers).count() > COLOURS
}

/// Returns `true` if another series ends where this one ends. Their names then stand together at
/// the right, so that no line to a name crosses the other name.
fn is_crowded(ends: &[Option<(f64, f64)>], index: usize) -> bool {
    let Some((x, y)) = ends[index] else { return false };
    let is_near = |other: &(f64, f64)| (other.0 - x).abs() < NAME_HEIGHT && (other.1 - y).abs() < NAME_HEIGHT;
    let others = ends.iter().enumerate().filter(|(other, _)| *other != index);
    others.filter_map(|(_, end)| end.as_ref()).any(is_near)
}

/// Returns `true` if whiskers belong to another series.
fn is_interval_of(whiskers: &Series, series: &Series) -> bool {
    whiskers.name.strip_suffix(" ±").is_some_and(|name| name == series.name)
}

/// Moves names apart that would overlap: each pair by the same way up and down, then all into the
/// frame.
fn pushed_apart(names: &mut [MarginName]) {
    for _ in 0..PUSHES {
        for at in 1..names.len() {
            let overlap = names[at - 1].y + NAME_HEIGHT - names[at].y;
            if overlap > 0.0 {
                names[at - 1].y -= overlap / 2.0;
                names[at].y += overlap / 2.0;
            }
        }
    }
    let mut free = TOP;
    for name in names.iter_mut() {
        name.y = name.y.max(free);
        free = name.y + NAME_HEIGHT;
    }
    let mut room = BOTTOM;
    for name in names.iter_mut().rev() {
        name.y = name.y.min(room);
        room = name.y - NAME_HEIGHT;
    }
    debug_assert!(names.is_sorted_by(|above, below| above.y < below.y), "names do not overlap");
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
/// Offsets of a label below its point, the nearest first, in pixels.
const LABEL_BASES: [f64; 9] = [-8.0, 18.0, -26.0, 36.0, -44.0, 56.0, 80.0, -80.0, 110.0];
/// Places that are tried along a level claim, above it and below.
const LEVEL_PLACES: usize = 40;
/// Largest number of values that a curve shows to a pointer.
const HINTS_MAX: usize = 80;
/// Rounds of moving names apart.
const PUSHES: usize = 60;
/// Pixels between two marks of a curve.
const MARK_GAP: f64 = 84.0;
/// Pixels by which a curve's first mark lies behind that of the curve before.
const MARK_SHIFT: f64 = 7.0;
/// Width of a line's sample before its name.
const SAMPLE: f64 = 24.0;
/// Pixels between the places at which a curve is looked for under a text.
const TRAIL_STEP: f64 = 3.0;
