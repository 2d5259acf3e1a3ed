//! Which variant a request selects (RFC 9111, section 4.1), and the key that it is stored under.
//!
//! ```text
//!   primary key  \0variant  generation of the note  nominated fields and their values in a normal form  who asks, where that selects
//! ```

use super::metadata::VaryMarker;
use crate::ip_text::push_address;
use crate::message::Client;
use crate::route::Speaking;
use http::header::{COOKIE, FORWARDED};
use http::{HeaderName, Version};
use shoal_core::{Fields, ObjectKey};
use shoal_semantics::vary;
use shoal_wire::FastPathRequest;
use smallvec::SmallVec;

/// The key of the variant that `selecting`, as [`push_selecting`] writes it, chooses.
pub fn variant_key(primary: &ObjectKey, generation: u64, selecting: &[u8]) -> ObjectKey {
    let mut full = primary.full().to_vec();
    push_generation(&mut full, generation);
    full.extend(selecting);
    ObjectKey::new(full)
}

/// Makes `full`, which is the primary key, the key of the variant that a plain request selects.
/// Nothing else is allocated, but for requests with very many lines or choices. `None` where
/// responses differ by one set of fields and others by another, since then the most recent is to be
/// found; and where the parts of a cookie that came over HTTP/2 would have to be joined first.
pub fn push_plain(
    full: &mut Vec<u8>,
    note: &VaryMarker,
    plain: &FastPathRequest<'_>,
    told: Option<&Client>,
) -> Option<()> {
    let [names] = &*note.lists else { return None };
    let nominated = NominatedFields::of(plain, names);
    if plain.version == Version::HTTP_2 && nominated.values(&COOKIE).nth(1).is_some() {
        return None;
    }
    push_generation(full, note.generation);
    push_selecting(full, names, &nominated, told);
    Some(())
}

/// Appends what selects among responses that differ by these fields: their values as the origin
/// sees them. A site's upstreams are `told` who asks, and what is chosen by that is this client's.
pub fn push_selecting(out: &mut Vec<u8>, names: &[HeaderName], fields: &impl Fields, told: Option<&Client>) {
    let said = |name: &HeaderName| Speaking::of(name.as_str().as_bytes());
    if names.iter().all(|name| said(name).is_none()) {
        return vary::push_secondary_key(out, names, fields);
    }
    // What a client says of this kind no origin sees.
    let seen: SmallVec<[HeaderName; NAMES_EXPECTED]> =
        names.iter().filter(|name| said(name).is_none()).cloned().collect();
    vary::push_secondary_key(out, &seen, fields);
    let tells_address = |name: &HeaderName| *name == FORWARDED || said(name) == Some(Speaking::Address);
    if let Some(client) = told.filter(|_| names.iter().any(tells_address)) {
        push_address(out, client.address.ip().to_canonical());
    }
}

fn push_generation(full: &mut Vec<u8>, generation: u64) {
    full.extend(b"\0variant");
    full.extend(generation.to_le_bytes());
}

/// The lines of a plain request whose fields are nominated.
struct NominatedFields<'a>(SmallVec<[(&'a HeaderName, &'a [u8]); LINES_EXPECTED]>);

impl<'a> NominatedFields<'a> {
    fn of(plain: &FastPathRequest<'a>, names: &'a [HeaderName]) -> Self {
        let mut lines = SmallVec::new();
        // A request has many lines: what is compared with each is looked up once.
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

/// Lines of a request for which nothing is allocated.
const LINES_EXPECTED: usize = 8;

/// Names in a list for which nothing is allocated.
const NAMES_EXPECTED: usize = 4;
