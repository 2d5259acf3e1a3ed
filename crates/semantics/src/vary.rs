//! Vary: the request fields by which the responses of one URL differ (RFC 9111, section 4.1).
//!
//! A response nominates fields, here sorted and each once. The request's values of these fields, in
//! a normal form, give the secondary key for storing and finding the response. Two requests match
//! when their keys are equal.
//!
//! RFC 9111, section 4.1: "The header fields from two requests are defined to match if and only if
//! those in the first request can be transformed to those in the second request by applying any of
//! the following: adding or removing whitespace, where allowed in the header field's syntax;
//! combining multiple header field lines with the same field name; normalizing both header field
//! values in a way that is known to have identical semantics, according to the header field's
//! specification (e.g., reordering field values when order is not significant; case-normalization,
//! where values are defined to be case-insensitive)".

use crate::lists;
use http::HeaderName;
use http::header::{
    ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, COOKIE, ORIGIN, REFERER,
    USER_AGENT, VARY,
};
use shoal_core::Fields;
use smallvec::SmallVec;
use std::ops::Range;

/// Meaning of a response's Vary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// The response is the same for all requests.
    Nothing,
    /// The response depends on more than fields: it matches no other request. Also used when Vary
    /// cannot be read.
    Any,
    /// The response depends on these request fields; sorted, each once.
    Fields(Vec<HeaderName>),
}

/// Returns the meaning of a response's Vary lines together.
pub fn nominated(response: &impl Fields) -> Vary {
    let mut names = Vec::new();
    for member in lists::field_members(response, &VARY) {
        // RFC 9111, section 4.1: "A stored response with a Vary header field value containing a
        // member "*" always fails to match."
        //
        // An asterisk alone is a valid field name, so the code checks for it first.
        match HeaderName::from_bytes(member) {
            Ok(name) if member != b"*" && names.len() < NAMES_MAX => names.push(name),
            _ => return Vary::Any,
        }
    }
    names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    match names.is_empty() {
        true => Vary::Nothing,
        false => Vary::Fields(names),
    }
}

impl Vary {
    /// Returns `true` if `wider` also distinguishes every two responses that `self` distinguishes.
    pub fn is_within(&self, wider: &Self) -> bool {
        match (self, wider) {
            (Self::Nothing, _) => true,
            (Self::Fields(names), Self::Fields(all)) => names.iter().all(|name| all.contains(name)),
            _ => false,
        }
    }
}

/// Returns the normal form of a request's values of these fields. The names must be sorted as
/// [`nominated`] returns them.
///
/// Each field is its name, then `0` if the request lacks it, or `1` and its value, then an end
/// mark. No two different lists of values have one key.
pub fn secondary_key(names: &[HeaderName], request: &impl Fields) -> Vec<u8> {
    let mut key = Vec::with_capacity(names.len() * 32);
    push_secondary_key(&mut key, names, request);
    key
}

/// Returns the fields and values of a secondary key, for people. `None` stands for a field that the
/// request lacked. Bytes after the last field are left out.
pub fn described(key: &[u8]) -> Vec<(String, Option<String>)> {
    let mut parts: Vec<&[u8]> = key.split(|byte| *byte == END).collect();
    parts.pop();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let described = parts.into_iter().filter_map(|part| {
        let at = part.iter().position(|byte| [ABSENT, PRESENT].contains(byte))?;
        let value = (part[at] == PRESENT).then(|| text(&part[at + 1..]));
        Some((text(&part[..at]), value))
    });
    described.collect()
}

/// Appends the secondary key to `key`. Allocates nothing else, unless a field lists many choices.
pub fn push_secondary_key(key: &mut Vec<u8>, names: &[HeaderName], request: &impl Fields) {
    for name in names {
        key.extend_from_slice(name.as_str().as_bytes());
        match request.has(name) {
            false => key.push(ABSENT),
            true => {
                key.push(PRESENT);
                normalise(name, request, key);
            }
        }
        key.push(END);
    }
}

/// Appends the normal form of one field. Field values hold no control bytes but tab, so the marks
/// cannot occur in a value.
fn normalise(name: &HeaderName, request: &impl Fields, key: &mut Vec<u8>) {
    match Syntax::of(name) {
        Syntax::Preferences => preferences(name, request, key),
        Syntax::Text => {
            let lines = request.values(name).map(lists::trim);
            join(lines, key);
        }
        // Whitespace at the commas of a field that is no list may matter to its owner, but hardly
        // to an origin. The known fields of free text are excepted.
        Syntax::List => join(lists::field_members(request, name), key),
    }
}

