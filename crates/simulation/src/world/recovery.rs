//! Recovery in virtual time: hit ratios second by second while a node fails, or all are restarted.
//! The time until purges of a cut are made up for stands beside them.
//!
//! Memberships are the product's own. Counts are of many seeds together, so that a second has some
//! thousand requests.

use super::*;
use crate::faults::Recovery;
use shoal_cooperation::MemberState;

const NODES: usize = 5;

/// Node that fails.
const VICTIM: usize = 4;

/// Time at which a fault begins, and the time for which the run goes on.
const BEGIN: u64 = 12;
const END: u64 = 40;

const SEEDS: u64 = 12;

/// Requests and fetches in each second, at the nodes that did not fail, and at the one that did.
type Seconds = Vec<[(u64, u64); 2]>;

fn world(seed: u64) -> World {
    let fault = FaultKind::Calm;
    let settings = Settings {
        seed,
        fault,
        nodes: NODES,
        events: u64::MAX,
        mutation: None,
        levels: false,
        gossips: true,
    };
    World::new(settings)
}

/// Handles all events until a time. Purges of the usual kind are left out.
fn run_until(world: &mut World, until: Duration) {
    while world.queue.next_time().is_some_and(|at| at <= until) {
        let (at, event) = world.queue.pop().expect("there is a next one");
        world.now = at;
        if !matches!(event, Event::Purge) {
            world.handle(event);
        }
        world.oracle.check_deadlines(at);
        assert!(world.oracle.violation().is_none(), "{:?}", world.oracle.violation());
    }
    world.now = until;
}

/// Counts the seconds of a run in which `fault` is called with each second from [`BEGIN`] on.
fn seconds(seed: u64, fault: impl Fn(&mut World, u64)) -> Seconds {
    let mut world = world(seed);
    let mut seconds = Vec::new();
    for second in 0..END {
        if second >= BEGIN {
            fault(&mut world, second - BEGIN);
        }
        let before = world.traffic.clone();
        run_until(&mut world, Duration::from_secs(second + 1));
        let mut counts = [(0, 0); 2];
        for (node, (now, before)) in world.traffic.iter().zip(before).enumerate() {
            let count = &mut counts[usize::from(node == VICTIM)];
            *count = (count.0 + now.0 - before.0, count.1 + now.1 - before.1);
        }
        seconds.push(counts);
    }
    seconds
}

/// Returns the hit ratio of each second over all seeds, relative to the mean before the fault.
/// `part` is 0 for the nodes that did not fail, 1 for the other one, `None` for all.
fn ratios(fault: impl Fn(&mut World, u64), part: Option<usize>) -> Vec<f64> {
    let runs: Vec<Seconds> = (1..=SEEDS).map(|seed| seconds(seed, &fault)).collect();
    let ratio = |second: usize| {
        let counted = runs.iter().flat_map(|run| run[second].iter().enumerate());
        let counted = counted.filter(|(of, _)| part.is_none_or(|part| part == *of));
        let (asked, fetched) = counted.fold((0, 0), |sum, (_, count)| (sum.0 + count.0, sum.1 + count.1));
        1.0 - fetched as f64 / asked as f64
    };
    let all: Vec<f64> = (0..END as usize).map(ratio).collect();
    let before = &all[BEGIN as usize / 2..BEGIN as usize];
    let mean = before.iter().sum::<f64>() / before.len() as f64;
    assert!(mean > 0.75, "the cluster hits before the fault: {mean}");
    all[BEGIN as usize..].iter().map(|ratio| ratio / mean).collect()
}

/// Returns the second after which no hit ratio is below 95% of before.
fn recovered(ratios: &[f64]) -> usize {
    ratios.iter().rposition(|ratio| *ratio < 0.95).map_or(0, |last| last + 1)
}

fn pairs() -> Vec<(usize, usize)> {
    (0..NODES).filter(|node| *node != VICTIM).flat_map(|node| [(node, VICTIM), (VICTIM, node)]).collect()
}

fn parted(world: &mut World, second: u64) {
    match second {
        0 => world.cut(&pairs()),
        15 => world.heal(Recovery::Mend(pairs())),
        _ => {}
    }
}

#[test]
fn others_of_a_parted_node_recover_in_ten_seconds() {
    let ratios = ratios(parted, Some(0));
    assert!(recovered(&ratios) <= 10, "{ratios:.2?}");
}

#[test]
fn others_of_a_killed_node_recover_in_ten_seconds() {
    let killed = |world: &mut World, second: u64| {
        if second == 0 {
            world.kill(VICTIM, false, Duration::from_secs(15));
        }
    };
    let ratios = ratios(killed, Some(0));
    assert!(recovered(&ratios) <= 10, "{ratios:.2?}");
}

#[test]
fn rolling_restart_keeps_the_hit_ratio() {
    // A node drains for 3 s, is down for 2 s, and the next one begins a second later.
    let rolling = |world: &mut World, second: u64| {
        let node = (second / 6) as usize;
        if second.is_multiple_of(6) && node < 4 {
            world.leave(node);
        }
    };
    let ratios = ratios(rolling, None);
    assert_eq!(recovered(&ratios), 0, "{ratios:.2?}");
}

/// Returns the time from the end of a cut until all nodes have all purges.
fn made_up(seed: u64, seconds: u64) -> Duration {
    let mut world = world(seed);
    run_until(&mut world, Duration::from_secs(5));
    world.cut(&pairs());
    let healed = Duration::from_secs(5 + seconds) + Duration::from_millis(seed * 83);
    run_until(&mut world, healed - Duration::from_secs(2));
    for node in [0, VICTIM] {
        let object = world.draw_object();
        world.act(node, |node, near| node.operator_purges(scope_of(object), near));
    }
    run_until(&mut world, healed);
    world.heal(Recovery::Mend(pairs()));
    loop {
        let hashes: Vec<u64> = world.nodes.iter().map(|node| node.purging.vector_hash()).collect();
        if hashes.iter().all(|hash| *hash == hashes[0]) {
            return world.now - healed;
        }
        assert!(world.now < healed + Duration::from_secs(60), "never made up for");
        let next = world.now + Duration::from_millis(10);
        run_until(&mut world, next);
    }
}

#[test]
fn purges_of_a_cut_are_made_up_within_a_second() {
    for seconds in [4, 15, 30] {
        let mut times: Vec<_> = (1..=SEEDS).map(|seed| made_up(seed, seconds)).collect();
        times.sort_unstable();
        assert!(times[SEEDS as usize - 1] <= Duration::from_secs(1), "{seconds} s: {times:?}");
    }
}

#[test]
fn restarted_node_is_a_home_again_within_seconds() {
    for seed in 1..=3 {
        let mut world = world(seed);
        run_until(&mut world, Duration::from_secs(5));
        world.leave(VICTIM);
        run_until(&mut world, Duration::from_secs(13));
        let id = world.id(VICTIM);
        for node in &world.nodes {
            assert_eq!(node.view.member(id).map(|member| member.state), Some(MemberState::In));
        }
    }
}
