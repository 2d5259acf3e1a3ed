//! Caching rules kept with a stored response: a few integers, so that a hit parses nothing.

use super::freshness::Freshness;
use super::{ForwardedExchange, LifetimeSource};
use crate::CacheRules;
use crate::directives::CacheControl;
use http::StatusCode;
use http::header::AUTHORIZATION;
use shoal_core::{Fields, Timestamp};
use std::time::Duration;

/// Caching rules of a stored response, and the times from which its age is computed.
///
/// The stored form is [`CachePolicy::BYTES`] bytes, little-endian:
///
/// ```text
/// offset  bytes
///      0      1  version, 1
///      1      1  0
///      2      2  flags, see FLAGS below
///      4      4  freshness lifetime, s
///      8      4  stale-while-revalidate, s
///     12      4  stale-if-error, s; 2^32-1 when absent
///     16      8  response time, ms since the epoch
///     24      8  corrected initial age, ms
///     32      8  Date, s since the epoch; 2^64-1 when absent
///     40      8  Last-Modified, likewise
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePolicy {
    flags: u16,
    lifetime_seconds: u32,
    stale_while_revalidate_seconds: u32,
    stale_if_error_seconds: Option<u32>,
    response_time: Timestamp,
    initial_age_ms: u64,
    date: Option<u64>,
    last_modified: Option<u64>,
}

impl CachePolicy {
    /// Length of the stored form.
    pub const BYTES: usize = 48;

    pub(super) fn new(
        exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>,
        directives: &CacheControl,
        freshness: Freshness,
        rules: &CacheRules,
    ) -> Self {
        let overrides = &rules.overrides;
        let seconds = |window: Option<Duration>| {
            window.map(|window| window.as_secs().min(u64::from(crate::lists::SECONDS_MAX)) as u32)
        };
        let (while_revalidate, if_error) =
            (seconds(overrides.stale_while_revalidate), seconds(overrides.stale_if_error));
        // The URL's leave may have lapsed. Such a response is served stale only if the origin's
        // fields or a rule allow stale responses, errors or not.
        let says_of_stale = directives
            .stale_while_revalidate
            .or(while_revalidate)
            .or(directives.stale_if_error)
            .or(if_error)
            .is_some();
        // A rule for all responses must not show one client's page to others.
        let is_personal = freshness.is_personal
            && directives.stale_while_revalidate.or(directives.stale_if_error).is_none();
        let is_negative = freshness.basis == LifetimeSource::Negative;
        let flags = [
            (
                FORBIDS_STALE,
                directives.forbids_stale()
                    || (freshness.lapses && !says_of_stale)
                    || is_personal
                    || is_negative,
            ),
            (ALWAYS_VALIDATES, directives.always_validate()),
            (IMMUTABLE, directives.immutable),
            (PUBLIC, directives.public),
            (HEURISTIC, matches!(freshness.basis, LifetimeSource::Heuristic | LifetimeSource::Negative)),
            (NEGATIVE, is_negative),
            (PARTIAL, exchanged.status == StatusCode::PARTIAL_CONTENT),
            (AUTHORIZED, exchanged.request.has(&AUTHORIZATION)),
            (PINNED, overrides.pin == Some(true)),
            (PERSONAL, freshness.is_personal),
        ];
        debug_assert!(!is_negative || flags[0].1, "an error is never served stale");
        Self {
            flags: flags.iter().filter(|(_, set)| *set).map(|(flag, _)| flag).sum(),
            lifetime_seconds: freshness.lifetime,
            stale_while_revalidate_seconds: while_revalidate
                .or(directives.stale_while_revalidate)
                .unwrap_or(0),
            stale_if_error_seconds: if_error.or(directives.stale_if_error),
            response_time: exchanged.response_time,
            initial_age_ms: freshness.initial_age_ms,
            date: freshness.date,
            last_modified: freshness.last_modified,
        }
    }

    /// Returns the policy with its age counted from this time. The time is of the cache's own
    /// clock, which may differ from the clock for comparing dates.
    pub fn received(self, response_time: Timestamp) -> Self {
        Self { response_time, ..self }
    }

    /// Returns the policy of a copy that may be used for the time of `lease` from `now` on, and
    /// never stale.
    pub fn leased(mut self, lease: Duration, now: Timestamp) -> Self {
        let end = self.current_age(now).saturating_add(lease).as_secs();
        self.lifetime_seconds = self.lifetime_seconds.min(u32::try_from(end).unwrap_or(u32::MAX));
        self.stale_while_revalidate_seconds = 0;
        self.stale_if_error_seconds = Some(0);
        self.flags |= FORBIDS_STALE;
        self
    }