/// Way to rewrite the values of a field without changing their meaning.
enum Syntax {
    /// List of case-insensitive choices with weights, in any order.
    Preferences,
    /// List, in order, with unchanged members; also used for unknown fields.
    List,
    /// Text with commas of its own.
    Text,
}

impl Syntax {
    fn of(name: &HeaderName) -> Self {
        if [ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE].contains(name) {
            Self::Preferences
        } else if [AUTHORIZATION, COOKIE, ORIGIN, REFERER, USER_AGENT].contains(name) {
            Self::Text
        } else {
            Self::List
        }
    }
}

/// Appends the sorted choices. RFC 9110, section 12.4.2: weights express the preference, so the
/// order does not. 12.5: the choices are case-insensitive. A weight of 1 is the default. Parameters
/// of media ranges (Accept) keep their case, as their values may be sensitive to it.
fn preferences(name: &HeaderName, request: &impl Fields, key: &mut Vec<u8>) {
    let start = key.len();
    let mut choices: SmallVec<[Range<usize>; CHOICES_EXPECTED]> = SmallVec::new();
    for member in lists::field_members(request, name) {
        let from = key.len();
        push_choice(key, member);
        choices.push(from..key.len());
    }
    let end = key.len();
    choices.sort_unstable_by(|one, other| key[one.clone()].cmp(&key[other.clone()]));
    choices.dedup_by(|one, other| key[one.clone()] == key[other.clone()]);
    for (at, choice) in choices.into_iter().enumerate() {
        if at > 0 {
            key.push(b',');
        }
        key.extend_from_within(choice);
    }
    key.drain(start..end);
}

/// Appends one choice: `Text/HTML ; level=1;q=0.50` becomes `text/html;level=1;q=0.5`.
fn push_choice(key: &mut Vec<u8>, member: &[u8]) {
    let mut parts = split_parameters(member);
    key.extend(parts.next().unwrap_or_default().iter().map(u8::to_ascii_lowercase));
    for part in parts {
        match weight(part) {
            Some(Weight::One) => {}
            Some(Weight::Zero) => key.extend_from_slice(b";q=0"),
            Some(Weight::Fraction(digits)) => {
                key.extend_from_slice(b";q=0.");
                key.extend_from_slice(digits);
            }
            None => {
                key.push(b';');
                key.extend_from_slice(part);
            }
        }
    }
}

/// Returns the parts between semicolons, trimmed; a quoted string is not split.
fn split_parameters(member: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    member
        .split(move |&byte| {
            quoted ^= byte == b'"';
            byte == b';' && !quoted
        })
        .map(lists::trim)
        .filter(|part| !part.is_empty())
}

/// Weight in its normal form.
enum Weight<'a> {
    One,
    Zero,
    /// Digits after the point; the last digit is not 0.
    Fraction(&'a [u8]),
}

/// Returns the weight in a parameter such as `Q=0.500`. `None` for another parameter, or for a
/// weight that breaks the grammar of RFC 9110, section 12.4.2.
fn weight(parameter: &[u8]) -> Option<Weight<'_>> {
    let [b'q' | b'Q', b'=', digits @ ..] = parameter else { return None };
    let (whole, fraction) = match digits {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let end = fraction.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    match (whole, &fraction[..end]) {
        (b'1', []) => Some(Weight::One),
        (b'1', _) => None,
        (_, []) => Some(Weight::Zero),
        (_, digits) => Some(Weight::Fraction(digits)),
    }
}

/// Appends the members, with commas between them.
fn join<'a>(members: impl Iterator<Item = &'a [u8]>, key: &mut Vec<u8>) {
    for (at, member) in members.enumerate() {
        if at > 0 {
            key.push(b',');
        }
        key.extend_from_slice(member);
    }
}

/// Largest number of fields that a response may nominate; beyond it the response is treated as
/// `Vary: *`.
const NAMES_MAX: usize = 64;
/// Number of a field's choices that fit without an allocation.
const CHOICES_EXPECTED: usize = 16;
/// Marks of a key: bytes that occur in no field name and no field value.
const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const END: u8 = 2;

#[cfg(test)]
mod tests;
