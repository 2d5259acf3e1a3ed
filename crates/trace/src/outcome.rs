//! A log's words on how its cache handled a request: hits, misses and their reasons, lifetimes.
//!
//! | words | written by |
//! |---|---|
//! | `shoal; fwd=uri-miss; detail=no-store` | caches that send Cache-Status (RFC 9211) |
//! | `HIT`, `EXPIRED`, `BYPASS`, … | nginx (`$upstream_cache_status`), Cloudflare |
//! | `hit`, `miss`, `pass`, … | varnishncsa (`%{Varnish:handling}x`) |
//! | `TCP_REFRESH_MODIFIED`, … | Squid and Traffic Server |
//! | `RefreshHit`, `Miss`, … | CloudFront |
//! | `refresh_unmodified`, … | Shoal's JSON log |

/// Handling of a request by the cache that wrote the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The store answered without the origin.
    Hit,
    /// The store answered after the origin had confirmed its response.
    Validated,
    /// The store answered with a stale response.
    Stale,
    /// The request shared the answer to another request.
    Collapsed,
    /// Nothing was stored. The log names no reason.
    Miss,
    /// The stored response was stale, and the origin sent another.
    Replaced,
    /// Responses for other fields of Vary were stored.
    Variant,
    /// The client asked the origin for a fresh response.
    Reload,
    /// Other parts of the response were stored.
    Partial,
    /// The cache had no part in the request.
    Bypass,
    /// The cache made the answer itself.
    Own,
    /// The answer was not stored, for one of [`Outcome::REASONS`].
    NotStored(&'static str),
}

/// Outcome, with the lifetime that the words name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutcomeWords {
    pub outcome: Outcome,
    pub ttl_seconds: Option<i64>,
}

impl Outcome {
    /// Reasons for which an answer is not stored, as the `detail` of Cache-Status
    /// (docs/REASONS.md). With `true`, no cache with these rules may store the answer; with
    /// `false`, another moment or another size of the cache decides.
    pub const REASONS: [(&'static str, bool); 36] = [
        ("no-store", true),
        ("private", true),
        ("set-cookie", true),
        ("vary-any", true),
        ("authorization", true),
        ("request-no-store", true),
        ("request-cookie", true),
        ("not-permitted", true),
        ("never-reusable", true),
        ("status", true),
        ("method", true),
        ("content-range", true),
        ("whole-stored", false),
        ("too-large", false),
        ("connection-auth", true),
        ("rule", true),
        ("stale-if-error", false),
        ("retry-after", false),
        ("reload-interval", false),
        ("only-if-cached", false),
        ("denied", true),
        ("client-rate", true),
        ("wrong-passwords", true),
        ("user", true),
        ("certificate", true),
        ("site", true),
        ("misdirected", true),
        ("challenge", true),
        ("purge", true),
        ("loop", true),
        ("max-forwards", true),
        ("target", true),
        ("request", true),
        ("tunnel", true),
        ("neighbour", true),
        ("mirror", true),
    ];

    /// Returns `true` if the answer came from the store.
    pub fn is_hit(self) -> bool {
        matches!(self, Self::Hit | Self::Validated | Self::Stale | Self::Collapsed)
    }

    /// Returns `true` if the origin's or the operator's rules keep the answer from being stored, in
    /// a cache of any size.
    pub fn forbids_storing(self) -> bool {
        match self {
            Self::Bypass | Self::Own => true,
            Self::NotStored(reason) => Self::REASONS.contains(&(reason, true)),
            _ => false,
        }
    }

    /// Returns the outcome's name, which [`Outcome::named`] reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotStored(reason) => reason,
            other => NAMES.iter().find(|(_, outcome)| *outcome == other).map_or("own", |(name, _)| name),
        }
    }

    /// Returns the outcome of a name, in any case: a word of any of the caches above.
    pub fn named(name: &str) -> Option<Self> {
        if name.len() > NAME_MAX {
            return None;
        }
        if let Some(code) = name.strip_prefix("TCP_") {
            return code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_').then(|| squid(name));
        }
        let word = name.split_once(" from ").map_or(name, |(word, _)| word);
        let is = |known: &str| known.eq_ignore_ascii_case(word);
        let found = NAMES.iter().find(|(known, _)| is(known)).map(|(_, outcome)| *outcome);
        found.or_else(|| reason(word))
    }
}

