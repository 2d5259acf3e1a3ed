//! Future work named by the paper (section 7): staleness, replacement that knows the pages in
//! memory, and SEQ page replacement below a cyclic cache.

use super::architectures::{ios, ratio, table};
use super::outcome::{Outcomes, RunResult};
use shoal_lab::figure::{Axis, Bar, Bars, Chart, Figure, Unit};
use shoal_lab::report::{Claim, Finding, Section};
use shoal_lab::workload::share;
use shoal_store::architectures::SegmentPolicy;

/// Returns the section on objects that change, and are validated or written again.
pub fn staleness_section(
    fresh: &Outcomes,
    (stale, [_, validated, rewritten]): (Vec<RunResult>, [u64; 3]),
) -> Section {
    let requests = stale.first().map_or(0, |outcome| outcome.requests);
    let mut shown: Vec<RunResult> = Vec::new();
    for outcome in &stale {
        let name = outcome.name.trim_end_matches(", stale");
        shown.extend(fresh.modelled.iter().find(|fresh| fresh.name == name).cloned());
        shown.push(outcome.clone());
    }
    let both = Outcomes { modelled: shown, real: Vec::new() };
    let more = |name: &str| {
        let found = ratio(&both, &format!("{name}, stale"), name, ios);
        unclaimed(
            &format!("{name}_stale"),
            &format!("{name}: I/Os with changing objects over those without"),
            Unit::Ratio,
            found,
        )
    };
    let of = |part: u64| [Some(share(part, requests)), None];
    Section {
        anchor: "staleness".into(),
        title: "Extension: staleness accounted for".into(),
        question: "The paper ignores that objects change. What does it cost in I/O when stale objects are validated, and written anew when they changed?"
            .into(),
        figures: vec![bars("extension-staleness", "Disk I/Os with and without staleness", &both.modelled)],
        findings: vec![
            unclaimed("validated", "requests that find a stale object unchanged", Unit::Share, of(validated)),
            unclaimed("rewritten", "requests that find it changed", Unit::Share, of(rewritten)),
            more("squid"),
            more("squidl"),
            more("squidmla"),
        ],
        tables: vec![table("The runs", &both.modelled)],
        notes: vec![
            "Assumed: each object changes as a Poisson process whose mean interval is drawn log-uniform between an hour and a year; an object is taken \
             for fresh for 20% of its age when it was fetched, at most three days, as Squid does. A validation renews the metadata in the object's \
             file or segment; a changed object gets a new one, and then the old one is let go."
                .into(),
        ],
        ..Section::default()
    }
}

/// Returns the section on replacement that knows the pages in memory.
pub fn residency_section(finite: &Outcomes) -> Section {
    let shown: Vec<RunResult> = chosen(finite, &["lru", "lru_resident", "fbc", "fbc_resident"]);
    let over = |of: &str, to: &str| {
        let found = ratio(finite, of, to, ios);
        unclaimed(&format!("{of}_over_{to}"), &format!("{of}'s I/Os over {to}'s"), Unit::Ratio, found)
    };
    let hits = |of: &str, to: &str| {
        let found = finite.of([of, to], |[of, to]| Some(of.hit_ratio() - to.hit_ratio()));
        unclaimed(
            &format!("{of}_less_{to}_hits"),
            &format!("{of}'s hit ratio less {to}'s"),
            Unit::Points,
            found,
        )
    };
    Section {
        anchor: "residency".into(),
        title: "Extension: replacement that knows which pages are in memory".into(),
        question: "\"Managing small memory mapped caches requires a tighter synchronization with the operating system\" (7). What does it bring to ask, \
                   before an object is replaced, whether its page is in memory?"
            .into(),
        figures: vec![bars("extension-residency", "Disk I/Os with replacement that asks for pages in memory", &shown)],
        findings: vec![
            over("lru_resident", "lru"),
            hits("lru_resident", "lru"),
            over("fbc_resident", "fbc"),
            hits("fbc_resident", "fbc"),
        ],
        tables: vec![table("The runs", &shown)],
        notes: vec![format!(
            "lru_resident takes, of the {0} least recently used objects of the size, the first whose page is in memory; fbc_resident, of the next {0} \
             that fbc would take, the first such, and its hand goes on behind it. Where none is found they do as lru and fbc do.",
            SegmentPolicy::RESIDENT_WINDOW
        )],
        ..Section::default()
    }
}

/// Returns the section on SEQ below LRU and FBC.
pub fn sequence_section(finite: &Outcomes, sequences: &[RunResult]) -> Section {
    let mut shown = chosen(finite, &["lru", "fbc"]);
    shown.extend(sequences.iter().cloned());
    let all = Outcomes { modelled: shown, real: Vec::new() };
    let over = |key: &str, of: &str, to: &str| {
        unclaimed(
            key,
            &format!("{of}: I/Os over those of {to} with LRU pages"),
            Unit::Ratio,
            ratio(&all, of, to, ios),
        )
    };
    Section {
        anchor: "sequences".into(),
        title: "Extension: SEQ page replacement below cyclic object replacement".into(),
        question: "\"We are currently investigating the combined performance of SEQ buffer caches and cyclic-frequency-based web caches\" (6). What does it come to?"
            .into(),
        figures: vec![bars("extension-sequences", "Disk I/Os under LRU and SEQ page replacement", &all.modelled)],
        findings: vec![
            over("lru_seq", "lru, SEQ pages", "lru"),
            over("fbc_seq", "fbc, SEQ pages", "fbc"),
            over("lru_seq_short", "lru, SEQ pages from 4", "lru"),
            over("fbc_seq_short", "fbc, SEQ pages from 4", "fbc"),
        ],
        tables: vec![table("The runs", &all.modelled)],
        notes: vec![
            "SEQ as Glass and Cao have it (SIGMETRICS 1997): long sequences of page faults are replaced most recently used first, all else by LRU. A \
             sequence counts from 20 pages on as they published it; with four the model shows what a cyclic cache could gain whose hands, one a size, \
             make several short sequences at once."
                .into(),
        ],
        ..Section::default()
    }
}

fn chosen(outcomes: &Outcomes, names: &[&str]) -> Vec<RunResult> {
    names
        .iter()
        .filter_map(|name| outcomes.modelled.iter().find(|outcome| outcome.name == *name).cloned())
        .collect()
}

fn unclaimed(key: &str, what: &str, unit: Unit, found: [Option<f64>; 2]) -> Finding {
    Finding::new(key, what, unit, Claim::Words("–".into())).found(&found)
}

fn bars(name: &str, title: &str, outcomes: &[RunResult]) -> Figure {
    let bars = outcomes.iter().map(|outcome| {
        Bar::new(&outcome.name, &[outcome.files.count() as f64, outcome.mapped.count() as f64])
    });
    let bars = Bars {
        axis: Axis::linear("disk I/Os in the measured part", Unit::Count),
        parts: vec!["file system".into(), "memory-mapped file".into()],
        bars: bars.collect(),
        claimant: "paper".into(),
    };
    Figure::new(name, title, "One bar a run.", Chart::Bars(bars))
}
