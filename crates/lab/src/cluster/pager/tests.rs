//! Cost of a lost server for each redundancy, with pages that have contents; and each redundancy's
//! transfers and memory.

use super::*;
use crate::cluster::{Access, ClusterCounts, RunPlan, simulate_with};
use shoal_trace::Random;

const PAGES: usize = 400;

/// Returns a redundancy by its number, for a number of servers.
fn redundancy(which: usize, servers: usize) -> Box<dyn Redundancy> {
    match which {
        0 => Box::new(NoRedundancy::new(PAGES)),
        1 => Box::new(Mirrors::new(PAGES)),
        2 => Box::new(Parity::new(PAGES, servers)),
        _ => Box::new(ParityLog::new(PAGES, servers)),
    }
}

fn pager(which: usize, size: &ClusterSize) -> Pager {
    let is_idle: Vec<bool> = (0..size.nodes.len()).map(|node| node > 0).collect();
    Pager {
        redundancy: redundancy(which, size.nodes.len() - 1),
        ..Pager::new(size, &is_idle, NoRedundancy::new(0))
    }
}

/// Returns a cluster of one client with 40 frames, and servers with these numbers of frames.
fn size(servers: &[usize]) -> ClusterSize {
    ClusterSize { nodes: [&[40], servers].concat(), server: 0, objects: PAGES }
}

/// Returns requests for all pages; a third of them change their page.
fn requests(count: usize, seed: u64) -> impl Iterator<Item = Access> {
    let mut random = Random::new(seed);
    (0..count).map(move |_| Access {
        node: 0,
        object: random.below(PAGES as u64) as u32,
        is_write: random.below(3) == 0,
    })
}

fn run(which: usize, size: &ClusterSize, count: usize, plan: RunPlan) -> ClusterCounts {
    simulate_with(&mut pager(which, size), size, requests(count, 5), plan)
}

#[test]
fn whichever_server_is_lost_no_protected_page_is() {
    for (which, protects) in [(0, false), (1, true), (2, true), (3, true)] {
        for lost in 1..=5 {
            // plenty of room, just enough, and far too little
            for frames in [300, 120, 30] {
                let plan = RunPlan { failure: Some((3000, lost)), ..RunPlan::default() };
                let counts = run(which, &size(&[frames; 5]), 8000, plan);
                assert_eq!(
                    counts.lost == 0,
                    protects,
                    "{which}: server {lost} of {frames} frames: {}",
                    counts.lost
                );
                assert_eq!(counts.requests, 8000);
            }
        }
    }
}

#[test]
fn servers_of_any_number_and_size_lose_no_page() {
    for which in 0..4 {
        for servers in [&[][..], &[50], &[50, 7], &[200, 1, 90, 0, 33]] {
            let counts = run(which, &size(servers), 5000, RunPlan::default());
            assert_eq!(counts.lost, 0, "{which} on {servers:?}");
        }
    }
}

#[test]
fn page_outs_take_the_transfers_of_the_paper() {
    // With five servers a group has four pages. Every page is kept, so that each page-out is of a
    // changed page.
    let counts = |which: usize| {
        let size = size(&[2000; 5]);
        let mut pager = pager(which, &size);
        let counts =
            simulate_with(&mut pager, &size, requests(20_000, 5), RunPlan { warm_up: 10_000, failure: None });
        assert_eq!(counts.disk_writes, 0);
        counts.forwarded as f64
    };
    let single = counts(0);
    for (which, transfers) in [(1, 2.0), (2, 2.0), (3, 1.25)] {
        assert!((counts(which) / single - transfers).abs() < 2e-3, "{which}: {}", counts(which) / single);
    }
}

#[test]
fn memory_holds_as_many_pages_as_the_paper_says() {
    // Five servers of 20 frames keep all pages, half, four fifths, and ten elevenths of four
    // fifths.
    for (which, kept) in [(0, 100), (1, 50), (2, 80), (3, 72)] {
        let size = size(&[20; 5]);
        let mut pager = pager(which, &size);
        simulate_with(&mut pager, &size, requests(20_000, 5), RunPlan::default());
        let pages = (0..PAGES as u32).filter(|page| pager.redundancy.place(*page).is_some()).count();
        assert_eq!(pages, kept, "{which}");
    }
}

#[test]
fn cleaner_makes_room_and_keeps_written_pages() {
    let mut servers = Servers::new((0..5).map(|node| (node, 30)));
    let mut logging = ParityLog::new(PAGES, 5);
    let mut says = vec![None; PAGES];
    let mut random = Random::new(9);
    for _ in 0..30_000 {
        let page = random.below(150) as u32;
        let contents = random.bits();
        logging.put(&mut servers, page, contents);
        says[page as usize] = logging.place(page).map(|_| contents);
    }
    assert!(logging.cleaned() > 1000, "{}", logging.cleaned());
    let check = |logging: &ParityLog, servers: &Servers| {
        for (page, contents) in (0u32..).zip(&says) {
            assert_eq!(logging.place(page).map(|place| servers.read(place)), *contents, "page {page}");
        }
    };
    check(&logging, &servers);
    assert_eq!(says.iter().flatten().count(), 4 * 30 * 10 / 11, "as many as may be active");
    servers.lose(1);
    let rebuilt = logging.lose(&mut servers, 1);
    servers.forget(1);
    for (page, contents) in &rebuilt.homeless {
        assert_eq!(*contents, says[*page as usize], "a page without a home is still told");
        says[*page as usize] = None;
    }
    let check_after = |logging: &ParityLog, servers: &Servers| {
        for (page, contents) in (0u32..).zip(&says) {
            assert_eq!(logging.place(page).map(|place| servers.read(place)), *contents, "page {page}");
        }
    };
    check_after(&logging, &servers);
    assert!(rebuilt.transfers > 0);
}

#[test]
fn a_client_that_is_lost_takes_nothing_of_the_servers() {
    let plan = RunPlan { failure: Some((3000, 0)), ..RunPlan::default() };
    let counts = run(2, &size(&[300; 5]), 8000, plan);
    assert_eq!(counts.requests, 3000, "nobody asks any more");
    assert_eq!(counts.rebuilt, 0);
    assert!(counts.lost > 0, "what it had changed in its own memory is lost");
}
