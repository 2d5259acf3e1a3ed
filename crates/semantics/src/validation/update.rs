//! Bringing stored responses up to date: by a 304 (RFC 9111, section 4.3.4) and by a response to
//! HEAD (4.3.5).

use crate::{EntityTag, fields, vary};
use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, TRAILER, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// Whether a 304 is about this stored response, by whose validators was asked.
///
/// RFC 9111, section 4.3.4, by the first match of:
///
/// - "If the new response contains one or more strong validators, then each of those strong
///   validators identifies a selected representation for update. All the stored responses in the
///   initial set with one of those same strong validators are identified for update. If none of the
///   initial set contains at least one of the same strong validators, then the cache MUST NOT use
///   the new response to update any stored responses.
/// - If the new response contains no strong validators but does contain one or more weak
///   validators, and those validators correspond to one of the initial set's stored responses, then
///   the most recent of those matching stored responses is identified for update.
/// - If the new response does not include any form of validator […], and there is only one stored
///   response in the initial set, and that stored response also lacks a validator, then that stored
///   response is identified for update."
///
/// Two deliberate deviations, both for origins that are common. A 304 without any validator is
/// taken as the answer about the response whose validators were sent: the origin has compared them.
/// And a strong tag is taken as the stored weak one when it is the same but for the prefix: servers
/// that compress on the way out weaken the tag of what they compress and leave that of the 304
/// strong; the stored tag stays weak ([`freshen`]).
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

/// Whether a strong tag is the stored weak one without its prefix.
fn is_upgrade(tag: EntityTag<'_>, held: Option<EntityTag<'_>>) -> bool {
    held.is_some_and(|held| !held.is_strong() && held.matches_weakly(tag))
}

/// Updates stored fields by those of a newer response (RFC 9111, section 3.2): each field of the
/// newer one replaces the stored lines of that name.
///
/// The Age of the newer response, or none, takes the place of the stored one, so that the result
/// can be given to [`crate::storage::may_store`]; what is then stored goes through
/// [`crate::storage::stored_fields`] as ever.
///
/// "When doing so, the cache MUST add each header field in the provided response to the stored
/// response, replacing field values that are already present, with the following exceptions: Header
/// fields excepted from storage in Section 3.1; Header fields that the cache's stored response
/// depends upon, as described below; Header fields that are automatically processed and removed by
/// the recipient, as described below, and The Content-Length header field." What is stored here
/// depends upon Content-Encoding, Content-Range and Content-MD5, which describe the very bytes, and
/// upon its ETag: a strong tag must not be put on bytes that were weakly compared.
///
/// Gives whether the same requests select it as before. They do not when the newer Vary names
/// further fields: what was stored for a request is not what others get by them (4.1). A Vary that
/// names fewer leaves the stored one as it is.
pub fn freshen(stored: &mut HeaderMap, newer: &HeaderMap) -> bool {
    let lines: Vec<HeaderValue> = stored.get_all(VARY).iter().cloned().collect();
    let selecting = vary::nominated(&*stored);
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
    if !vary::nominated(&*stored).is_within(&selecting) {
        return false;
    }
    stored.remove(VARY);
    for line in lines {
        stored.append(VARY, line);
    }
    true
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

/// Compares a response to HEAD with a stored response to GET that could have been chosen for the
/// same request.
///
/// RFC 9111, section 4.3.5: "if the stored response and HEAD response have matching values for any
/// received validator fields (ETag and Last-Modified) and, if the HEAD response has a
/// Content-Length header field, the value of Content-Length matches that of the stored response,
/// the cache SHOULD update the stored response as described below; otherwise, the cache SHOULD
/// consider the stored response to be stale." A stored response of another status is another
/// representation, whatever the fields say.
pub fn head_update(
    (stored_status, stored): (StatusCode, &HeaderMap),
    stored_length: u64,
    status: StatusCode,
    head: &HeaderMap,
) -> HeadUpdate {
    if status != StatusCode::OK {
        return HeadUpdate::Leave;
    }
    if stored_status != StatusCode::OK {
        return HeadUpdate::Invalidate;
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
        head.get(CONTENT_LENGTH).is_none_or(|length| *length == HeaderValue::from(stored_length));
    match same_tag && same_date && same_length {
        true => HeadUpdate::Freshen,
        false => HeadUpdate::Invalidate,
    }
}
