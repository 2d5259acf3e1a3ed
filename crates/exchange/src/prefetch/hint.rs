//! One hint: a request that a client is likely to make.

use shoal_cooperation::prefetch::HintSource;
use shoal_core::Key;
use std::net::{IpAddr, Ipv4Addr};

/// Fields of a hinted request: names in lower case, and values.
pub(super) type HintFields = Vec<(Box<str>, Box<[u8]>)>;

/// Key of an account. Forward mode has accounts of its own: any host's answers hint there, and a
/// mute for them must not hold for sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AccountKey {
    pub source: HintSource,
    /// Sites and mirrors of this node.
    pub is_own: bool,
}

/// Request that is likely to come.
#[derive(Clone, Debug)]
pub(super) struct Hint {
    /// Hash of place and range. For a URL it is the key of the answer too.
    pub number: u64,
    pub source: HintSource,
    pub place: HintPlace,
    /// Address of the client that got the hint's answer: access rules judge the fetch by it, and
    /// origins are told of it. `None` for the operator's hints.
    pub reader: Option<IpAddr>,
    /// Fields by which answers differ.
    pub fields: HintFields,
    /// First and last byte, for a part.
    pub range: Option<(u64, u64)>,
    /// Seconds until a client needs it, at the pace of its list; 0 for now.
    pub needed_in_seconds: f64,
    /// Times that an origin was asked, and the fetch then gave way.
    pub tries: u8,
    /// `true` while it has a place at its origin.
    pub asks_origin: bool,
    /// Address of the node that placed it here.
    pub asker: Option<IpAddr>,
    /// End of the time for which it may wait for its origin, once it has waited.
    pub useful_until: Option<f64>,
}

/// Place of a hinted request at this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintPlace {
    /// URL of a site, or of any host by forward mode, through the listener of this number.
    Url {
        /// Absolute URL.
        url: String,
        /// Number of the listener.
        listener: usize,
        /// Hash of the cache key.
        key: u64,
        /// `true` if a site of this node serves it; `false` in forward mode.
        is_site: bool,
    },
    /// Path below a mirror of this name.
    Mirror {
        /// Name of the mirror.
        mirror: String,
        /// Path with its query.
        path: String,
    },
}

/// Reason for refusing a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintRefusal {
    /// The URL cannot be read.
    Url,
    /// The URL belongs to no site, mirror or listener of this node.
    Stranger,
    /// A field that may not be set, or too many.
    Field,
    /// The source is switched off.
    Off,
    /// No room for more hints.
    Full,
}

impl HintRefusal {
    /// Returns the reason in a line.
    pub fn why(self) -> &'static str {
        match self {
            Self::Url => "it is no URL of http or https",
            Self::Stranger => "its host is no site and no mirror of this node",
            Self::Field => "a hint may set up to 8 fields by which answers differ, and no credentials",
            Self::Off => "prefetch.lists is off",
            Self::Full => "too many hints wait",
        }
    }
}

impl Hint {
    /// Makes a hint for a place.
    pub fn new(source: HintSource, place: HintPlace) -> Self {
        let number = place.number();
        let fields = Vec::new();
        Self {
            number,
            source,
            place,
            reader: None,
            fields,
            range: None,
            needed_in_seconds: 0.0,
            tries: 0,
            asks_origin: false,
            asker: None,
            useful_until: None,
        }
    }

    /// Makes the hint one of an answer to the client at `reader`.
    pub fn read_by(self, reader: IpAddr) -> Self {
        Self { reader: Some(reader), ..self }
    }

    /// Makes the hint one for bytes from the first to the last.
    pub fn with_range(self, first: u64, last: u64) -> Self {
        debug_assert!(first <= last, "a part has a byte");
        Self { number: part_number(self.number, first), range: Some((first, last)), ..self }
    }

    /// Returns the account that the hint is counted in.
    pub fn account(&self) -> AccountKey {
        AccountKey { source: self.source, is_own: self.place.is_own() }
    }

    /// Returns the name of the origin, for its pace.
    pub fn origin(&self) -> &str {
        match &self.place {
            HintPlace::Mirror { mirror, .. } => mirror,
            HintPlace::Url { url, .. } => {
                let rest = url.split_once("://").map_or(&**url, |(_, rest)| rest);
                rest.split(['/', '?']).next().unwrap_or_default()
            }
        }
    }
}

impl HintPlace {
    /// Returns `true` for a place of a site or mirror of this node, and not of forward mode.
    pub fn is_own(&self) -> bool {
        match self {
            Self::Url { is_site, .. } => *is_site,
            Self::Mirror { .. } => true,
        }
    }

    /// Returns the number of a hint for this place.
    pub fn number(&self) -> u64 {
        match self {
            Self::Url { key, .. } => *key,
            Self::Mirror { mirror, path } => Key::of(format!("mirror {mirror} {path}").as_bytes()).low(),
        }
    }
}

/// Returns the number of a part that begins at `first`.
pub(super) fn part_number(whole: u64, first: u64) -> u64 {
    whole ^ (first.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns `true` if a hint may set this field: answers differ by it, and it is no credential, no
/// condition and no part of the framing.
pub(super) fn may_set(name: &str) -> bool {
    const NEVER: [&str; 24] = [
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "forwarded",
        "from",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "range",
        "shoal-peer",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "cdn-loop",
    ];
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_of_proxy = |name: &str| name.starts_with("x-forwarded") || name.starts_with("x-real");
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(is_token)
        && !is_of_proxy(name)
        && !NEVER.contains(&name)
}

/// Reader of hints without a known client. Lists of networks name it only with all others.
pub(super) const UNKNOWN_READER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// Most fields of a hint.
pub(super) const FIELDS_MAX: usize = 8;
/// Longest value of a field.
pub(super) const VALUE_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_framing_are_never_set() {
        for name in ["cookie", "authorization", "host", "range", "x-forwarded-for", "a b", "", "te"] {
            assert!(!may_set(name), "{name}");
        }
        for name in ["accept", "accept-encoding", "accept-language", "user-agent", "x-app-version"] {
            assert!(may_set(name), "{name}");
        }
    }

    #[test]
    fn hints_know_their_origin_and_number() {
        let place =
            HintPlace::Url { url: "https://a.test:8443/x?y".into(), listener: 0, key: 77, is_site: true };
        let whole = Hint::new(HintSource::Link, place);
        assert_eq!((whole.origin(), whole.number), ("a.test:8443", 77));
        let (first, later) = (whole.clone().with_range(0, 9), whole.with_range(10, 19));
        assert!(first.number != 77 && later.number != first.number);
        let of = |path: &str| HintPlace::Mirror { mirror: "npm".into(), path: path.into() };
        assert_ne!(of("/a").number(), of("/b").number());
    }
}
