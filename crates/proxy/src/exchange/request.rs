//! What is asked: a request that the cache may answer, in the form in which its steps pass it on.

use super::flight::FlightKey;
use super::hit_for_miss::{Kind, PassKey};
use super::purge_table::Sequence;
use super::ruling::RuleOutcome;
use super::settings::ExchangeSettings;
use super::target::Target;
use super::variant::push_selecting;
use crate::message::{Client, InterimSink};
use crate::route::{Route, Speaking, Way};
use http::uri::PathAndQuery;
use http::{HeaderName, Method, Version, header};
use shoal_core::{FieldLines, Fields, ObjectKey, Timestamp, value_text};
use shoal_semantics::directives::RequestDirectives;
use std::sync::Arc;

/// A request on its way through the exchange. Its body, if any, travels apart.
pub struct RequestContext {
    /// The method.
    pub method: Method,
    /// Its effective URI.
    pub target: Target,
    /// Its path and query, as the origin is asked for them.
    pub path: PathAndQuery,
    /// The primary cache key.
    pub primary: ObjectKey,
    /// Fields as received, hop-by-hop fields included, but without those that Connection takes out
    /// of what goes on.
    pub fields: FieldLines,
    /// What responses to it may differ by, as far as passes are remembered by it.
    pub kind: Kind,
    /// The client's HTTP version.
    pub version: Version,
    /// Its Cache-Control.
    pub directives: RequestDirectives,
    /// The client, as trusted proxies tell of it where it came through some.
    pub client: Arc<Client>,
    /// The way through them.
    pub way: Option<Way>,
    /// The reverse site that serves it; `None` in forward mode.
    pub site: Option<Arc<Route>>,
    /// The authenticated user.
    pub user: Option<String>,
    /// What the operator's rules made of it.
    pub ruling: RuleOutcome,
    /// The settings under which it is answered.
    pub live: Arc<ExchangeSettings>,
    /// Where interim responses go.
    pub interim: Option<InterimSink>,
    /// When it arrived.
    pub requested: Timestamp,
    /// Its place in the order of requests and purges: see
    /// [`PurgeTable::sequence`](super::purge_table::PurgeTable::sequence).
    pub sequence: Sequence,
}

impl RequestContext {
    /// The Range field of a GET, which is the only method for which it is defined (RFC 9110,
    /// section 14.2). It is one line; several are not obeyed.
    pub fn range(&self) -> Option<&str> {
        if self.method != Method::GET || !self.fields.has(&header::RANGE) {
            return None;
        }
        let mut lines = self.fields.values(&header::RANGE);
        let line = lines.next().filter(|_| lines.next().is_none())?;
        value_text(line)
    }

    /// How often a TRACE or OPTIONS may still be forwarded; other methods are not limited.
    pub fn max_forwards(&self) -> Option<u32> {
        if self.method != Method::TRACE && self.method != Method::OPTIONS {
            return None;
        }
        value_text(self.fields.value(&header::MAX_FORWARDS)?)?.trim().parse().ok()
    }

    /// Whether the request has conditions that only the origin can answer: If-Match and
    /// If-Unmodified-Since guard against changes that a cache may not know of (RFC 9110, section
    /// 13.1).
    pub fn has_origin_conditions(&self) -> bool {
        self.fields.has(&header::IF_MATCH) || self.fields.has(&header::IF_UNMODIFIED_SINCE)
    }

    /// What selects among responses that differ by these fields.
    pub fn selecting(&self, names: &[HeaderName]) -> Vec<u8> {
        let mut values = Vec::new();
        let told = self.site.is_some().then_some(&*self.client);
        push_selecting(&mut values, names, &self.fields, told);
        values
    }

    /// The flight in which such requests share a fetch of what is stored under `key`.
    pub fn flight(&self, key: &ObjectKey) -> FlightKey {
        FlightKey::of(key)
    }

    /// What is remembered when responses to such a request may not be stored.
    pub fn pass_key(&self) -> PassKey {
        PassKey { url: self.primary.hash(), kind: self.kind }
    }

    /// Whether the request says who sends it.
    pub fn brings_credentials(&self) -> bool {
        self.kind.has_authorization || self.kind.has_cookie
    }

    /// Whether the request says of its user, through a trusted proxy, what no key has: then the
    /// cache has no part in it.
    pub fn speaks_of_user(&self) -> bool {
        self.site.is_some() && self.way.as_ref().is_some_and(|way| way.tells_more)
    }

    /// Whether a field of this name, in lower case, stays here. An origin believes it, and no key
    /// has it. Origins of forward mode get it with requests whose answers nobody shares.
    pub fn keeps_back(&self, name: &[u8]) -> bool {
        match Speaking::of(name) {
            None => false,
            Some(Speaking::Method) => self.is_lookup(),
            Some(Speaking::Identity) if self.speaks_of_user() => false,
            Some(_) => self.site.is_some() || self.is_lookup(),
        }
    }

    /// Whether the cache may look for an answer: GET and HEAD (RFC 9111, section 2).
    pub fn is_lookup(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }
}
