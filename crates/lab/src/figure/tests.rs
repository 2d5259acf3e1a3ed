//! Invariants of every figure: well-formed, self-contained, the same twice, every number in its
//! CSV.

use super::*;

#[test]
fn figures_are_well_formed_and_the_same_twice() {
    for figure in samples() {
        let svg = figure.svg();
        check_well_formed(&svg);
        assert_eq!(svg, figure.svg());
        assert!(svg.contains("<title>") && svg.contains("<desc>"), "{}", figure.name);
        for remote in ["href", "url(", "<script", "@import"] {
            assert!(!svg.contains(remote), "{} holds {remote}", figure.name);
        }
    }
}

#[test]
fn claim_label_is_not_written_over_a_curve() {
    // Rising, falling, above and below the claim: each leaves other corners free.
    for points in [
        [(0.0, 0.0), (1.0, 0.5), (2.0, 0.9)],
        [(0.0, 0.9), (1.0, 0.5), (2.0, 0.1)],
        [(0.0, 0.8), (1.0, 0.55), (2.0, 0.55)],
        [(0.0, 0.45), (1.0, 0.45), (2.0, 0.6)],
        [(0.0, 0.3), (1.0, 0.42), (2.0, 0.62)],
    ] {
        let mut figure = plot(Axis::linear("x", Unit::Count), Shape::Curve, &points);
        let Chart::Plot(drawn) = &mut figure.drawing else { panic!("a plot") };
        drawn.marks.push(Mark::Point { at: (1.0, 0.5), label: "paper: a half".into() });
        let svg = figure.svg();
        let label = svg.lines().find(|line| line.contains("paper: a half</text>")).expect("a label");
        let (left, right, base) = extent_of(label, 13.0 * 8.0);
        let curve = svg.lines().find(|line| line.contains(" curve\" d=")).expect("a curve");
        let inside = |(x, y): (f64, f64)| (left..right).contains(&x) && (base - 9.0..base).contains(&y);
        assert!(!trail(curve).into_iter().any(inside), "{points:?}: {label}\n{curve}");
    }
}

/// Returns the left and right end of a text of about `width` pixels, and its base line.
fn extent_of(text: &str, width: f64) -> (f64, f64, f64) {
    let (x, base) = (attribute(text, "x"), attribute(text, "y"));
    if text.contains("end") { (x - width, x, base) } else { (x, x + width, base) }
}

fn attribute(tag: &str, name: &str) -> f64 {
    let (_, rest) = tag.split_once(&format!(" {name}=\"")).expect("the attribute");
    rest.split('"').next().expect("a value").parse().expect("a number")
}

/// Points of a path, every hundredth of each of its lines.
fn trail(path: &str) -> Vec<(f64, f64)> {
    let (_, rest) = path.split_once(" d=\"M").expect("a path");
    let corners = rest.split('"').next().expect("points").split('L');
    let corners = corners.map(|corner| corner.split_once(' ').expect("two numbers"));
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let corners: Vec<(f64, f64)> = corners.map(|(x, y)| (number(x), number(y))).collect();
    let part = |from: f64, to: f64, step: u32| from + (to - from) * f64::from(step) / 100.0;
    let line = |ends: &[(f64, f64)]| {
        let (from, to) = (ends[0], ends[1]);
        (0..=100).map(move |step| (part(from.0, to.0, step), part(from.1, to.1, step)))
    };
    corners.windows(2).flat_map(line).collect()
}

#[test]
fn hostile_name_stays_text() {
    let svg = bars("<script>&\"'\u{0}").svg();
    check_well_formed(&svg);
    assert!(svg.contains("&lt;script&gt;&amp;&quot;'\u{fffd}"), "{svg}");
}

#[test]
fn numbers_that_are_none_draw_a_figure_all_the_same() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300] {
        for axis in
            [Axis::linear("x", Unit::Count), Axis::log2("x", Unit::Bytes), Axis::log10("x", Unit::Seconds)]
        {
            let plot = plot(axis.clone(), Shape::Curve, &[(value, value), (1.0, 1.0)]);
            check_well_formed(&plot.svg());
            assert!(!plot.svg().contains("NaN") && !plot.svg().contains("inf\""));
        }
    }
    check_well_formed(&plot(Axis::share("x"), Shape::Steps, &[]).svg());
}

#[test]
fn every_number_is_in_the_csv() {
    let [plot, bars, pages] = samples();
    let expected = "series,x [count],y [share]\n\"a, b\",0,0\n\"a, b\",2,0.5\npaper,1,0.25\npaper,,0.75\n";
    assert_eq!(plot.csv(), expected);
    let expected = "bar,part,I/O [count]\nsquid,files,3\nsquid,mapped,1.5\nsquid,paper,4\nsquidl,files,1\nsquidl,mapped,0\n";
    assert_eq!(bars.csv(), expected);
    let expected = "placing,object,offset [bytes],length [bytes],crosses a page\nin order,1,0,512,no\nin order,2,512,8192,yes\n";
    assert_eq!(pages.csv(), expected);
}

#[test]
fn a_crossing_is_told_by_the_last_byte() {
    let crosses = |offset, bytes| PlacedObject { number: 1, offset, bytes }.crosses(8192);
    assert!(
        !crosses(0, 8192)
            && crosses(512, 8192)
            && !crosses(7680, 512)
            && crosses(7680, 513)
            && !crosses(8191, 0)
    );
}

fn samples() -> [Figure; 3] {
    let mut curves = plot(Axis::linear("x", Unit::Count), Shape::Steps, &[(0.0, 0.0), (2.0, 0.5)]);
    if let Chart::Plot(plot) = &mut curves.drawing {
        plot.marks.push(Mark::Point { at: (1.0, 0.25), label: "paper".into() });
        plot.marks.push(Mark::Level { y: 0.75, label: "paper".into() });
    }
    let place = |number, offset, bytes| PlacedObject { number, offset, bytes };
    let rows = vec![("in order".into(), vec![place(1, 0, 512), place(2, 512, 8192)])];
    let pages = Pages { page_bytes: 8192, pages: 2, rows };
    [curves, bars("squid"), Figure::new("pages", "Pages", "Where objects lie.", Chart::Pages(pages))]
}

fn plot(x: Axis, shape: Shape, points: &[(f64, f64)]) -> Figure {
    let series = vec![Series { name: "a, b".into(), shape, points: points.to_vec() }];
    let plot = Plot { x, y: Axis::share("y"), series, marks: Vec::new() };
    Figure::new("plot", "A plot", "Something rises.", Chart::Plot(plot))
}

fn bars(first: &str) -> Figure {
    let bars = Bars {
        axis: Axis::linear("I/O", Unit::Count),
        parts: vec!["files".into(), "mapped".into()],
        bars: vec![Bar::new(first, &[3.0, 1.5]).claimed(4.0), Bar::new("squidl", &[1.0, 0.0])],
        claimant: "paper".into(),
    };
    Figure::new("bars", "Some bars", "One is longer.", Chart::Bars(bars))
}
