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
        assert!(svg.contains("paper: a half</text>"));
        check_labels(&svg);
    }
}

/// Curves that end early, cross and rise to a claim: ten names and two claims find places.
#[test]
fn labels_cover_no_curve() {
    for seed in 0..40u32 {
        let wave = |curve: u32, step: u32| {
            let phase = f64::from(seed * 7 + curve * 3) + f64::from(step) / 4.0;
            0.5 + 0.45 * phase.sin() * f64::from(curve % 5 + 1) / 5.0
        };
        let series = |curve: u32| Series {
            name: format!("a longer name {curve}"),
            shape: [Shape::Curve, Shape::Dotted, Shape::Steps][curve as usize % 3],
            points: (0..6 + curve * 4).map(|step| (f64::from(step), wave(curve, step))).collect(),
        };
        let marks = vec![
            Mark::Level { y: 0.5 + f64::from(seed) / 100.0, label: "infinite cache".into() },
            Mark::Point { at: (8.0, 0.4), label: "knee, 61 MiB".into() },
        ];
        for count in [3, 5, 10] {
            let plot = Plot {
                x: Axis::linear("x", Unit::Count),
                y: Axis::share("y"),
                series: (0..count).map(series).collect(),
                marks: if count == 3 { marks.clone() } else { Vec::new() },
            };
            check_labels(&Figure::new("plot", "A plot", "Waves.", Chart::Plot(plot)).svg());
        }
    }
}

#[test]
fn names_of_equal_ends_stand_together() {
    // With one name beside the end, the line to another name crossed it.
    let series = |(name, to, end): (&str, f64, f64)| Series {
        name: name.into(),
        shape: Shape::Curve,
        points: vec![(0.0, 0.5), (to, end)],
    };
    let drawn = |ends: [(&str, f64, f64); 4]| {
        let (x, y) = (Axis::linear("x", Unit::Count), Axis::share("y"));
        let plot = Plot { x, y, series: ends.into_iter().map(series).collect(), marks: Vec::new() };
        Figure::new("plot", "A plot", "Rays.", Chart::Plot(plot)).svg()
    };
    let equal =
        drawn([("ring", 7.0, 0.7), ("CARP", 7.0, 0.7), ("rendezvous", 7.0, 0.71), ("all", 10.0, 0.1)]);
    assert_eq!(equal.matches("class=\"leader\"").count(), 3, "{equal}");
    let apart = drawn([("ring", 7.0, 0.7), ("CARP", 7.0, 0.5), ("rendezvous", 7.0, 0.9), ("all", 10.0, 0.1)]);
    assert_eq!(apart.matches("class=\"leader\"").count(), 0, "{apart}");
}

#[test]
fn twelve_series_have_twelve_styles() {
    let styles: std::collections::BTreeSet<String> = (0..12).map(style::colour).collect();
    assert_eq!(styles.len(), 12);
    let series = |at: u32| Series {
        name: format!("s{at}"),
        shape: Shape::Curve,
        points: vec![(0.0, 0.0), (1.0, f64::from(at) / 12.0)],
    };
    let (x, y) = (Axis::linear("x", Unit::Count), Axis::share("y"));
    let plot = Plot { x, y, series: (0..12).map(series).collect(), marks: Vec::new() };
    let svg = Figure::new("plot", "A plot", "A fan.", Chart::Plot(plot)).svg();
    let drawn = svg.lines().filter_map(|line| line.strip_prefix("<path class=\"")?.split('"').next());
    let curves: std::collections::BTreeSet<_> = drawn.filter(|class| class.ends_with(" curve")).collect();
    assert_eq!(curves.len(), 12);
    let marks: std::collections::BTreeSet<_> = (0..12).map(|at| (style::mark(at), at % 6)).collect();
    assert_eq!((marks.len(), svg.contains(style::mark(11).0)), (12, true));
    assert_eq!(svg.matches("sample\"").count(), 12, "each name has a sample of its line");
}

