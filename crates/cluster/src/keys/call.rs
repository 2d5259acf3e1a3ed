//! Sealed bodies of the calls of membership, which a node makes before the others know it.
//!
//! ```text
//! 0   key id, u32     4   nonce, 12 random bytes     16  body under ChaCha20-Poly1305, tag
//! ```
//!
//! Over TLS this seal adds nothing. On loopback and in trusted networks, where nodes talk in the
//! clear, it proves that a node that joins has the key. Associated data are the direction, the name
//! of the call and of the cluster. Without keys the body travels as it is.

use super::datagram::key_id;
use super::{ClusterKey, KeyRing, fill_random};
use crate::ClusterError;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

/// Direction of a sealed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallDirection {
    /// From the node that calls.
    Question = 0,
    /// From the node that answers.
    Answer = 1,
}

impl KeyRing {
    /// Seals the body of a call.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn seal_call(
        &self,
        direction: CallDirection,
        name: &str,
        mut body: Vec<u8>,
    ) -> Result<Vec<u8>, ClusterError> {
        let Some(key) = self.keys().first() else { return Ok(body) };
        let mut nonce = [0; NONCE_BYTES];
        fill_random(&mut nonce)?;
        let mut sealed = key_id(key, self.cluster()).to_be_bytes().to_vec();
        sealed.extend(nonce);
        let associated = self.call_data(direction, name);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let done = self.call_key(key).seal_in_place_append_tag(nonce, Aad::from(associated), &mut body);
        done.expect("a call is shorter than the cipher's limit");
        sealed.extend(body);
        Ok(sealed)
    }

    /// Opens the body of a call; `None` if no key of the ring sealed it.
    pub fn open_call(&self, direction: CallDirection, name: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        if self.is_keyless() {
            return Some(sealed.to_vec());
        }
        let (id, rest) = sealed.split_first_chunk::<4>()?;
        let (nonce, body) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let id = u32::from_be_bytes(*id);
        let key = self.keys().iter().find(|key| key_id(key, self.cluster()) == id)?;
        let (associated, mut body) = (self.call_data(direction, name), body.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.call_key(key).open_in_place(nonce, Aad::from(associated), &mut body).ok()?.len();
        body.truncate(length);
        Some(body)
    }

    fn call_key(&self, key: &ClusterKey) -> LessSafeKey {
        let bytes = key.derived("call", &[self.cluster().as_bytes()]);
        LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &bytes).expect("a key of 32 bytes"))
    }

    fn call_data(&self, direction: CallDirection, name: &str) -> Vec<u8> {
        [&[direction as u8, name.len() as u8], name.as_bytes(), self.cluster().as_bytes()].concat()
    }
}

const NONCE_BYTES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyFile;

    #[test]
    fn calls_open_with_the_key_alone() {
        let file = KeyFile::generate().expect("randomness");
        let (ring, other) = (KeyRing::new("a", &file), KeyRing::new("b", &file));
        let sealed = ring.seal_call(CallDirection::Question, "x/y", b"body".to_vec()).expect("randomness");
        let open = |ring: &KeyRing, direction, name, sealed: &[u8]| ring.open_call(direction, name, sealed);
        assert_eq!(open(&ring, CallDirection::Question, "x/y", &sealed), Some(b"body".to_vec()));
        assert_eq!(open(&other, CallDirection::Question, "x/y", &sealed), None);
        assert_eq!(open(&ring, CallDirection::Answer, "x/y", &sealed), None);
        assert_eq!(open(&ring, CallDirection::Question, "x/z", &sealed), None);
        for length in 0..sealed.len() {
            assert_eq!(open(&ring, CallDirection::Question, "x/y", &sealed[..length]), None);
        }
        let keyless = KeyRing::keyless("a");
        let plain =
            keyless.seal_call(CallDirection::Question, "x/y", b"body".to_vec()).expect("nothing to do");
        assert_eq!(open(&keyless, CallDirection::Question, "x/y", &plain), Some(b"body".to_vec()));
        assert_eq!(open(&ring, CallDirection::Question, "x/y", &plain), None);
    }
}
