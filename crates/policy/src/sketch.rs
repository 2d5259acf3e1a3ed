//! How often what was asked for lately: a count-min sketch of 4-bit counters that ages.
//!
//! Cormode, Muthukrishnan: "An improved data stream summary: the count-min sketch", Journal of Algorithms, 2005, with
//! the ageing of Einziger, Friedman, Manes (TinyLFU, 2017): after ten requests for each object that is in, every counter
//! is halved, so that old fame fades. Counters stop at 15; more would not outlast the next halving anyway.
//!
//! A key's four counters stand in one cache line, eight words of sixteen counters, of which each key uses one counter
//! in each of four pairs of words; count and estimate touch that line and no other (the layout of the authors'
//! Caffeine). 8 to 16 bytes for each object that is in, more being needed only while it has just shrunk.

/// Frequencies of fingerprints. See the file's head.
#[derive(Debug)]
pub(crate) struct Sketch {
    /// A power of two.
    lines: Vec<Line>,
    /// Requests counted since the last halving, or what is left of them.
    counted: u64,
}

/// One cache line: eight words of sixteen counters.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; WORDS]);

impl Sketch {
    pub(crate) fn new() -> Self {
        Self { lines: vec![Line([0; WORDS])], counted: 0 }
    }

    /// Counts a request while so many objects are in.
    pub(crate) fn count(&mut self, fingerprint: u64, objects: usize) {
        if self.lines.len() * WORDS < objects {
            self.double();
        }
        let at = self.line(fingerprint);
        let line = &mut self.lines[at];
        let mut is_new = false;
        for (word, shift) in counters(fingerprint) {
            if (line.0[word] >> shift) & COUNT_MAX < COUNT_MAX {
                line.0[word] += 1 << shift;
                is_new = true;
            }
        }
        self.counted += u64::from(is_new);
        if self.counted >= SAMPLE * objects.max(OBJECTS_MIN) as u64 {
            self.halve();
        }
    }

    /// About how many requests were counted for the fingerprint, 15 at most, halvings taken off. Never too few.
    pub(crate) fn estimate(&self, fingerprint: u64) -> u8 {
        let line = &self.lines[self.line(fingerprint)];
        let counts = counters(fingerprint).map(|(word, shift)| (line.0[word] >> shift) & COUNT_MAX);
        counts.into_iter().fold(COUNT_MAX, u64::min) as u8
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }

    fn line(&self, fingerprint: u64) -> usize {
        // The highest bits choose, so that a line's keys go to two neighbours when their number doubles.
        ((u128::from(fingerprint) * self.lines.len() as u128) >> 64) as usize
    }

    /// Twice as many lines; each new one starts from the line that its keys had.
    fn double(&mut self) {
        self.lines = self.lines.iter().flat_map(|line| [*line; 2]).collect();
    }

    fn halve(&mut self) {
        for word in self.lines.iter_mut().flat_map(|line| &mut line.0) {
            *word = (*word >> 1) & 0x7777_7777_7777_7777;
        }
        self.counted /= 2;
    }
}

/// Where in its line a fingerprint's counters are: word, and bits below.
fn counters(fingerprint: u64) -> [(usize, u32); 4] {
    // The low half; the high one chooses the line.
    std::array::from_fn(|row| {
        let bits = (fingerprint >> (8 * row)) as usize;
        (2 * row + (bits & 1), 4 * ((bits >> 1) & 15) as u32)
    })
}

const WORDS: usize = 8;
const COUNT_MAX: u64 = 15;
/// Requests for each object between two halvings.
const SAMPLE: u64 = 10;
/// Objects that the sample is reckoned for at least.
const OBJECTS_MIN: usize = 16;

const _: () = assert!(size_of::<Line>() == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use std::collections::HashMap;

    #[test]
    fn estimates_are_never_too_low_and_mostly_right() {
        for seed in 0..10 {
            let (mut sketch, mut random) = (Sketch::new(), Random(seed));
            let keys: Vec<u64> = (0..1000).map(|_| random.below(u64::MAX)).collect();
            let mut counts: HashMap<u64, u64> = HashMap::new();
            // Fewer requests than would halve the counters.
            for _ in 0..4000 {
                let key = keys[random.below(random.0 % 1000 + 1) as usize];
                sketch.count(key, 1000);
                *counts.entry(key).or_default() += 1;
            }
            let exact = |key: &u64| counts.get(key).copied().unwrap_or(0).min(COUNT_MAX);
            let mut right = 0;
            for key in &keys {
                let estimate = u64::from(sketch.estimate(*key));
                assert!(estimate >= exact(key), "seed {seed}");
                right += u64::from(estimate == exact(key));
            }
            assert!(right >= 900, "seed {seed}: {right} of 1000");
        }
    }

    #[test]
    fn counts_are_halved_after_ten_requests_an_object() {
        let mut sketch = Sketch::new();
        (0..12).for_each(|_| sketch.count(7, 16));
        assert_eq!(sketch.estimate(7), 12);
        // The 160th request that changes a counter halves them all.
        let mut random = Random(3);
        for counted in 12..159 {
            assert_eq!(sketch.counted, counted);
            while sketch.counted == counted {
                sketch.count(random.below(1 << 60) << 4, 16);
            }
        }
        let before = sketch.estimate(7);
        while sketch.counted == 159 {
            sketch.count(random.below(1 << 60) << 4, 16);
        }
        assert!((before / 2..=before / 2 + 1).contains(&sketch.estimate(7)));
        assert_eq!(sketch.counted, 80);
    }

    #[test]
    fn growth_forgets_nothing() {
        let (mut sketch, mut random) = (Sketch::new(), Random(5));
        let keys: Vec<u64> = (0..40).map(|_| random.below(u64::MAX)).collect();
        keys.iter().for_each(|key| sketch.count(*key, 8));
        let before: Vec<u8> = keys.iter().map(|key| sketch.estimate(*key)).collect();
        sketch.double();
        let after: Vec<u8> = keys.iter().map(|key| sketch.estimate(*key)).collect();
        assert_eq!(before, after);
        assert!(before.iter().all(|count| *count >= 1));
    }
}
