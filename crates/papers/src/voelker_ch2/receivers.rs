//! N-chance by the blocks that a receiver searches for a duplicate: all, as the paper has it, or
//! the oldest few.

use super::{Progress, SchemeOptions, Unit, WebRequests, ratio, systems};
use shoal_lab::cluster::ClusterCounts;
use shoal_lab::report::{Section, Table};

pub(super) fn section(web: &WebRequests, progress: &mut dyn Progress) -> Section {
    progress.begin("receivers of N-chance", SEARCHED.len() as u64 + 1);
    let size = systems::size(web);
    let mut run = |system: &str, searched: usize| {
        progress.done(1);
        web.shared_with(system, &size, SchemeOptions { searched, ..web.options() })
    };
    let greedy = run("greedy", 0);
    let by_searched: Vec<(usize, ClusterCounts)> =
        SEARCHED.iter().map(|searched| (*searched, run("n_chance", *searched))).collect();
    let heading =
        ["a receiver searches", "own memory", "another's", "server's", "disk", "mean", "server load"];
    let mut table = Table::new("N-chance by the blocks that a receiver searches", &heading);
    let mut row = |name: &str, counts: &ClusterCounts| {
        let shares = systems::shares(counts).map(|share| Unit::Share.shown(share));
        let [mean, load] =
            [Unit::Milliseconds.shown(counts.mean_ms()), Unit::Ratio.shown(counts.load_per_request())];
        let [own, other, server, disk] = shares.each_ref().map(String::as_str);
        table.row(&[name, own, other, server, disk, &mean, &load]);
    };
    for (searched, counts) in &by_searched {
        row(&name(*searched), counts);
    }
    row("greedy forwarding", &greedy);
    let load = |searched: usize| {
        let found = by_searched.iter().find(|one| one.0 == searched);
        found.map_or(f64::NAN, |one| one.1.load_per_request()) / greedy.load_per_request()
    };
    Section {
        anchor: "receivers".into(),
        title: "The receiver of a last copy".into(),
        question: "What does it cost that a receiver evicts duplicates, however recently they were used?".into(),
        findings: vec![
            ratio("all_searched", "N-chance, all searched: server load over greedy forwarding's", "below 1", load(0)),
            ratio("eight_searched", "N-chance, eight searched: the same", "below 1", load(8)),
        ],
        tables: vec![table],
        notes: vec![
            "The receiver of a singlet discards its oldest duplicate (Dahlin et al. 1994, section 2.4): the oldest of all its blocks, so that a duplicate in use gives way to a singlet that nobody may ask for again. \
             \"N-chance favors singlets over duplicates, even when duplicates have been recently referenced\" (section 2.1.3)."
                .into(),
            "A receiver that searches only its oldest blocks keeps duplicates in use. It has the server load that the paper found, and is another algorithm.".into(),
        ],
        ..Section::default()
    }
}

fn name(searched: usize) -> String {
    if searched == 0 { "all, as printed".into() } else { format!("{searched} oldest") }
}

/// Blocks that a receiver searches; 0 for all.
const SEARCHED: [usize; 6] = [0, 512, 64, 16, 8, 1];
