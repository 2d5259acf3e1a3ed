//! Decides about the stored response that a request selects (RFC 9111, section 4).
//!
//! The steps of a request act on the decision ([`super::serve`]); `shoal explain` shows it
//! ([`super::explain`]).

use super::fetcher::Fetcher;
use super::metadata::ResponseMetadata;
use super::request::RequestContext;
use super::stale;
use crate::clock;
use shoal_core::{ObjectKey, Timestamp};
use shoal_semantics::directives::RequestDirectives;
use shoal_semantics::reuse::{self, Reuse};
use shoal_semantics::status_fields::ForwardReason;
use shoal_semantics::storage::CachePolicy;

/// Use of a stored response for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredUse {
    /// The response is sent: fresh, or as stale as the request accepts.
    Hit,
    /// The response is sent stale, and validated in the background.
    WhileRevalidated,
    /// The response is sent to a client that asked for a reload, since another client has just
    /// caused one.
    AfterReload,
    /// The origin is asked first.
    Forwarded {
        /// Reason.
        forwarded: ForwardReason,
        /// `true` if the origin asked for a pause, and the stale response may be sent meanwhile.
        while_resting: bool,
    },
}

impl Fetcher {
    /// Decides about the response with this head, now.
    pub(super) fn judge_stored(
        &self,
        ask: &RequestContext,
        key: &ObjectKey,
        head: &ResponseMetadata,
    ) -> StoredUse {
        if ask.has_origin_conditions() {
            return StoredUse::Forwarded { forwarded: ForwardReason::Bypass, while_resting: false };
        }
        let now = clock::now();
        let reuse = match may_have(ask, head) {
            true => reuse::decide(&head.policy, &ask.directives, now),
            false => Reuse::Validate,
        };
        match reuse {
            Reuse::Fresh | Reuse::StaleAllowed => StoredUse::Hit,
            Reuse::StaleWhileRevalidate => StoredUse::WhileRevalidated,
            Reuse::Validate if self.was_reloaded(ask, key, head) => StoredUse::AfterReload,
            Reuse::Validate => StoredUse::Forwarded {
                forwarded: why_validate(ask, &head.policy, now),
                while_resting: self.is_resting(ask) && stale::may_stand_in(ask, head),
            },
        }
    }
}

/// Returns `true` if the rules and the request's credentials allow the stored response.
pub(super) fn may_have(ask: &RequestContext, head: &ResponseMetadata) -> bool {
    ask.live.allowed_address(head) && is_for(ask, &head.policy)
}

/// Returns `true` if such a client may get the response. An error stored without explicit
/// permission is not for a client with credentials, which may change the response.
pub(super) fn is_for(ask: &RequestContext, policy: &CachePolicy) -> bool {
    !policy.is_negative() || !ask.brings_credentials()
}

/// Returns the reason for validating a stored response, in the words of RFC 9211.
fn why_validate(ask: &RequestContext, policy: &CachePolicy, now: Timestamp) -> ForwardReason {
    let fresh = policy.is_fresh(now) && !policy.always_validates();
    if fresh && ask.directives != RequestDirectives::default() {
        ForwardReason::Request
    } else {
        ForwardReason::Stale
    }
}
