//! Coded forms of a response: their keys, and the entry's memory of them.
//!
//! ```text
//!   key of the response
//!   \0coded
//!   number of the coding
//! ```
//!
//! A coded form is an ordinary object, in RAM and on disk, with the identity of its response. Only
//! the response leads to it, and only while both have one identity. A response that is purged,
//! invalidated, renewed or replaced has therefore no coded form until one is made anew.

use crate::judgement::RulesNumber;
use shoal_core::ObjectKey;
use shoal_semantics::{Coding, Codings};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Returns the key of a coded form of the response with this key.
pub fn coded_key(key: &ObjectKey, coding: Coding) -> ObjectKey {
    let mut full = Vec::with_capacity(key.full().len() + END_BYTES);
    full.extend_from_slice(key.full());
    full.extend_from_slice(b"\0coded");
    full.push(coding as u8);
    ObjectKey::new(full)
}

/// Memory of an object in RAM: if its body may be coded, and the codings that exist.
///
/// ```text
/// bits   0..3   codings that exist
///           3   the body may be coded
///           4   a coding is being made
///        8..32  requests for a coding that does not exist
///       32..64  number of the settings that judged
/// ```
#[derive(Debug, Default)]
pub struct CodedForms {
    state: AtomicU64,
    /// Keys of the coded forms, by number, once one was sent: a hit hashes no further key.
    keys: OnceLock<Box<[ObjectKey; Coding::ALL.len()]>>,
}

impl CodedForms {
    /// Returns the codings that exist, or `None` if the body may not be coded. `judge` decides this
    /// once for each number of settings.
    #[inline]
    pub fn of(&self, number: RulesNumber, judge: impl FnOnce() -> bool) -> Option<Codings> {
        let number = u64::from(number.get()) << NUMBER_SHIFT;
        let mut state = self.state.load(Relaxed);
        if state >> NUMBER_SHIFT << NUMBER_SHIFT != number {
            state = number | if judge() { MAY_BE_CODED } else { 0 };
            self.state.store(state, Relaxed);
        }
        (state & MAY_BE_CODED != 0).then(|| Codings::from_bits(state as u8 & CODINGS))
    }

    /// Returns the key of a coded form of the object, which has this key.
    #[inline]
    pub fn key(&self, own: &ObjectKey, coding: Coding) -> &ObjectKey {
        let keys = self.keys.get_or_init(|| Box::new(Coding::ALL.map(|coding| coded_key(own, coding))));
        let key = &keys[coding as usize];
        debug_assert!(key.full().starts_with(own.full()), "an entry has one key");
        key
    }

    /// Counts a request for a coding that does not exist. Returns `true` if the caller is to have
    /// it made; the caller then calls [`Self::end`]. Some of many requests at once may not be
    /// counted.
    pub fn wants(&self, after: u16) -> bool {
        debug_assert!(after > 0, "a coding is made for a request");
        let state = self.state.load(Relaxed);
        if state & BEING_MADE != 0 {
            return false;
        }
        let counted = state + ONE_REQUEST;
        let is_due = counted >> REQUESTS_SHIFT & REQUESTS >= u64::from(after);
        let next = if is_due { counted & !(REQUESTS << REQUESTS_SHIFT) | BEING_MADE } else { counted };
        self.state.compare_exchange(state, next, Relaxed, Relaxed).is_ok() && is_due
    }

    /// Ends the making of a coding: it exists, or it does not and is counted for anew.
    pub fn end(&self, made: Option<Coding>) {
        self.state.fetch_and(!BEING_MADE, Relaxed);
        if let Some(coding) = made {
            self.state.fetch_or(u64::from(Codings::of(coding).bits()), Relaxed);
        }
    }

    /// Notes that the body becomes no smaller by a coding.
    pub fn refuse(&self) {
        self.state.fetch_and(!(MAY_BE_CODED | BEING_MADE), Relaxed);
    }

    /// Notes that a coding does not exist any more.
    pub fn lacks(&self, coding: Coding) {
        self.state.fetch_and(!u64::from(Codings::of(coding).bits()), Relaxed);
    }
}

/// Bytes that a coded form's key has more.
const END_BYTES: usize = 7;
const CODINGS: u8 = 0b111;
const MAY_BE_CODED: u64 = 1 << 3;
const BEING_MADE: u64 = 1 << 4;
const REQUESTS_SHIFT: u32 = 8;
const ONE_REQUEST: u64 = 1 << REQUESTS_SHIFT;
const REQUESTS: u64 = (1 << 24) - 1;
const NUMBER_SHIFT: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn all(state: &CodedForms, number: RulesNumber) -> Option<Codings> {
        state.of(number, || unreachable!("it is remembered"))
    }

    #[test]
    fn a_coding_is_due_after_its_requests() {
        let (state, number) = (CodedForms::default(), RulesNumber::next());
        assert_eq!(state.of(number, || true), Some(Codings::default()));
        assert_eq!(
            [state.wants(3), state.wants(3), state.wants(3), state.wants(3)],
            [false, false, true, false]
        );
        state.end(Some(Coding::Brotli));
        assert_eq!(all(&state, number), Some(Codings::of(Coding::Brotli)));
        assert_eq!([state.wants(2), state.wants(2)], [false, true]);
        state.end(None);
        assert_eq!(all(&state, number), Some(Codings::of(Coding::Brotli)));
        state.lacks(Coding::Brotli);
        assert_eq!(all(&state, number), Some(Codings::default()));
        assert!(state.wants(1));
        state.refuse();
        assert_eq!(all(&state, number), None);
    }

    #[test]
    fn other_settings_judge_anew() {
        let state = CodedForms::default();
        let [first, second] = [RulesNumber::next(), RulesNumber::next()];
        assert_eq!(state.of(first, || false), None);
        assert_eq!(all(&state, first), None);
        assert_eq!(state.of(second, || true), Some(Codings::default()));
        state.end(Some(Coding::Gzip));
        assert_eq!(state.of(first, || true), Some(Codings::default()), "nothing is known of its forms");
    }

    #[test]
    fn keys_of_codings_differ() {
        let (own, state) = (ObjectKey::new(b"http://a.test/".to_vec()), CodedForms::default());
        let [one, other, third] = Coding::ALL.map(|coding| state.key(&own, coding).clone());
        assert!(one != other && other != third && third != one);
        assert!(one.full().starts_with(b"http://a.test/\0"), "a byte that no URL has");
        assert_eq!(one, coded_key(&own, Coding::Gzip));
    }
}
