//! Frequency of recent requests: a count-min sketch of 4-bit counters that ages.
//!
//! Cormode, Muthukrishnan: "An improved data stream summary: the count-min sketch", Journal of
//! Algorithms, 2005. Einziger, Friedman, Manes add two rules (TinyLFU, 2017). By *minimal
//! increment* only the least of a key's counters grow. By ageing every counter is halved after a
//! sample of requests, so that old popularity fades. Counters stop at 15, and a request that finds
//! them full does not count towards the sample.
//!
//! The sample is 32 requests for each present object, as in libCacheSim. The authors' Caffeine
//! takes ten, which follows a moving popularity faster and misses more when popularity is stable. A
//! key's four counters stand in one cache line: eight words of sixteen counters. Each key uses one
//! counter in each of four pairs of words (Caffeine's layout). Count and estimate touch only that
//! line. The sketch takes 8 to 16 bytes for each present object, and does not shrink with them.

/// Frequencies of fingerprints. See the file's head.
#[derive(Debug)]
pub(crate) struct Sketch {
    /// Lines; their number is a power of two.
    lines: Vec<Line>,
    /// Requests counted since the last halving, plus half of those before.
    counted: u64,
}

/// Cache line: eight words of sixteen counters.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; WORDS]);

impl Sketch {
    pub(crate) fn new() -> Self {
        Self { lines: vec![Line([0; WORDS])], counted: 0 }
    }

    /// Counts a request while `objects` objects are present.
    pub(crate) fn count(&mut self, fingerprint: u64, objects: usize) {
        if self.lines.len() * WORDS < objects {
            self.double();
        }
        let at = self.line(fingerprint);
        let line = &mut self.lines[at];
        let least = line.least(fingerprint);
        if least < COUNT_MAX {
            for (word, shift) in counters(fingerprint) {
                let is_least = (line.0[word] >> shift) & COUNT_MAX == least;
                line.0[word] += u64::from(is_least) << shift;
            }
            self.counted += 1;
        }
        if self.counted >= SAMPLE * objects.max(OBJECTS_MIN) as u64 {
            self.halve();
        }
    }

    /// Returns about the number of requests counted for the fingerprint, reduced by halvings, at
    /// most 15. Never too low.
    pub(crate) fn estimate(&self, fingerprint: u64) -> u8 {
        self.lines[self.line(fingerprint)].least(fingerprint) as u8
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }

    fn line(&self, fingerprint: u64) -> usize {
        // The highest bits choose the line, so that a line's keys go to two neighbours when the
        // number of lines doubles.
        ((u128::from(fingerprint) * self.lines.len() as u128) >> 64) as usize
    }

    /// Doubles the number of lines; each new line starts as a copy of its keys' old line.
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

impl Line {
    /// Returns the least of a fingerprint's counters.
    fn least(&self, fingerprint: u64) -> u64 {
        let counts = counters(fingerprint).map(|(word, shift)| (self.0[word] >> shift) & COUNT_MAX);
        counts.into_iter().fold(COUNT_MAX, u64::min)
    }
}

/// Returns the places of a fingerprint's counters in its line: word, and shift in bits.
fn counters(fingerprint: u64) -> [(usize, u32); 4] {
    // The low half; the high half chooses the line.
    std::array::from_fn(|row| {
        let bits = (fingerprint >> (8 * row)) as usize;
        (2 * row + (bits & 1), 4 * ((bits >> 1) & 15) as u32)
    })
}

const WORDS: usize = 8;
const COUNT_MAX: u64 = 15;
/// Requests for each object between two halvings.
const SAMPLE: u64 = 32;
/// Least number of objects for which the sample is computed.
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
    fn counts_are_halved_after_a_sample() {
        let (mut sketch, mut random) = (Sketch::new(), Random(3));
        let before = loop {
            let before = Sketch { lines: sketch.lines.clone(), counted: sketch.counted };
            sketch.count(random.below(1 << 60) << 4, OBJECTS_MIN);
            if sketch.counted < before.counted {
                break before;
            }
        };
        let sample = SAMPLE * OBJECTS_MIN as u64;
        assert_eq!((before.counted, sketch.counted), (sample - 1, sample / 2));
        let counters = |sketch: &Sketch| -> Vec<u64> {
            sketch
                .lines
                .iter()
                .flat_map(|line| line.0)
                .flat_map(|word| (0..16).map(move |n| word >> (4 * n) & 15))
                .collect()
        };
        for (before, after) in counters(&before).into_iter().zip(counters(&sketch)) {
            // The request that filled the sample was counted first.
            assert!(after == before / 2 || after == before.div_ceil(2), "{before} {after}");
        }
    }

    #[test]
    fn a_counter_stops_at_fifteen() {
        let mut sketch = Sketch::new();
        (1..=15).for_each(|count| {
            sketch.count(7, OBJECTS_MIN);
            assert_eq!(sketch.estimate(7), count);
        });
        sketch.count(7, OBJECTS_MIN);
        assert_eq!((sketch.estimate(7), sketch.counted), (15, 15));
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
