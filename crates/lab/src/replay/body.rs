//! Bodies that cost next to nothing: each object's bytes are a walk through one buffer of noise,
//! from the object's own start.

use shoal_trace::Random;

/// Makes and recognizes bodies.
pub(super) struct BodyGenerator {
    noise: Box<[u8]>,
}

impl Default for BodyGenerator {
    fn default() -> Self {
        let mut random = Random::new(1999);
        let noise: Vec<u8> = (0..NOISE_BYTES / 8).flat_map(|_| random.bits().to_le_bytes()).collect();
        Self { noise: noise.into() }
    }
}

impl BodyGenerator {
    /// Returns an object's body of `length` bytes, in pieces.
    pub(super) fn of(&self, object: u32, length: u64) -> impl Iterator<Item = &[u8]> {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let piece = self.piece(object, offset, length - offset);
            offset += piece.len() as u64;
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Returns `true` if these are an object's bytes from an offset on.
    pub(super) fn is_of(&self, object: u32, mut offset: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let piece = self.piece(object, offset, bytes.len() as u64);
            if piece != &bytes[..piece.len()] {
                return false;
            }
            bytes = &bytes[piece.len()..];
            offset += piece.len() as u64;
        }
        true
    }

    /// Returns at most `limit` bytes of an object from an offset on; none only when the limit is 0.
    fn piece(&self, object: u32, offset: u64, limit: u64) -> &[u8] {
        let start = Random::of(0, u64::from(object)).bits() % PERIOD;
        let at = ((start + offset) % PERIOD) as usize;
        let length = limit.min((PERIOD as usize - at) as u64) as usize;
        &self.noise[at..at + length]
    }
}

/// Size of the noise: fits into a processor's second cache, so that noise does not evict the
/// measured data.
const NOISE_BYTES: usize = 128 << 10;
/// Length after which a body repeats itself: a prime, so that no block of a store equals another.
const PERIOD: u64 = 131_071;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_recognized_piece_by_piece() {
        let bodies = BodyGenerator::default();
        for length in [0u64, 1, 8192, 131_071, 500_000] {
            let whole: Vec<u8> = bodies.of(7, length).flatten().copied().collect();
            assert_eq!(whole.len() as u64, length);
            for step in [1000, 65_536, 1 << 20] {
                let mut offset = 0;
                for piece in whole.chunks(step) {
                    assert!(bodies.is_of(7, offset, piece));
                    offset += piece.len() as u64;
                }
            }
            if length > 1000 {
                assert!(!bodies.is_of(8, 0, &whole) && !bodies.is_of(7, 1, &whole));
                let mut changed = whole.clone();
                changed[length as usize - 1] ^= 1;
                assert!(!bodies.is_of(7, 0, &changed));
            }
        }
    }
}