/// Returns the outcome of a result code of Squid.
pub(crate) fn squid(code: &str) -> Outcome {
    let code = code.strip_suffix("_ABORTED").or_else(|| code.strip_suffix("_TIMEDOUT")).unwrap_or(code);
    match code {
        "TCP_HIT" | "TCP_MEM_HIT" => Outcome::Hit,
        "TCP_MISS" => Outcome::Miss,
        "TCP_REFRESH_UNMODIFIED" | "TCP_REFRESH_HIT" => Outcome::Validated,
        "TCP_REFRESH_FAIL_OLD" | "TCP_REF_FAIL_HIT" | "TCP_STALE_HIT" => Outcome::Stale,
        "TCP_CF_HIT" => Outcome::Collapsed,
        "TCP_REFRESH_MODIFIED" | "TCP_REFRESH_MISS" => Outcome::Replaced,
        "TCP_TUNNEL" => Outcome::NotStored("tunnel"),
        code if code.ends_with("HIT") => Outcome::Hit,
        code if code.starts_with("TCP_CLIENT_REFRESH") => Outcome::Reload,
        code if code.contains("DENIED") => Outcome::NotStored("denied"),
        code if code.contains("NONE") || code == "TCP_REDIRECT" => Outcome::Own,
        _ => Outcome::Miss,
    }
}

/// Parses any words on the handling of a request.
pub(crate) fn said(words: &str) -> Option<OutcomeWords> {
    let words = words.trim_ascii();
    let plain = |outcome| OutcomeWords { outcome, ttl_seconds: None };
    Outcome::named(words).map(plain).or_else(|| cache_status(words))
}

/// Parses a field of a line without named fields. Words that may stand for something else there,
/// such as `none` or `user`, are no outcome.
pub(crate) fn said_unnamed(words: &str) -> Option<OutcomeWords> {
    let is_clear = |word: &str| CLEAR.iter().any(|clear| clear.eq_ignore_ascii_case(word));
    match words.starts_with("TCP_") || is_clear(words) {
        true => said(words),
        false => cache_status(words),
    }
}

/// Parses Cache-Status (RFC 9211). The cache nearest to the client comes last, and it wrote the
/// log: "The Cache-Status HTTP response header field indicates how caches have handled that
/// response and its corresponding request" (2).
fn cache_status(words: &str) -> Option<OutcomeWords> {
    let member = parts(words, b',').last()?;
    let mut parameters = parts(member, b';').map(str::trim_ascii).skip(1).peekable();
    parameters.peek()?;
    let (mut hit, mut forwarded, mut status, mut collapsed) = (false, None, None, false);
    let (mut ttl_seconds, mut detail) = (None, None);
    for parameter in parameters {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = value.trim_matches(['"', '\\']);
        match name {
            "hit" => hit = true,
            "fwd" => forwarded = Some(value),
            "fwd-status" => status = Some(value),
            "collapsed" => collapsed = true,
            "ttl" => ttl_seconds = value.parse().ok(),
            "detail" => detail = reason(value),
            _ => {}
        }
    }
    debug_assert!(detail.is_none_or(|outcome| !outcome.is_hit()), "a detail is no hit");
    let outcome = match (hit, forwarded, detail) {
        (true, ..) if ttl_seconds.is_some_and(|ttl| ttl < 0) => Outcome::Stale,
        (true, ..) => Outcome::Hit,
        (_, Some("stale"), _) if status == Some("304") => Outcome::Validated,
        (_, _, Some(reason)) => reason,
        (_, Some(_), _) if collapsed => Outcome::Collapsed,
        (_, Some(why), None) => forwarded_for(why),
        (false, None, None) => return None,
    };
    Some(OutcomeWords { outcome, ttl_seconds })
}

