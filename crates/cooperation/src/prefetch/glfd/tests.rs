//! GLFD against the least cost of all ways to replace pages, on clusters small enough to try them
//! all.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// Node that holds each page, or `None`.
type State = Vec<Option<u8>>;

/// Returns the least cost, by trying every victim and every destination. A page comes to the node
/// that needs it. When that node has no frame left, one of its other pages is dropped, moves to a
/// free frame, or replaces another page.
fn least_cost(frames: &[usize], references: &[Reference], times: &AccessTimes) -> f64 {
    let pages = references.iter().map(|reference| reference.page as usize + 1).max().unwrap_or(0);
    let mut states: HashMap<State, f64> = HashMap::from([(vec![None; pages], 0.0)]);
    for reference in references {
        let mut next: HashMap<State, f64> = HashMap::new();
        for (state, cost) in states {
            let from = state[reference.page as usize];
            let here = Some(reference.node as u8);
            let extra = match from {
                from if from == here => 0.0,
                Some(_) => times.global_seconds(),
                None => times.disk_seconds(),
            };
            let cost = cost + times.local_seconds() + extra;
            let mut state = state;
            state[reference.page as usize] = here;
            for choice in choices(state, reference, frames) {
                let best = next.entry(choice).or_insert(f64::INFINITY);
                *best = best.min(cost);
            }
        }
        states = next;
    }
    states.into_values().fold(f64::INFINITY, f64::min)
}

/// Returns the states that a node may leave after it has just got a page.
fn choices(state: State, reference: &Reference, frames: &[usize]) -> Vec<State> {
    let held = |state: &State, node: usize| state.iter().filter(|at| **at == Some(node as u8)).count();
    if held(&state, reference.node) <= frames[reference.node] {
        return vec![state];
    }
    let mut all = Vec::new();
    for leaving in (0..state.len()).filter(|page| *page != reference.page as usize) {
        if state[leaving] != Some(reference.node as u8) {
            continue;
        }
        let mut gone = state.clone();
        gone[leaving] = None;
        all.push(gone.clone());
        for to in (0..frames.len()).filter(|to| *to != reference.node) {
            let mut sent = gone.clone();
            sent[leaving] = Some(to as u8);
            if held(&sent, to) <= frames[to] {
                all.push(sent);
                continue;
            }
            for given_up in (0..state.len()).filter(|page| *page != leaving && sent[*page] == Some(to as u8))
            {
                let mut replaced = sent.clone();
                replaced[given_up] = None;
                all.push(replaced);
            }
        }
    }
    all
}

fn asks(list: &[(usize, u32)]) -> Vec<Reference> {
    list.iter().map(|(node, page)| Reference { node: *node, page: *page }).collect()
}

fn check(frames: &[usize], references: &[Reference], times: &AccessTimes) -> Result<(), TestCaseError> {
    let counts = replay(frames, references).expect("nodes with frames");
    prop_assert_eq!(counts.local + counts.global + counts.disk, references.len() as u64);
    let (found, least) = (counts.cost_seconds(times), least_cost(frames, references, times));
    prop_assert!(found >= least - 1e-9, "nothing costs less than the least: {} < {}", found, least);
    prop_assert!(
        found <= least * times.bound() + 1e-9,
        "{} > {} × {}, {:?}",
        found,
        least,
        times.bound(),
        counts
    );
    Ok(())
}

/// Replays by looking at every page and every later reference. A page is local on the node that
/// used it last. `labels_sent_as_global` makes each sent page global until its next use.
fn replay_slowly(frames: &[usize], references: &[Reference], labels_sent_as_global: bool) -> Counts {
    let pages = references.iter().map(|reference| reference.page as usize + 1).max().unwrap_or(0);
    let (mut at, mut is_sent): (State, Vec<bool>) = (vec![None; pages], vec![false; pages]);
    let (mut user, mut counts) = (vec![usize::MAX; pages], Counts::default());
    for (place, Reference { node, page }) in references.iter().copied().enumerate() {
        let later = |page: usize, by: Option<usize>| {
            let is_use = |one: &Reference| one.page as usize == page && by.is_none_or(|by| one.node == by);
            references[place + 1..].iter().position(is_use).unwrap_or(usize::MAX)
        };
        let page = page as usize;
        let held = |at: &State, node: usize| at.iter().filter(|one| **one == Some(node as u8)).count();
        let leaving = |at: &State, is_sent: &[bool], user: &[usize]| {
            let here = || (0..pages).filter(|one| at[*one] == Some(node as u8));
            let is_global = |one: &usize| user[*one] != node || labels_sent_as_global && is_sent[*one];
            let global = here().filter(is_global).max_by_key(|one| (later(*one, None), *one));
            global.or_else(|| here().max_by_key(|one| (later(*one, Some(node)), *one)))
        };
        let from = at[page].take();
        match from {
            Some(from) if usize::from(from) == node => counts.local += 1,
            Some(_) => counts.global += 1,
            None => counts.disk += 1,
        }
        if held(&at, node) >= frames[node] {
            let free = (0..frames.len()).find(|one| held(&at, *one) < frames[*one]);
            let to = match (from, free) {
                (Some(from), _) => Some(usize::from(from)),
                (None, Some(free)) => Some(free),
                (None, None) => {
                    let resident = (0..pages).filter(|one| at[*one].is_some());
                    let last = resident.max_by_key(|one| (later(*one, None), at[*one], *one));
                    last.and_then(|last| at[last].take()).map(usize::from)
                }
            };
            if let Some(to) = to.filter(|to| *to != node)
                && let Some(sent) = leaving(&at, &is_sent, &user)
            {
                (at[sent], is_sent[sent]) = (Some(to as u8), true);
            }
        }
        (at[page], is_sent[page], user[page]) = (Some(node as u8), false, node);
    }
    counts
}

