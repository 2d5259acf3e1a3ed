//! Hash without a seed, so that equal calls take the same course in every run. It is cheap, since
//! each call of the model looks up several tables. The keys are the model's own numbers, which no
//! attacker chooses.

use std::hash::{BuildHasherDefault, Hasher};

/// Builder of hashers for the model's tables.
pub(in super::super) type Mixed = BuildHasherDefault<Mix>;

/// Hasher that rotates, adds in and multiplies, as the compiler's own tables do.
#[derive(Default)]
pub(in super::super) struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word) ^ (part.len() as u64) << 56);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

/// Returns a number for a name in a directory.
pub(in super::super) fn mix_name(directory: u64, name: &str) -> u64 {
    let mut mix = Mix(directory.wrapping_mul(0xd6e8_feb8_6659_fd93));
    mix.write(name.as_bytes());
    mix.finish()
}
