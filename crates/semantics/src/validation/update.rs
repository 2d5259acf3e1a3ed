//! Bringing stored responses up to date: by a 304 (RFC 9111, section 4.3.4) and by a response to HEAD (4.3.5).

use crate::{EntityTag, fields};
use http::header::{AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, TRAILER};
use http::{HeaderMap, HeaderName, StatusCode};

/// Whether a 304 is about this stored response, which the validation request named by its validators.
///
/// RFC 9111, section 4.3.4: "If the new response contains one or more strong validators, then each of those strong
/// validators identifies a selected representation for update. […] If none of the stored responses contains at least one
/// of the same strong validators, then the cache MUST NOT use the new response to update any stored responses. If the new
/// response contains no strong validators but does contain one or more weak validators, and if those validators correspond
/// to one of the cache's stored responses, then the most recent of those matching stored responses is selected for update.
/// If the new response does not include any form of validator (such as in the case where a client generates an
/// If-Modified-Since request from a source other than the Last-Modified response header field), and there is only one
/// stored response, and that stored response also lacks a validator, then that stored response is selected for update."
///
/// A 304 without validators answers the one set of validators that was asked with, so it selects that response too: many
/// origins leave the validator out, and the condition of section 15.4.5 of RFC 9110 was still theirs to evaluate.
pub fn selects(not_modified: &HeaderMap, stored: &HeaderMap) -> bool {
    if let Some(tag) = EntityTag::of(not_modified) {
        let held = EntityTag::of(stored);
        return match tag.is_strong() {
            true => held.is_some_and(|held| held.matches_strongly(tag)) || is_upgrade(tag, held),
            false => held.is_some_and(|held| held.matches_weakly(tag)),
        };
    }
    not_modified.get(LAST_MODIFIED).is_none_or(|modified| stored.get(LAST_MODIFIED) == Some(modified))
}

/// Whether a strong tag is the stored weak one without its prefix. Compressing intermediaries weaken tags on the way to
/// us and leave them strong in a 304; the origin was asked about the weak one and confirmed it.
fn is_upgrade(tag: EntityTag<'_>, held: Option<EntityTag<'_>>) -> bool {
    held.is_some_and(|held| !held.is_strong() && held.matches_weakly(tag))
}

/// Updates stored fields by those of a newer response (RFC 9111, section 3.2): each field of the newer one replaces the
/// stored lines of that name.
///
/// The Age of the newer response, or none, takes the place of the stored one, so that the result can be given to
/// [`crate::storage::assess`]; what is then stored goes through [`crate::storage::stored_fields`] as ever.
///
/// "When doing so, the cache MUST add each header field in the provided response to the stored response, replacing field
/// values that are already present, with the following exceptions: Header fields excepted from storage in Section 3.1;
/// Header fields that the cache's stored response depends upon, as described below; Header fields that are automatically
/// processed and removed by the recipient, as described below; and The Content-Length header field." The stored body
/// depends upon Content-Encoding, Content-Range and Content-MD5, and upon its ETag: a strong tag must not be put on bytes
/// that were weakly compared.
pub fn freshen(stored: &mut HeaderMap, newer: &HeaderMap) {
    let mut newer = newer.clone();
    fields::remove_hop_by_hop(&mut newer);
    stored.remove(AGE);
    for name in newer.keys() {
        if !is_kept(name, stored) {
            stored.remove(name);
        }
    }
    let keep: Vec<HeaderName> = newer.keys().filter(|name| is_kept(name, stored)).cloned().collect();
    for (name, value) in &newer {
        if !keep.contains(name) {
            stored.append(name.clone(), value.clone());
        }
    }
}

/// Whether an update leaves this field as it is stored.
fn is_kept(name: &HeaderName, stored: &HeaderMap) -> bool {
    let describes_the_body = [CONTENT_LENGTH, CONTENT_ENCODING, CONTENT_RANGE, TRAILER].contains(name)
        || name.as_str() == "content-md5";
    describes_the_body || (name == ETAG && stored.contains_key(ETAG))
}

/// What a response to HEAD does to a stored response to GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadUpdate {
    /// It is the same representation: [`freshen`] it, and assess it anew.
    Freshen,
    /// The representation has changed: invalidate the stored response.
    Invalidate,
    /// It says nothing about the stored response.
    Leave,
}

/// Compares a response to HEAD with a stored response to GET of the same key.
///
/// RFC 9111, section 4.3.5: "If a cache receives a 200 (OK) response to a HEAD request, [it] SHOULD update or invalidate each
/// of its stored GET responses that could have been chosen for that request […] if the selected stored response and HEAD
/// response have matching values for any received validator fields (ETag and Last-Modified) and, if the HEAD response has
/// a Content-Length header field, the value of Content-Length matches that of the stored response, the cache SHOULD update
/// the stored response as described below; otherwise, the cache SHOULD consider the stored response to be stale."
pub fn head_update(
    stored: &HeaderMap,
    stored_length: u64,
    status: StatusCode,
    head: &HeaderMap,
) -> HeadUpdate {
    if status != StatusCode::OK {
        return HeadUpdate::Leave;
    }
    let same_tag = match (EntityTag::of(head), EntityTag::of(stored)) {
        (Some(tag), Some(held)) => {
            held.matches_strongly(tag) || (!tag.is_strong() && held.matches_weakly(tag))
        }
        (Some(_), None) => false,
        (None, _) => true,
    };
    let same_date = head.get(LAST_MODIFIED).is_none_or(|date| stored.get(LAST_MODIFIED) == Some(date));
    let same_length =
        head.get(CONTENT_LENGTH).is_none_or(|length| *length == http::HeaderValue::from(stored_length));
    match same_tag && same_date && same_length {
        true => HeadUpdate::Freshen,
        false => HeadUpdate::Invalidate,
    }
}
