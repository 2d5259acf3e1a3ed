//! Three ways to choose among candidates, as pure functions.

/// Upstream that may be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Index among the site's upstreams.
    pub index: usize,
    /// Weight: its share of the requests.
    pub weight: u32,
    /// Requests in flight to it.
    pub in_flight: u64,
    /// Hash of its name: equal on every node and after a restart.
    pub name: u64,
}

/// Chooses by smooth weighted round robin, as nginx does. Each candidate's running weight grows by
/// its share; the largest is chosen and reduced by the sum. Shares of 5, 1, 1 give a a b a c a a,
/// not five in a row. O(n).
pub(super) fn in_turn(candidates: &[Candidate], turns: &mut [i64]) -> Option<usize> {
    let total: i64 = candidates.iter().map(|candidate| i64::from(candidate.weight)).sum();
    for candidate in candidates {
        turns[candidate.index] += i64::from(candidate.weight);
    }
    // `max_by_key` returns the last of equals; the first is wanted.
    let chosen = candidates.iter().rev().max_by_key(|candidate| turns[candidate.index])?;
    turns[chosen.index] -= total;
    Some(chosen.index)
}

/// Returns the candidate with the fewest requests in flight for its weight. Equals take turns.
/// O(n).
pub(super) fn least_requests(candidates: &[Candidate], turns: &mut [i64]) -> Option<usize> {
    // a.in_flight / a.weight < b.in_flight / b.weight, without division.
    let load = |a: &Candidate, b: &Candidate| {
        (u128::from(a.in_flight) * u128::from(b.weight))
            .cmp(&(u128::from(b.in_flight) * u128::from(a.weight)))
    };
    let least = candidates.iter().min_by(|a, b| load(a, b))?;
    let equals: Vec<_> = candidates.iter().filter(|c| load(c, least).is_eq()).copied().collect();
    in_turn(&equals, turns)
}

/// Chooses by weighted rendezvous hashing: each candidate draws −w / ln(u), with u from its name
/// and the key, and the largest wins. When a candidate leaves, only its own keys move.
/// (Schindelhauer & Schomaker, "Weighted distributed hash tables", SPAA 2005: the logarithmic
/// method.) O(n).
pub(super) fn rendezvous(candidates: &[Candidate], key: u64) -> Option<usize> {
    let score = |candidate: &Candidate| {
        // 53 bits and a half: uniform in the open interval (0, 1), so that the logarithm is finite
        // and not 0.
        let uniform = ((mix(candidate.name ^ mix(key)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -f64::from(candidate.weight) / uniform.ln()
    };
    candidates.iter().max_by(|a, b| score(a).total_cmp(&score(b))).map(|candidate| candidate.index)
}

/// The output function of SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014): consecutive inputs give independent-looking outputs.
pub(super) fn mix(input: u64) -> u64 {
    let mut z = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(weights: &[u32]) -> Vec<Candidate> {
        let one = |(index, &weight): (usize, &u32)| Candidate {
            index,
            weight,
            in_flight: 0,
            name: mix(index as u64),
        };
        weights.iter().enumerate().map(one).collect()
    }

    #[test]
    fn turns_are_smooth() {
        let three = candidates(&[5, 1, 1]);
        let mut turns = [0; 3];
        let order: Vec<_> = (0..14).map(|_| in_turn(&three, &mut turns).unwrap()).collect();
        assert_eq!(order, [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn the_least_loaded_for_its_weight_is_taken() {
        let mut two = candidates(&[1, 3]);
        two[0].in_flight = 1;
        two[1].in_flight = 2;
        assert_eq!(least_requests(&two, &mut [0; 2]), Some(1));
        two[1].in_flight = 4;
        assert_eq!(least_requests(&two, &mut [0; 2]), Some(0));
        let equal = candidates(&[1, 1]);
        let mut turns = [0; 2];
        let order: Vec<_> = (0..4).map(|_| least_requests(&equal, &mut turns).unwrap()).collect();
        assert_eq!(order, [0, 1, 0, 1]);
    }

    #[test]
    fn a_key_stays_and_shares_follow_the_weights() {
        let three = candidates(&[1, 2, 1]);
        let mut counts = [0; 3];
        for key in 0..8000 {
            let chosen = rendezvous(&three, key).unwrap();
            assert_eq!(rendezvous(&three, key), Some(chosen));
            counts[chosen] += 1;
            let without_last = rendezvous(&three[..2], key).unwrap();
            assert!(chosen == 2 || without_last == chosen, "key {key} moved though its upstream stayed");
        }
        for (count, expected) in counts.into_iter().zip([2000, 4000, 2000]) {
            assert!((expected - 200..expected + 200).contains(&count), "{counts:?}");
        }
    }
}