fn times() -> impl Strategy<Value = AccessTimes> {
    (0.0..0.5f64, 0.001..0.9f64)
        .prop_map(|(local, global)| AccessTimes::new(local * global, global, 1.0).expect("rising"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Theorem of section 4.2.3, with pages that each node has for itself.
    #[test]
    fn private_pages_cost_no_more_than_the_bound(
        frames in proptest::collection::vec(1usize..=2, 1..=3),
        list in proptest::collection::vec((0usize..3, 0u32..4), 1..=20),
        times in times(),
    ) {
        let nodes = frames.len();
        let own: Vec<(usize, u32)> = list.iter().map(|(node, page)| (node % nodes, (node % nodes) as u32 * 4 + page)).collect();
        check(&frames, &asks(&own), &times)?;
    }

    /// Theorem of section 4.2.3, with pages that all nodes use.
    #[test]
    fn shared_pages_cost_no_more_than_the_bound(
        frames in proptest::collection::vec(1usize..=2, 1..=3),
        list in proptest::collection::vec((0usize..3, 0u32..6), 1..=18),
        times in times(),
    ) {
        let nodes = frames.len();
        let shared: Vec<(usize, u32)> = list.iter().map(|(node, page)| (node % nodes, *page)).collect();
        check(&frames, &asks(&shared), &times)?;
    }

    /// The same counts as by looking at every page and every later reference.
    #[test]
    fn every_page_looked_at_gives_the_same_counts(
        frames in proptest::collection::vec(1usize..=4, 1..=4),
        list in proptest::collection::vec((0usize..4, 0u32..9), 1..=60),
    ) {
        let nodes = frames.len();
        let list: Vec<(usize, u32)> = list.iter().map(|(node, page)| (node % nodes, *page)).collect();
        let references = asks(&list);
        prop_assert_eq!(replay(&frames, &references), Ok(replay_slowly(&frames, &references, false)));
    }

    /// With one node it is Belady's rule, which is best.
    #[test]
    fn one_node_alone_is_best(frames in 1usize..=3, list in proptest::collection::vec(0u32..5, 1..=14)) {
        let references = asks(&list.iter().map(|page| (0, *page)).collect::<Vec<_>>());
        let times = AccessTimes::TESTBED;
        let found = replay(&[frames], &references).expect("frames").cost_seconds(&times);
        prop_assert!((found - least_cost(&[frames], &references, &times)).abs() < 1e-12);
    }
}

#[test]
fn global_pages_leave_a_node_first() {
    // Page 0 is put to node 1. When node 1 needs a frame, page 0 moves on to node 2. Yet node 1
    // never needs page 0, and needs its own page 4 last.
    let list = [(0, 0), (0, 1), (0, 2), (1, 4), (1, 5), (0, 1), (0, 2), (0, 0), (1, 4)];
    assert_eq!(replay(&[2, 2, 1], &asks(&list)), Ok(Counts { local: 3, global: 1, disk: 5 }));
}

#[test]
fn page_sent_home_is_local_there() {
    // Instances of up to three nodes with pages of their own. Where a label as global decides, the
    // page leaves its user again, and the cost is greater.
    let mut drawn = 0;
    let mut below = |bound: u32| {
        drawn += 1;
        (shoal_core::mixed(drawn) >> 32) as u32 % bound
    };
    let (mut differ, mut dearer) = (0, 0);
    for _ in 0..3000 {
        let frames: Vec<usize> = (0..2 + below(2)).map(|_| 1 + below(3) as usize).collect();
        let list = (0..30).map(|_| {
            let node = below(frames.len() as u32);
            (node as usize, node * 5 + below(5))
        });
        let references = asks(&list.collect::<Vec<_>>());
        let found = replay(&frames, &references).expect("frames");
        let labelled = replay_slowly(&frames, &references, true);
        let cost = |counts: &Counts| counts.cost_seconds(&AccessTimes::TESTBED);
        differ += u32::from(found != labelled);
        dearer += u32::from(cost(&labelled) > cost(&found));
    }
    assert!(differ > 5 && dearer * 2 > differ, "{differ} differ, {dearer} dearer");
}

#[test]
fn nodes_without_frames_cannot_ask() {
    assert_eq!(replay(&[0, 3], &asks(&[(0, 1)])), Err(PrefetchError::Node { node: 0 }));
    assert_eq!(replay(&[], &asks(&[(2, 1)])), Err(PrefetchError::Node { node: 2 }));
    assert_eq!(replay(&[], &[]), Ok(Counts::default()));
}