    /// Returns the current age.
    ///
    /// RFC 9111, section 4.2.3: "resident_time = now - response_time; current_age =
    /// corrected_initial_age + resident_time".
    ///
    /// A response may seem to have arrived long after `now`, if the clock was set back since. Its
    /// age is unknown then and counts as very old.
    pub fn current_age(&self, now: Timestamp) -> Duration {
        Duration::from_millis(self.age_ms(now))
    }

    /// Returns the current age in milliseconds, for hits, which need it several times.
    #[inline]
    fn age_ms(&self, now: Timestamp) -> u64 {
        match now.millis().checked_sub(self.response_time.millis()) {
            Some(resident) => resident.saturating_add(self.initial_age_ms),
            None => self.age_ms_before(now),
        }
    }

    /// Returns the age at a time before the response's arrival.
    #[cold]
    fn age_ms_before(&self, now: Timestamp) -> u64 {
        if self.response_time.since(now) > CLOCKS_APART { UNKNOWN_AGE_MS } else { self.initial_age_ms }
    }

    /// Returns the current age in whole seconds, as for the Age field.
    #[inline]
    pub fn age_seconds(&self, now: Timestamp) -> u64 {
        self.age_ms(now) / 1000
    }

    #[inline]
    fn lifetime_ms(&self) -> u64 {
        u64::from(self.lifetime_seconds) * 1000
    }

    /// Returns the freshness lifetime.
    pub fn freshness_lifetime(&self) -> Duration {
        Duration::from_secs(u64::from(self.lifetime_seconds))
    }

