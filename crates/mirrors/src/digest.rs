//! Digests of bodies: the spellings of registries are read, and bodies checked as they stream.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

/// A hash function, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// 16 bytes; only old Maven sidecars and apt lists have nothing better.
    Md5,
    /// 20 bytes; npm before 2017.
    Sha1,
    /// 32 bytes.
    Sha256,
    /// 64 bytes.
    Sha512,
}

impl Algorithm {
    /// Length of a digest in bytes.
    pub const fn byte_count(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// The name in SRI, PEP 503 and OCI: `sha256`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// The algorithm of a name in any case.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Md5, Self::Sha1, Self::Sha256, Self::Sha512]
            .into_iter()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }
}

/// A promised digest of a body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    bytes: Vec<u8>,
}

impl Digest {
    /// Reads hexadecimal digits of either case. `None` if the length is another.
    pub fn from_hex(algorithm: Algorithm, text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 2 * algorithm.byte_count() {
            return None;
        }
        let nibble = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
        let bytes: Option<Vec<u8>> =
            text.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect();
        Some(Self { algorithm, bytes: bytes? })
    }

    /// Reads the strongest known digest of an SRI value: `sha512-BASE64 sha1-BASE64`.
    pub fn from_sri(text: &str) -> Option<Self> {
        text.split_ascii_whitespace().filter_map(Self::of_sri_member).max_by_key(|digest| digest.algorithm)
    }

    fn of_sri_member(member: &str) -> Option<Self> {
        let (name, rest) = member.split_once('-')?;
        let algorithm = Algorithm::named(name)?;
        let bytes = STANDARD.decode(rest.split('?').next()?).ok()?;
        (bytes.len() == algorithm.byte_count()).then_some(Self { algorithm, bytes })
    }

    /// Reads `sha256:HEX` (OCI) and `sha256=HEX` (PEP 503).
    pub fn from_named_hex(text: &str) -> Option<Self> {
        let (name, hex) = text.split_once([':', '='])?;
        Self::from_hex(Algorithm::named(name)?, hex)
    }

    /// The hash function.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The digest's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        self.bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Begins the check of a body.
    pub fn checker(&self) -> Checker {
        Checker { wanted: self.clone(), hasher: Hasher::new(self.algorithm) }
    }
}

/// Computes the digest of a body as it streams.
#[derive(Debug, Clone)]
pub struct Hasher {
    algorithm: Algorithm,
    state: State,
}

/// Checks a body as it streams.
#[derive(Debug, Clone)]
pub struct Checker {
    wanted: Digest,
    hasher: Hasher,
}

#[derive(Debug, Clone)]
enum State {
    Md5(Md5),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Box<Sha512>),
}

impl State {
    fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Md5 => Self::Md5(Md5::new()),
            Algorithm::Sha1 => Self::Sha1(Sha1::new()),
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Box::new(Sha512::new())),
        }
    }
}

impl Hasher {
    /// Begins a body.
    pub fn new(algorithm: Algorithm) -> Self {
        Self { algorithm, state: State::new(algorithm) }
    }

    /// Takes the next piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        match &mut self.state {
            State::Md5(state) => state.update(piece),
            State::Sha1(state) => state.update(piece),
            State::Sha256(state) => state.update(piece),
            State::Sha512(state) => state.update(piece),
        }
    }

    /// Takes the end of the body.
    pub fn finish(self) -> Digest {
        let bytes = match self.state {
            State::Md5(state) => state.finalize().to_vec(),
            State::Sha1(state) => state.finalize().to_vec(),
            State::Sha256(state) => state.finalize().to_vec(),
            State::Sha512(state) => state.finalize().to_vec(),
        };
        debug_assert_eq!(bytes.len(), self.algorithm.byte_count());
        Digest { algorithm: self.algorithm, bytes }
    }
}

impl Checker {
    /// Takes the next piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        self.hasher.push(piece);
    }

    /// Takes the end of the body: true if the digest is the promised one.
    pub fn agrees(self) -> bool {
        debug_assert_eq!(self.wanted.bytes.len(), self.wanted.algorithm.byte_count());
        self.hasher.finish() == self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees(digest: &Digest, body: &[u8]) -> bool {
        let mut checker = digest.checker();
        body.chunks(3).for_each(|piece| checker.push(piece));
        checker.agrees()
    }

    #[test]
    fn known_digests_agree() {
        let cases = [
            "md5:900150983cd24fb0d6963f7d28e17f72",
            "sha1:a9993e364706816aba3e25717850c26c9cd0d89d",
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "SHA256=BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD",
        ];
        for case in cases {
            let digest = Digest::from_named_hex(case).expect(case);
            assert!(agrees(&digest, b"abc"), "{case}");
            assert!(!agrees(&digest, b"abd"), "{case}");
        }
    }

    #[test]
    fn sri_gives_its_strongest_digest() {
        let digest = Digest::from_sri("sha1-qZk+NkcGgWq6PiVxeFDCbJzQ2J0= md9-AAAA sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=?x").expect("two are known");
        assert_eq!(digest.algorithm(), Algorithm::Sha256);
        assert!(agrees(&digest, b"abc"));
    }

    #[test]
    fn malformed_digests_are_refused() {
        for text in
            ["sha256:12", "sha999:00", "sha256", "md5:zz0150983cd24fb0d6963f7d28e17f72", "sha256-AAAA"]
        {
            assert_eq!(Digest::from_named_hex(text), None, "{text}");
            assert_eq!(Digest::from_sri(text), None, "{text}");
        }
    }
}
