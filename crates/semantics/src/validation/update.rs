//! Updates of stored responses: by a 304 (RFC 9111, section 4.3.4) and by a response to HEAD
//! (4.3.5).

use crate::{EntityTag, fields, vary};
use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, TRAILER, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// Returns `true` if a 304 is about this stored response, after the cache has sent its validators.
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
/// Two deliberate deviations serve common origins. A 304 without any validator counts as the answer
/// to the validators that the cache sent: the origin has compared them. A strong tag that equals
/// the stored weak one except for the prefix counts as the same. Servers that compress on the way
/// out weaken the tag of the compressed response and leave the tag of the 304 strong. The stored
/// tag stays weak ([`freshen`]).
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

/// Returns `true` if a strong tag is the stored weak one without its prefix.
fn is_upgrade(tag: EntityTag<'_>, held: Option<EntityTag<'_>>) -> bool {
    held.is_some_and(|held| !held.is_strong() && held.matches_weakly(tag))
}

/// Updates stored fields by those of a newer response (RFC 9111, section 3.2): each newer field
/// replaces the stored lines of that name.
///
/// The newer response's Age, or none, replaces the stored one, so that
/// [`crate::storage::may_store`] can judge the result. The stored copy then passes through
/// [`crate::storage::stored_fields`] as usual.
///
/// "When doing so, the cache MUST add each header field in the provided response to the stored
/// response, replacing field values that are already present, with the following exceptions: Header
/// fields excepted from storage in Section 3.1; Header fields that the cache's stored response
/// depends upon, as described below; Header fields that are automatically processed and removed by
/// the recipient, as described below, and The Content-Length header field." The stored response
/// depends on Content-Encoding, Content-Range and Content-MD5, which describe the exact bytes. It
/// also depends on its ETag: a strong tag must not be put on bytes that were weakly compared.
///
/// Returns `true` if the same requests select the response as before. A newer Vary that names
/// further fields changes the selection: other values of those fields select other responses (4.1).
/// A Vary that names fewer fields leaves the stored Vary unchanged.
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

/// Returns `true` if an update leaves this field as it is stored.
fn is_kept(name: &HeaderName, stored: &HeaderMap) -> bool {
    let describes_the_body = [CONTENT_LENGTH, CONTENT_ENCODING, CONTENT_RANGE, TRAILER].contains(name)
        || name.as_str() == "content-md5";
    describes_the_body || (name == ETAG && stored.contains_key(ETAG))
}

/// Effect of a response to HEAD on a stored response to GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadUpdate {
    /// Same representation: [`freshen`] the stored response, and assess it anew.
    Freshen,
    /// Changed representation: invalidate the stored response.
    Invalidate,
    /// No statement about the stored response.
    Leave,
}

/// Compares a response to HEAD with a stored response to GET that could have been chosen for the
/// same request.
///
/// RFC 9111, section 4.3.5: "if the stored response and HEAD response have matching values for any
/// received validator fields (ETag and Last-Modified) and, if the HEAD response has a
/// Content-Length header field, the value of Content-Length matches that of the stored response,
/// the cache SHOULD update the stored response as described below; otherwise, the cache SHOULD
/// consider the stored response to be stale."
///
/// A stored response of another status is another representation, regardless of its fields.
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
