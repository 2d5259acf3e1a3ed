//! The variant that a request selects (RFC 9111, section 4.1), and its key.
//!
//! ```text
//!   primary key
//!   \0variant
//!   generation of the note
//!   nominated fields and their values in a normal form
//!   client address, if nominated fields depend on it
//! ```

use super::metadata::VaryMarker;
use crate::ip_text::push_address;
use crate::message::Client;
use crate::route::FieldStatement;
use http::header::{COOKIE, FORWARDED};
use http::{HeaderName, Version};
use shoal_core::{Fields, ObjectKey};
use shoal_semantics::vary;
use shoal_wire::FastPathRequest;
use smallvec::SmallVec;

/// Returns the key of the variant chosen by `selecting`, which [`push_selecting`] writes.
pub fn variant_key(primary: &ObjectKey, generation: u64, selecting: &[u8]) -> ObjectKey {
    let mut full = primary.full().to_vec();
    push_generation(&mut full, generation);
    full.extend(selecting);
    ObjectKey::new(full)
}

/// Extends `full`, the primary key, to the key of the variant that a plain request selects.
///
/// Allocates nothing else, except for requests with very many lines or choices. Returns `None` if
/// responses differ by several sets of fields, since the most recent response must then be found.
/// Also returns `None` if the parts of a cookie over HTTP/2 would first have to be joined.
pub fn push_plain(
    full: &mut Vec<u8>,
    note: &VaryMarker,
    plain: &FastPathRequest<'_>,
    told: Option<&Client>,
) -> Option<()> {
    let [names] = &*note.lists else { return None };
    let nominated = NominatedFields::of(plain, names);
    if plain.version >= Version::HTTP_2 && nominated.values(&COOKIE).nth(1).is_some() {
        return None;
    }
    push_generation(full, note.generation);
    push_selecting(full, names, &nominated, told);
    Some(())
}

/// Appends the values that select among responses that differ by these fields, as the origin sees
/// them. A site's upstreams are `told` the client's address. If they may choose by it, the address
/// is appended.
pub fn push_selecting(out: &mut Vec<u8>, names: &[HeaderName], fields: &impl Fields, told: Option<&Client>) {
    let said = |name: &HeaderName| FieldStatement::of(name.as_str().as_bytes());
    if names.iter().all(|name| said(name).is_none()) {
        return vary::push_secondary_key(out, names, fields);
    }
    // No origin sees a client's own fields of this kind.
    let seen: SmallVec<[HeaderName; NAMES_EXPECTED]> =
        names.iter().filter(|name| said(name).is_none()).cloned().collect();
    vary::push_secondary_key(out, &seen, fields);
    let tells_address = |name: &HeaderName| *name == FORWARDED || said(name) == Some(FieldStatement::Address);
    if let Some(client) = told.filter(|_| names.iter().any(tells_address)) {
        push_address(out, client.address.ip().to_canonical());
    }
}

fn push_generation(full: &mut Vec<u8>, generation: u64) {
    full.extend(b"\0variant");
    full.extend(generation.to_le_bytes());
}

/// Lines of a plain request with nominated names.
struct NominatedFields<'a>(SmallVec<[(&'a HeaderName, &'a [u8]); LINES_EXPECTED]>);

impl<'a> NominatedFields<'a> {
    fn of(plain: &FastPathRequest<'a>, names: &'a [HeaderName]) -> Self {
        let mut lines = SmallVec::new();
        // A request has many lines, so the texts to compare are computed once.
        let texts: SmallVec<[&[u8]; NAMES_EXPECTED]> =
            names.iter().map(|name| name.as_str().as_bytes()).collect();
        plain.each_field(|name, value| {
            if let Some(at) = texts.iter().position(|other| name.eq_ignore_ascii_case(other)) {
                lines.push((&names[at], value));
            }
        });
        Self(lines)
    }
}

impl Fields for NominatedFields<'_> {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str().as_bytes(), *value))
    }

    fn values<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |(other, value)| (*other == name).then_some(*value))
    }
}

/// Maximum lines of a request without an allocation.
const LINES_EXPECTED: usize = 8;

/// Maximum names in a list without an allocation.
const NAMES_EXPECTED: usize = 4;
