//! Each policy by the rules of the paper's figures, and the properties common to all.

use super::*;
use proptest::prelude::*;

/// Back-ends with the loads of a test.
#[derive(Default)]
struct Seen {
    loads: Vec<u32>,
    now: u64,
    holder: Option<usize>,
    victims: Vec<Option<u64>>,
}

impl Seen {
    fn loads(loads: &[u32]) -> Self {
        Self { loads: loads.to_vec(), ..Self::default() }
    }
}

impl Backends for Seen {
    fn loads(&self) -> &[u32] {
        &self.loads
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn holder(&self, _target: u64) -> Option<usize> {
        self.holder
    }

    fn next_victim_used(&self, backend: usize) -> Option<u64> {
        self.victims.get(backend).copied().flatten()
    }
}

const PAI: Thresholds = Thresholds::PAI;

#[test]
fn round_robin_goes_round_and_heeds_loads_and_weights() {
    let mut even = RoundRobin::default();
    let idle = Seen::loads(&[0; 3]);
    let chosen: Vec<_> = (0..7).map(|target| even.choose(target, &idle).unwrap()).collect();
    assert_eq!(chosen, [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(even.choose(9, &Seen::loads(&[3, 2, 5])), Some(1));
    let mut weighted = RoundRobin::weighted(vec![1.0, 3.0]);
    let mut seen = Seen::loads(&[0, 0]);
    for target in 0..400 {
        let chosen = weighted.choose(target, &seen).unwrap();
        seen.loads[chosen] += 1;
    }
    assert_eq!(seen.loads, [100, 300], "three times the requests for three times the weight");
}

#[test]
fn locality_moves_lost_back_ends_targets_only() {
    let (all, lost) = (Seen::loads(&[0; 8]), Seen::loads(&[0, 0, 0, OUT_OF_SERVICE, 0, 0, 0, 0]));
    let mut counts = [0u32; 8];
    for target in 0..16_000 {
        let (before, after) =
            (Locality.choose(target, &all).unwrap(), Locality.choose(target, &lost).unwrap());
        counts[before] += 1;
        assert!(if before == 3 { after != 3 } else { after == before });
    }
    assert!(counts.iter().all(|count| (1800..2200).contains(count)), "{counts:?}");
}

#[test]
fn global_cache_asks_holder_or_oldest_victim() {
    let mut policy = GlobalCache::default();
    let mut seen = Seen { victims: vec![Some(7), Some(3), Some(9)], ..Seen::loads(&[0; 3]) };
    assert_eq!(policy.choose(1, &seen), Some(1), "the oldest of all goes");
    seen.victims[2] = None;
    assert_eq!(policy.choose(1, &seen), Some(2), "room costs nothing");
    seen.holder = Some(0);
    assert_eq!(policy.choose(1, &seen), Some(0));
    seen.victims = vec![None; 3];
    assert_eq!(policy.choose(1, &seen), Some(0));
    seen.holder = None;
    let filled: Vec<_> = (0..4).map(|target| policy.choose(target, &seen).unwrap()).collect();
    assert_eq!(filled, [0, 1, 2, 0], "empty caches fill in turn");
    seen.holder = Some(0);
    seen.loads[0] = OUT_OF_SERVICE;
    seen.victims = vec![Some(7), Some(3), None];
    assert_eq!(policy.choose(1, &seen), Some(2));
}

#[test]
fn lard_follows_figure_2() {
    let mut lard = Lard::new(PAI, 100);
    assert_eq!(lard.choose(5, &Seen::loads(&[9, 4, 6])), Some(1), "first to the least loaded");
    for (loads, chosen, why) in [
        ([0, 65, 0], 1, "T_high is not above T_high"),
        ([30, 129, 30], 1, "overloaded, but nobody is below T_low"),
        ([30, 130, 31], 0, "2 T_high is too much whatever the others do"),
        ([66, 0, 25], 1, "above T_high while another is below T_low"),
        ([30, 65, 24], 1, "and there it stays"),
        ([30, OUT_OF_SERVICE, 29], 2, "a lost back-end answers nothing"),
    ] {
        assert_eq!(lard.choose(5, &Seen::loads(&loads)), Some(chosen), "{why}");
    }
    assert_eq!(lard.choose(105, &Seen::loads(&[0, 0, 8])), Some(2), "targets of one place share it");
    assert_eq!(PAI.admitted(4), 3 * 65 + 24);
    assert_eq!(PAI.admitted(0), 24);
}

#[test]
fn lard_replicated_follows_figure_3() {
    let mut lard = LardWithReplication::new(PAI, 10, 20);
    let at = |now, loads: &[u32]| Seen { now, ..Seen::loads(loads) };
    assert_eq!(lard.choose(5, &at(0, &[9, 4, 6])), Some(1));
    assert_eq!(lard.choose(5, &at(1, &[10, 66, 6])), Some(2), "the least loaded joins");
    assert_eq!(lard.replicas(5), 2);
    assert_eq!(lard.choose(5, &at(2, &[0, 40, 50])), Some(1), "the least loaded of the set, not of all");
    assert_eq!(lard.choose(5, &at(21, &[0, 40, 50])), Some(1));
    assert_eq!(lard.replicas(5), 2, "it has rested for K and no longer");
    assert_eq!(lard.choose(5, &at(22, &[0, 40, 50])), Some(1));
    assert_eq!(lard.replicas(5), 1, "its most loaded leaves");
    assert_eq!(lard.choose(5, &at(23, &[0, OUT_OF_SERVICE, 3])), Some(0));
    assert_eq!(lard.replicas(5), 1, "a lost back-end is no member");
}

#[test]
fn hot_target_needs_several_back_ends() {
    // Every answer takes long: LARD keeps moving the target, LARD/R spreads it.
    let mut lard = LardWithReplication::new(PAI, 1, 1_000_000);
    let mut seen = Seen::loads(&[0; 4]);
    for _ in 0..PAI.admitted(4) {
        let chosen = lard.choose(0, &seen).unwrap();
        seen.loads[chosen] += 1;
    }
    assert!(lard.replicas(0) >= 3);
    assert!(seen.loads.iter().all(|load| *load < 2 * PAI.high));
}

fn all() -> Vec<Box<dyn Distribution>> {
    vec![
        Box::new(RoundRobin::default()),
        Box::new(RoundRobin::weighted(vec![2.0, 0.0, f64::NAN])),
        Box::new(Locality),
        Box::new(GlobalCache::default()),
        Box::new(Lard::new(PAI, 16)),
        Box::new(LardWithReplication::new(PAI, 16, 5)),
    ]
}

proptest! {
    #[test]
    fn whoever_is_chosen_serves(steps in prop::collection::vec((any::<u64>(), prop::collection::vec(prop_oneof![0u32..200, Just(OUT_OF_SERVICE)], 0..7)), 1..60)) {
        for mut policy in all() {
            for (now, (target, loads)) in steps.iter().enumerate() {
                let seen = Seen { now: now as u64, ..Seen::loads(loads) };
                match policy.choose(*target, &seen) {
                    Some(chosen) => prop_assert!(loads[chosen] != OUT_OF_SERVICE),
                    None => prop_assert!(loads.iter().all(|load| *load == OUT_OF_SERVICE)),
                }
            }
        }
    }
}
