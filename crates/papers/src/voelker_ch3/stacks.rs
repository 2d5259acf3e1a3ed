//! Figures 3.5 and 3.6: references to the positions of the LRU stack, and the cost of replacing
//! another than the oldest page.

use super::{Application, Axis, Progress, Unit, curve, plot};
use shoal_lab::global_memory::suboptimal::{self, ProgramMemory};
use shoal_lab::global_memory::{FaultCosts, stack};
use shoal_lab::report::{Claim, Finding, Section, Table};

pub(super) fn positions_section(programs: &[Application], progress: &mut dyn Progress) -> Section {
    let mut series = Vec::new();
    let mut table = Table::new(
        "The cold part of the stack",
        &["program", "pages", "asked for below 1% a position", "references beyond a quarter of the pages"],
    );
    for program in programs {
        let positions = stack::distances(program);
        // A part without a reference is an empty bin: the curve has a gap there.
        series.push(curve(program.name.clone(), positions.profile(PARTS)));
        let beyond = positions.beyond(program.part(1, 4)) as f64 / program.references.len() as f64;
        table.row(&[
            &program.name,
            &Unit::Count.shown(program.pages as f64),
            &Unit::Share.shown(positions.cold_share(0.01)),
            &Unit::Share.shown(beyond),
        ]);
        progress.done(1);
    }
    Section {
        anchor: "figure-3-5".into(),
        title: "The LRU stack (Figure 3.5)".into(),
        question: "How likely is a reference to go to one position of the stack?".into(),
        figures: vec![plot(
            "figure-3-5",
            "Probability that a reference goes to one position, from the top of the stack to its bottom",
            "All curves fall steeply from the top; most positions in the lower half are asked for less than once in ten thousand references.",
            (Axis::share("position in the stack, from the top"), Axis::log10("probability of reference", Unit::Share)),
            series,
            Vec::new(),
        )],
        tables: vec![table],
        notes: vec!["The dissertation finds that the bottom 95% of the positions are each asked for with less than 1% probability. A loop over more pages than there \
             is memory for is the exception: all that it asks for again stands at the bottom."
            .into()],
        ..Section::default()
    }
}

pub(super) fn suboptimal_section(programs: &[Application], progress: &mut dyn Progress) -> Section {
    let (mut series, mut findings) = (Vec::new(), Vec::new());
    let mut table = Table::new(
        "Replacing 30% from the bottom",
        &[
            "program",
            "disk faults, LRU",
            "at 30%",
            "more faults",
            "more time",
            "best position",
            "faults there",
        ],
    );
    for program in programs {
        let memory = ProgramMemory::of_section_3_4_3(program);
        let all: Vec<_> = (0..=STEPS)
            .map(|step| suboptimal::faults(program, memory, f64::from(step) / f64::from(STEPS)))
            .collect();
        let lru = all[0];
        let more = |faults: u64| faults as f64 / lru.disk.max(1) as f64 - 1.0;
        let points =
            all.iter().enumerate().map(|(step, faults)| (step as f64 / f64::from(STEPS), more(faults.disk)));
        series.push(curve(program.name.clone(), points.collect()));
        let at_30 = all[(STEPS * 3 / 10) as usize];
        let computing = FaultCosts::OO7.computing(program);
        let elapsed = |faults| computing + FaultCosts::OO7.stall(faults);
        let slower = elapsed(&at_30) / elapsed(&lru) - 1.0;
        let best = (0..all.len()).min_by_key(|step| all[*step].disk).unwrap_or(0);
        let key = format!("suboptimal_30_{}", program.name.replace([' ', '-'], "_"));
        let what = format!("{}: more disk faults when the page 30% up is replaced", program.name);
        findings.push(
            Finding::new(&key, &what, Unit::Share, Claim::Words("m3: 9%".into()))
                .found(&[Some(more(at_30.disk))]),
        );
        table.row(&[
            &program.name,
            &Unit::Count.shown(lru.disk as f64),
            &Unit::Count.shown(at_30.disk as f64),
            &Unit::Share.shown(more(at_30.disk)),
            &Unit::Share.shown(slower),
            &Unit::Share.tick(best as f64 / f64::from(STEPS)),
            &Unit::Share.shown(more(all[best].disk)),
        ]);
        progress.done(1);
    }
    Section {
        anchor: "figure-3-6".into(),
        title: "Replacing another than the oldest page (Figure 3.6)".into(),
        question: "How many more faults reach the disk when the page at a fixed position of global memory is replaced?".into(),
        figures: vec![plot(
            "figure-3-6",
            "More disk faults than strict LRU, by the position that is replaced: 0% the oldest global page, 100% the youngest",
            "Programs that go in circles gain, others lose little up to 30 or 40%, and some lose much beyond.",
            (Axis::share("position replaced, from the bottom of global memory"), Axis::linear("more disk faults", Unit::Share)),
            series,
            Vec::new(),
        )],
        findings,
        tables: vec![table],
        notes: vec![
            "A quarter of a program's pages is local, one half global, as in the dissertation. Faults count each page's first. Time is computing (5 ms for each fault beyond a \
             quarter of the pages, as OO7) with getpages at 194 µs and disk faults at 3.6 ms; nobody waits."
                .into(),
            "A program whose references seldom go below the top quarter of its stack has few faults beside each page's first, and its curve is flat.".into(),
        ],
        ..Section::default()
    }
}

/// Number of points of a curve of Figure 3.5.
const PARTS: usize = 50;
/// Number of points of a curve of Figure 3.6, less one.
const STEPS: u32 = 20;
