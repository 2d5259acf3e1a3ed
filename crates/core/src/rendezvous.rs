//! Weighted rendezvous hashing: each holder has a score for a key, and the highest has the key.
//!
//! Thaler and Ravishankar, *Using name-based mappings to increase hit rates*, IEEE/ACM Transactions
//! on Networking 1998. A score depends on key and holder alone. The keys of a lost holder therefore
//! go to the holder with the second score, and no other key moves. Weights follow Schindelhauer and
//! Schomaker, *Weighted distributed hash tables*, SPAA 2005: a score of −w / ln u for uniform u
//! wins with probability w / Σw. Cost: O(holders) a key, one logarithm each; meant for a few
//! hundred holders at most.

use crate::Key;

/// Returns the score of a holder with this number and weight for a key.
pub fn rendezvous_score(key: Key, holder: u64, weight: f64) -> f64 {
    let bits = mixed(key.low() ^ mixed(holder.wrapping_add(key.high())));
    // From 2^-54 to just below 1, so that the logarithm is finite and below zero.
    let unit = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    debug_assert!(0.0 < unit && unit < 1.0 && weight >= 0.0, "score of {weight} by {unit}");
    -weight / unit.ln()
}

/// Mixes a number into 64 uniform bits (the finalizer of splitmix64, Steele, Lea, Flood 2014).
#[inline]
pub fn mixed(bits: u64) -> u64 {
    let z = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u32 = 40_000;

    fn best(key: Key, holders: &[(u64, f64)]) -> u64 {
        let score = |(holder, weight): &(u64, f64)| rendezvous_score(key, *holder, *weight);
        holders.iter().max_by(|a, b| score(a).total_cmp(&score(b))).expect("there are holders").0
    }

    fn keys() -> impl Iterator<Item = Key> {
        (0..KEYS).map(|number| Key::of(&number.to_le_bytes()))
    }

    #[test]
    fn shares_are_as_the_weights() {
        let holders = [(1, 1e12), (2, 2e12), (3, 5e12)];
        for (holder, weight) in holders {
            let found = keys().filter(|key| best(*key, &holders) == holder).count() as f64 / f64::from(KEYS);
            let wanted = weight / 8e12;
            // Four standard deviations of a binomial count.
            let tolerance = 4.0 * (wanted * (1.0 - wanted) / f64::from(KEYS)).sqrt();
            assert!((found - wanted).abs() < tolerance, "{holder}: {found} of {wanted}");
        }
    }

    #[test]
    fn lost_holders_keys_spread_by_weight() {
        let all = [(1, 1.0), (2, 2.0), (3, 3.0)];
        let left = [all[0], all[2]];
        let mut moved = [0_u32; 2];
        for key in keys() {
            let (before, after) = (best(key, &all), best(key, &left));
            match before {
                2 => moved[usize::from(after == 3)] += 1,
                _ => assert_eq!(before, after),
            }
        }
        let share = f64::from(moved[1]) / f64::from(moved[0] + moved[1]);
        assert!((share - 0.75).abs() < 0.02, "{moved:?}");
    }

    #[test]
    fn a_holder_that_grows_takes_keys_and_gives_none() {
        let (before, after) = ([(1, 1.0), (2, 1.0), (3, 1.0)], [(1, 1.0), (2, 2.0), (3, 1.0)]);
        assert!(keys().all(|key| best(key, &before) == best(key, &after) || best(key, &after) == 2));
    }
}
