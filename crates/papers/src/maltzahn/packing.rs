//! Places of small objects in the memory-mapped file: Figure 3 (packing) and Figure 6 (hits over
//! the file).
//!
//! Both are facts of the trace and of the placement of objects, and need no machine. Objects of at
//! most 8 KB, each padded to one of five segment sizes, stand in the order of their first misses
//! (2.4.2). Or they are packed so that none crosses a page (2.4.4).

use super::paper;
use shoal_lab::figure::{Axis, Chart, Figure, Mark, Pages, Plot, Series, Shape, Unit};
use shoal_lab::machine_runs::Placement;
use shoal_lab::report::{Claim, Finding, Section};
use shoal_lab::workload::{Workload, share};

/// Returns the section on objects that cross a page, with a picture of a packing.
pub fn packing_section(workload: &Workload) -> Section {
    let (contiguous, aligned) = (Placement::contiguous(workload), Placement::aligned(workload));
    let (objects, hits) = contiguous.crossing(workload);
    let crossing_aligned = aligned.crossing(workload).0;
    let pages = Pages {
        page_bytes: paper::PAGE_BYTES,
        pages: SHOWN_PAGES,
        rows: vec![
            ("squidm, squidml: in the order of first misses".into(), contiguous.first_pages(SHOWN_PAGES)),
            ("squidmla: packed so that none crosses a page".into(), aligned.first_pages(SHOWN_PAGES)),
        ],
    };
    let finding = |key: &str, what: &str, unit, claim, value| {
        Finding::new(key, what, unit, claim).found(&[Some(value)])
    };
    let larger = share(aligned.file_bytes(), contiguous.file_bytes()) - 1.0;
    Section {
        anchor: "figure-3".into(),
        title: "Figure 3 (in print Algorithm 1): packing objects into pages".into(),
        question: "How many objects would lie in two pages, and what does the packing algorithm change?"
            .into(),
        figures: vec![Figure::new(
            "figure-3",
            "The first objects of the trace in the first pages of the memory-mapped file",
            "Without packing, large objects straddle pages; packed, none does, and the order is almost kept.",
            Chart::Pages(pages),
        )],
        findings: vec![
            finding(
                "crossing_objects",
                "objects across pages when placed in order",
                Unit::Share,
                Claim::Is(paper::CROSSING_OBJECTS),
                objects,
            ),
            finding(
                "crossing_hits",
                "hits to such objects",
                Unit::Share,
                Claim::Is(paper::CROSSING_HITS),
                hits,
            ),
            finding(
                "crossing_aligned",
                "objects across pages when packed",
                Unit::Share,
                Claim::Is(0.0),
                crossing_aligned,
            ),
            finding(
                "packed_larger",
                "length that packing adds to the file",
                Unit::Share,
                Claim::Words(String::new()),
                larger,
            ),
            finding(
                "packed_disorder",
                "pages between an object and its predecessor's end, on average, when packed",
                Unit::Ratio,
                Claim::Words("order only slightly modified".into()),
                aligned.disorder_pages(),
            ),
        ],
        ..Section::default()
    }
}

/// Returns the section on the places of popular objects in the file.
pub fn hits_section(workload: &Workload) -> Section {
    let aligned = Placement::aligned(workload);
    let distribution = aligned.hit_distribution(workload);
    let quarter = distribution[24];
    let mut points = vec![(0.0, 0.0)];
    points.extend(distribution.iter().enumerate().map(|(index, sum)| ((index + 1) as f64 / 100.0, *sum)));
    let plot = Plot {
        x: Axis::share("part of the memory-mapped file from its start"),
        y: Axis::share("share of hits"),
        series: vec![Series { name: "hits".into(), shape: Shape::Curve, points }],
        marks: vec![Mark::Point {
            at: (0.25, paper::FIRST_QUARTER),
            label: "paper: 70% in the first quarter".into(),
        }],
    };
    Section {
        anchor: "figure-6".into(),
        title: "Figure 6 (in print 5): hits over the memory-mapped file".into(),
        question: "Objects lie in the order of their first misses: are the popular ones together at the file's start?".into(),
        figures: vec![Figure::new(
            "figure-6",
            "Cumulative distribution of measured hits over the memory-mapped file (squidmla)",
            &format!("{} of hits lie in the first quarter.", Unit::Share.shown(quarter)),
            Chart::Plot(plot),
        )],
        findings: vec![
            Finding::new("first_quarter", "hits in the first quarter of the file", Unit::Share, Claim::Is(paper::FIRST_QUARTER))
                .found(&[Some(quarter)]),
        ],
        ..Section::default()
    }
}

/// Number of pages in the picture.
const SHOWN_PAGES: u64 = 5;