#[test]
fn empty_values_are_kept_on_a_logarithmic_axis() {
    let points = [(1.0, 0.1), (2.0, 0.0), (3.0, 1e-9), (4.0, 0.01), (5.0, 0.02)];
    let series = vec![Series { name: "a".into(), shape: Shape::Curve, points: points.to_vec() }];
    let (x, y) = (Axis::linear("x", Unit::Count), Axis::log10("y", Unit::Share));
    let plot = Plot { x, y, series, marks: Vec::new() };
    let figure = Figure::new("figure-3-5", "A plot", "A gap.", Chart::Plot(plot));
    let svg = figure.svg();
    assert_eq!(svg.matches(" curve\" d=").count(), 1, "the curve has a gap, and a lone point before it");
    assert_eq!((svg.matches("s0 empty\"").count(), svg.matches("a: 2, 0.0%</title>").count()), (1, 1));
    assert!(figure.csv().contains("a,2,0\na,3,1e-9\n"), "{}", figure.csv());
    assert!(svg.contains("<title>Figure 3.5: A plot</title>"));
}

#[test]
fn curves_tell_their_values_to_a_pointer() {
    let figure = plot(Axis::linear("x", Unit::Count), Shape::Curve, &[(0.0, 0.0001), (2.0, 0.5)]);
    let svg = figure.svg();
    assert!(svg.contains("<title>a, b: 0, 0.01%</title>") && svg.contains("<title>a, b: 2, 50.0%</title>"));
    let many: Vec<(f64, f64)> = (0..10_000).map(|x| (f64::from(x), 0.5)).collect();
    let svg = plot(Axis::linear("x", Unit::Count), Shape::Curve, &many).svg();
    assert!((50..=100).contains(&svg.matches("hover\"").count()), "{}", svg.matches("hover\"").count());
}

#[test]
fn live_chart_gets_the_numbers_of_the_csv() {
    let [plot, bars, pages] = samples();
    assert_eq!((bars.live(), pages.live()), (None, None), "these stay still pictures");
    let live = plot.live().expect("a plot");
    assert_eq!(live["series"][0]["points"].to_string(), "[[0.0,0.0],[2.0,0.5]]");
    assert_eq!((&live["series"][0]["shape"], &live["series"][0]["number"]), (&"steps".into(), &0.into()));
    assert_eq!(live["marks"][0]["label"], live["levels"][0]["label"]);
    assert_eq!((&live["x"]["unit"], &live["x"]["log"]), (&"count".into(), &false.into()));
    assert_eq!(live["y"]["ticks"][5].to_string(), "[1.0,\"100%\"]");
}

#[test]
fn errors_and_holes_reach_the_live_chart() {
    let whiskers = |name: &str| Series {
        name: name.into(),
        shape: Shape::Whiskers,
        points: vec![(1.0, 0.1), (1.0, 0.3)],
    };
    let curve = Series { name: "a".into(), shape: Shape::Curve, points: vec![(1.0, f64::NAN), (2.0, 0.0)] };
    let (x, y) = (Axis::linear("x", Unit::Count), Axis::log10("y", Unit::Share));
    let plot = Plot { x, y, series: vec![curve, whiskers("a ±"), whiskers("")], marks: Vec::new() };
    let live = Figure::new("f", "F", "", Chart::Plot(plot)).live().expect("a plot");
    assert_eq!(live["series"].to_string().matches("\"name\"").count(), 1, "errors are no lines");
    assert_eq!(live["series"][0]["points"].to_string(), "[[1.0,null],[2.0,0.0]]");
    assert_eq!(live["errors"].to_string(), "[[0,1.0,0.1,0.3],[null,1.0,0.1,0.3]]");
}

#[test]
fn captions_have_the_papers_numbers() {
    let figure = |name: &str, title: &str| {
        let Figure { drawing, .. } = bars("squid");
        Figure::new(name, title, "", drawing).caption()
    };
    for (name, caption) in [
        ("figure-5", "Figure 5: Hits"),
        ("figure-5a", "Figure 5a: Hits"),
        ("figure-4-5e", "Figure 4.5e: Hits"),
        ("figure-5-real", "Hits"),
        ("tiers", "Hits"),
    ] {
        assert_eq!(figure(name, "Hits"), caption);
    }
    assert_eq!(figure("figure-5-1", "Figure 5.1: hits"), "Figure 5.1: hits");
}

#[test]
fn hostile_name_stays_text() {
    let svg = bars("<script>&\"'\u{0}").svg();
    check_well_formed(&svg);
    assert!(svg.contains("&lt;script&gt;&amp;&quot;'\\u{00}"), "{svg}");
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
