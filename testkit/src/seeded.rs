//! Everything that looks random follows from a seed or a name.

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
/// 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A stream of numbers that follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }
}

/// The body that belongs to `name`: `bytes` long, different for every name, incompressible.
pub fn body(name: &str, bytes: usize) -> Vec<u8> {
    let seed = hash(name.as_bytes());
    let mut random = Random::new(seed);
    let mut body = Vec::with_capacity(bytes + 8);
    while body.len() < bytes {
        body.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    body.truncate(bytes);
    body
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits: enough to tell names and files of a test apart.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The seed of a test that draws its course: `SHOAL_SEED` when set, else `default`. Printed, so
/// that a failure can be replayed.
pub fn seed(default: u64) -> u64 {
    let seed = std::env::var("SHOAL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    eprintln!("seed {seed} (SHOAL_SEED={seed} replays this run)");
    seed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_follows_from_its_name() {
        assert_eq!(body("/a", 100), body("/a", 100));
        assert_eq!(body("/a", 100)[..10], body("/a", 10)[..]);
        assert_ne!(body("/a", 100), body("/b", 100));
    }
}