    /// Returns `true` if the response is fresh. RFC 9111, section 4.2: "response_is_fresh =
    /// (freshness_lifetime > current_age)".
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.lifetime_ms() > self.age_ms(now)
    }

    /// Returns the seconds until the response becomes stale; negative when it is stale.
    pub fn time_to_live(&self, now: Timestamp) -> i64 {
        i64::from(self.lifetime_seconds).saturating_sub_unsigned(self.age_seconds(now))
    }

    /// Returns the time since the response became stale; zero while it is fresh.
    pub fn staleness(&self, now: Timestamp) -> Duration {
        Duration::from_millis(self.age_ms(now).saturating_sub(self.lifetime_ms()))
    }

    /// Returns the time for which the response may be served stale during its validation (RFC
    /// 5861).
    pub fn stale_while_revalidate(&self) -> Duration {
        Duration::from_secs(u64::from(self.stale_while_revalidate_seconds))
    }

    /// Returns the time for which the response may be served stale when the origin fails (RFC
    /// 5861). `None` when the response sets no such time.
    pub fn stale_if_error(&self) -> Option<Duration> {
        self.stale_if_error_seconds.map(|seconds| Duration::from_secs(u64::from(seconds)))
    }

    /// Returns the time when the response arrived, or was last validated.
    pub fn response_time(&self) -> Timestamp {
        self.response_time
    }

    /// Returns the Date field, in seconds since the epoch.
    pub fn date(&self) -> Option<u64> {
        self.date
    }

    /// Returns the Last-Modified field, in seconds since the epoch.
    pub fn last_modified(&self) -> Option<u64> {
        self.last_modified
    }

    /// Returns `true` if the response must never be served stale. Reasons: must-revalidate,
    /// proxy-revalidate, s-maxage, no-cache, a URL with a lapsing leave, or invalidation.
    pub fn forbids_stale(&self) -> bool {
        self.has(FORBIDS_STALE) || self.has(INVALIDATED)
    }

    /// Returns `true` if each reuse needs validation: no-cache, or invalidated.
    pub fn always_validates(&self) -> bool {
        self.has(ALWAYS_VALIDATES) || self.has(INVALIDATED)
    }

    /// Returns `true` if the freshness lifetime is a guess.
    pub fn is_heuristic(&self) -> bool {
        self.has(HEURISTIC)
    }

    /// Returns `true` if the response is an error that is kept for a moment, for clients without
    /// credentials.
    pub fn is_negative(&self) -> bool {
        self.has(NEGATIVE)
    }

    /// Returns `true` if the response is a 206.
    pub fn is_partial(&self) -> bool {
        self.has(PARTIAL)
    }

    /// Returns `true` if the response said `immutable`.
    pub fn is_immutable(&self) -> bool {
        self.has(IMMUTABLE)
    }

    /// Returns `true` if the response said `public`.
    pub fn is_public(&self) -> bool {
        self.has(PUBLIC)
    }

    /// Returns `true` if the response may be a page of the client alone that got it.
    pub fn is_personal(&self) -> bool {
        self.has(PERSONAL)
    }

    /// Returns the policy of a response that may be a page of one client alone: each use is judged
    /// by the origin.
    pub fn personal(self) -> Self {
        Self { flags: self.flags | PERSONAL | FORBIDS_STALE, lifetime_seconds: 0, ..self }
    }

    /// Returns `true` if the response answered a request with Authorization.
    pub fn is_authorized(&self) -> bool {
        self.has(AUTHORIZED)
    }

    /// Returns `true` if the response was invalidated since it was stored or last validated.
    pub fn is_invalidated(&self) -> bool {
        self.has(INVALIDATED)
    }

    /// Returns `true` if a rule keeps the response when space is made for others.
    pub fn is_pinned(&self) -> bool {
        self.has(PINNED)
    }

    /// Returns the policy, marked as invalidated.
    ///
    /// RFC 9111, section 4.4: "Invalidate means that the cache will either remove all stored
    /// responses whose target URI matches the given URI or mark them as "invalid" and in need of a
    /// mandatory validation before they can be sent in response to a subsequent request."
    pub fn invalidated(mut self) -> Self {
        self.flags |= INVALIDATED;
        debug_assert!(self.always_validates());
        debug_assert!(self.forbids_stale());
        self
    }

    /// Returns `true` if a response that is stale on arrival is worth keeping. The response then
    /// had a lifetime, or may be served stale for a time.
    pub(super) fn may_be_stale(&self) -> bool {
        let window = self.stale_while_revalidate_seconds.max(self.stale_if_error_seconds.unwrap_or(0));
        (window > 0 || self.lifetime_seconds > 0) && !self.forbids_stale()
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Returns the stored form.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = VERSION;
        bytes[2..4].copy_from_slice(&self.flags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.lifetime_seconds.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stale_while_revalidate_seconds.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.stale_if_error_seconds.unwrap_or(u32::MAX).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.response_time.millis().to_le_bytes());
        bytes[24..32].copy_from_slice(&self.initial_age_ms.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.date.unwrap_or(u64::MAX).to_le_bytes());
        bytes[40..48].copy_from_slice(&self.last_modified.unwrap_or(u64::MAX).to_le_bytes());
        debug_assert!(Self::from_bytes(bytes).is_some(), "a policy that would not be read");
        bytes
    }

    /// Reads the stored form. `None` when the bytes are of another version, or not in the form of
    /// [`CachePolicy::to_bytes`].
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let flags = u16::from_le_bytes([bytes[2], bytes[3]]);
        if bytes[0] != VERSION || bytes[1] != 0 || flags & !FLAGS != 0 {
            return None;
        }
        Some(Self {
            flags,
            lifetime_seconds: u32_at(4),
            stale_while_revalidate_seconds: u32_at(8),
            stale_if_error_seconds: Some(u32_at(12)).filter(|seconds| *seconds != u32::MAX),
            response_time: Timestamp::from_millis(u64_at(16)),
            initial_age_ms: u64_at(24),
            date: Some(u64_at(32)).filter(|at| *at != u64::MAX),
            last_modified: Some(u64_at(40)).filter(|at| *at != u64::MAX),
        })
    }
}

/// Version of the stored form.
const VERSION: u8 = 1;

const FORBIDS_STALE: u16 = 1;
const ALWAYS_VALIDATES: u16 = 1 << 1;
const IMMUTABLE: u16 = 1 << 2;
const PUBLIC: u16 = 1 << 3;
const HEURISTIC: u16 = 1 << 4;
const PARTIAL: u16 = 1 << 5;
const AUTHORIZED: u16 = 1 << 6;
const INVALIDATED: u16 = 1 << 7;
const NEGATIVE: u16 = 1 << 8;
const PINNED: u16 = 1 << 9;
const PERSONAL: u16 = 1 << 10;
/// All defined flags.
const FLAGS: u16 = (1 << 11) - 1;

/// Largest normal difference between two readings of one clock, each taken when a step began.
const CLOCKS_APART: Duration = Duration::from_secs(60);

/// Age that exceeds every lifetime.
const UNKNOWN_AGE_MS: u64 = u32::MAX as u64 * 1000;

const _: () = {
    assert!(CachePolicy::BYTES == 1 + 1 + 2 + 3 * 4 + 4 * 8);
    assert!(PERSONAL | (PERSONAL - 1) == FLAGS, "each flag has a bit of its own");
    assert!(UNKNOWN_AGE_MS / 1000 >= u32::MAX as u64);
};
