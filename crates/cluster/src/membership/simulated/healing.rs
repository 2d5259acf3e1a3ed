//! Time in which a cut that has ended is noticed.

use super::*;

/// Cuts some nodes off for some seconds. Returns the time from the end of the cut until all nodes
/// know all.
fn healed_after(nodes: usize, cut: usize, seconds: u64, seed: u64) -> Duration {
    let mut cluster = acquainted(nodes, seed);
    cluster.run(Duration::from_secs(10));
    cluster.cut = Some(cut);
    cluster.run(Duration::from_millis(seconds * 1000 + seed * 37 % 1000));
    cluster.cut = None;
    cluster.until(Duration::from_secs(30), |cluster| cluster.all_know(nodes))
}

#[test]
fn short_cut_of_one_node_heals_within_a_second() {
    for seconds in [15, 30] {
        let mut times: Vec<_> = (1..=20).map(|seed| healed_after(4, 3, seconds, seed)).collect();
        times.sort_unstable();
        assert!(times[19] <= Duration::from_millis(800), "{seconds} s: {times:?}");
    }
    let pairs: Vec<_> = (1..=10).map(|seed| healed_after(4, 2, 30, seed)).collect();
    assert!(pairs.iter().all(|time| *time <= Duration::from_millis(800)), "{pairs:?}");
}