/// Returns the outcome of a request that was forwarded for this reason (RFC 9211, 2.2).
fn forwarded_for(reason: &str) -> Outcome {
    match reason {
        "bypass" => Outcome::Bypass,
        "method" => Outcome::NotStored("method"),
        "vary-miss" => Outcome::Variant,
        "request" => Outcome::Reload,
        "stale" => Outcome::Replaced,
        "partial" => Outcome::Partial,
        _ => Outcome::Miss,
    }
}

/// Returns the outcome for a known reason.
fn reason(word: &str) -> Option<Outcome> {
    let known = Outcome::REASONS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    known.map(|(name, _)| Outcome::NotStored(name))
}

/// Returns the parts of a text between marks that are outside quotes.
fn parts(text: &str, mark: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut quoted = false;
        let end = text.bytes().position(|byte| {
            quoted ^= byte == b'"';
            byte == mark && !quoted
        });
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// Parses Cache-Control of a response (RFC 9111, 5.2.2). Returns the lifetime in a shared cache,
/// and the outcome of an answer that such a cache may not store.
pub(crate) fn cache_control(text: &str) -> (Option<i64>, Option<Outcome>) {
    let (mut shared, mut own, mut outcome) = (None, None, None);
    for directive in parts(text, b',') {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        let seconds = || value.trim_matches('"').parse::<i64>().ok();
        match name.trim_ascii().to_ascii_lowercase().as_str() {
            "s-maxage" => shared = seconds(),
            "max-age" => own = seconds(),
            "no-cache" => shared = Some(0),
            "no-store" => outcome = Some(Outcome::NotStored("no-store")),
            // With field names in its value, only these fields are private.
            "private" if value.is_empty() => outcome = Some(Outcome::NotStored("private")),
            _ => {}
        }
    }
    (shared.or(own), outcome)
}

/// Longest word that names an outcome, with ` from ` and a host.
const NAME_MAX: usize = 64;

/// Words that name an outcome wherever they stand.
const CLEAR: [&str; 14] = [
    "hit",
    "miss",
    "expired",
    "stale",
    "updating",
    "revalidated",
    "bypass",
    "dynamic",
    "pass",
    "hitmiss",
    "hitpass",
    "pipe",
    "synth",
    "refreshhit",
];

/// Names of outcomes; the first name of each outcome is the one that is written.
const NAMES: [(&str, Outcome); 39] = [
    ("hit", Outcome::Hit),
    ("validated", Outcome::Validated),
    ("stale", Outcome::Stale),
    ("collapsed", Outcome::Collapsed),
    ("miss", Outcome::Miss),
    ("replaced", Outcome::Replaced),
    ("variant", Outcome::Variant),
    ("reload", Outcome::Reload),
    ("partial", Outcome::Partial),
    ("bypass", Outcome::Bypass),
    ("own", Outcome::Own),
    // nginx, Cloudflare
    ("updating", Outcome::Stale),
    ("revalidated", Outcome::Validated),
    ("expired", Outcome::Replaced),
    ("dynamic", Outcome::Bypass),
    // Varnish
    ("pass", Outcome::Bypass),
    ("hitmiss", Outcome::Miss),
    ("hitpass", Outcome::Bypass),
    ("pipe", Outcome::NotStored("tunnel")),
    ("synth", Outcome::Own),
    // CloudFront
    ("refreshhit", Outcome::Validated),
    ("originshieldhit", Outcome::Hit),
    ("limitexceeded", Outcome::Own),
    ("capacityexceeded", Outcome::Own),
    ("redirect", Outcome::Own),
    ("https", Outcome::Own),
    // Traffic Server
    ("hit-fresh", Outcome::Hit),
    ("hit-stale", Outcome::Replaced),
    ("skipped", Outcome::Bypass),
    // Shoal
    ("memory_hit", Outcome::Hit),
    ("peer_hit", Outcome::Hit),
    ("refresh_unmodified", Outcome::Validated),
    ("refresh_modified", Outcome::Replaced),
    ("stale_while_revalidate", Outcome::Stale),
    ("stale_if_error", Outcome::Stale),
    ("abandoned", Outcome::Miss),
    ("none", Outcome::Own),
    ("none_none", Outcome::Own),
    ("disabled", Outcome::Bypass),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_caches_are_outcomes() {
        for (words, outcome) in [
            ("HIT", Some(Outcome::Hit)),
            ("Expired", Some(Outcome::Replaced)),
            ("TCP_REFRESH_UNMODIFIED_ABORTED", Some(Outcome::Validated)),
            ("TCP_CLIENT_REFRESH_MISS", Some(Outcome::Reload)),
            ("TCP_IMS_HIT", Some(Outcome::Hit)),
            ("TCP_DENIED", Some(Outcome::NotStored("denied"))),
            ("Miss from cloudfront", Some(Outcome::Miss)),
            ("set-cookie", Some(Outcome::NotStored("set-cookie"))),
            ("shoal;hit;ttl=376", Some(Outcome::Hit)),
            ("shoal;hit;ttl=-4", Some(Outcome::Stale)),
            ("shoal;fwd=stale;fwd-status=304;stored", Some(Outcome::Validated)),
            ("shoal;fwd=stale;stored", Some(Outcome::Replaced)),
            ("shoal;fwd=uri-miss;detail=never-reusable", Some(Outcome::NotStored("never-reusable"))),
            ("shoal;fwd=uri-miss;collapsed", Some(Outcome::Collapsed)),
            ("shoal;fwd=vary-miss;stored", Some(Outcome::Variant)),
            ("shoal;detail=denied", Some(Outcome::NotStored("denied"))),
            (r#"far; hit, "a, b"; fwd=uri-miss; key="x;hit, y; hit"; detail=odd"#, Some(Outcome::Miss)),
            (r#"near; key=\"GET a,b\"; fwd=bypass"#, Some(Outcome::Bypass)),
            ("shoal", None),
            ("Mozilla/5.0 (X11; hit)", None),
            ("", None),
            ("hits", None),
        ] {
            assert_eq!(said(words).map(|said| said.outcome), outcome, "{words}");
        }
        for words in ["none", "user", "private", "-", "tls"] {
            assert_eq!(said_unnamed(words), None, "{words}");
        }
        assert_eq!(said_unnamed("MISS").map(|said| said.outcome), Some(Outcome::Miss));
        assert_eq!(said("shoal; hit; ttl=30").and_then(|said| said.ttl_seconds), Some(30));
    }

    #[test]
    fn names_are_read_as_written() {
        let reasons = Outcome::REASONS.iter().map(|(reason, _)| Outcome::NotStored(reason));
        for outcome in NAMES.iter().map(|(_, outcome)| *outcome).chain(reasons) {
            assert_eq!(Outcome::named(outcome.name()), Some(outcome), "{outcome:?}");
        }
        assert!(Outcome::NotStored("never-reusable").forbids_storing() && Outcome::Bypass.forbids_storing());
        assert!(!Outcome::NotStored("too-large").forbids_storing() && !Outcome::Miss.forbids_storing());
    }

    #[test]
    fn lifetimes_of_cache_control_are_read() {
        let not_stored = |reason| Some(Outcome::NotStored(reason));
        for (text, ttl_seconds, outcome) in [
            ("public, max-age=60", Some(60), None),
            ("max-age=60, S-MaxAge=\"600\"", Some(600), None),
            ("no-cache, max-age=60", Some(0), None),
            ("private, max-age=60", Some(60), not_stored("private")),
            ("private=\"set-cookie, x\", max-age=60", Some(60), None),
            ("no-store", None, not_stored("no-store")),
            ("max-age=soon", None, None),
        ] {
            assert_eq!(cache_control(text), (ttl_seconds, outcome), "{text}");
        }
    }
}
