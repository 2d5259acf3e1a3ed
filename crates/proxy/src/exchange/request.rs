//! A request that the cache may answer, in the form that the steps of the exchange pass on.

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

/// A request on its way through the exchange. A body travels separately.
pub struct RequestContext {
    /// Request method.
    pub method: Method,
    /// Effective URI.
    pub target: Target,
    /// Path and query in the form sent to the origin.
    pub path: PathAndQuery,
    /// Primary cache key.
    pub primary: ObjectKey,
    /// Fields as received, including hop-by-hop fields. Fields that Connection removes from
    /// forwarded requests are left out.
    pub fields: FieldLines,
    /// Properties on which responses may depend, for the memory of passes.
    pub kind: Kind,
    /// The client's HTTP version.
    pub version: Version,
    /// Parsed Cache-Control.
    pub directives: RequestDirectives,
    /// The client, as trusted proxies report it if there are any.
    pub client: Arc<Client>,
    /// Path through these proxies.
    pub way: Option<Way>,
    /// Reverse site that serves the request; `None` in forward mode.
    pub site: Option<Arc<Route>>,
    /// The authenticated user.
    pub user: Option<String>,
    /// What the operator's rules made of it.
    pub ruling: RuleOutcome,
    /// Settings under which the request is answered.
    pub live: Arc<ExchangeSettings>,
    /// Receiver of interim responses.
    pub interim: Option<InterimSink>,
    /// Time of arrival.
    pub requested: Timestamp,
    /// Position in the order of requests and purges: see
    /// [`PurgeTable::sequence`](super::purge_table::PurgeTable::sequence).
    pub sequence: Sequence,
}

impl RequestContext {
    /// Returns the Range field of a GET, the only method that defines it (RFC 9110, section 14.2).
    /// Several lines of Range are ignored.
    pub fn range(&self) -> Option<&str> {
        if self.method != Method::GET || !self.fields.has(&header::RANGE) {
            return None;
        }
        let mut lines = self.fields.values(&header::RANGE);
        let line = lines.next().filter(|_| lines.next().is_none())?;
        value_text(line)
    }

    /// Returns the remaining forwards of a TRACE or OPTIONS; other methods have no limit.
    pub fn max_forwards(&self) -> Option<u32> {
        if self.method != Method::TRACE && self.method != Method::OPTIONS {
            return None;
        }
        value_text(self.fields.value(&header::MAX_FORWARDS)?)?.trim().parse().ok()
    }

    /// Returns `true` if the request has conditions that only the origin can answer. If-Match and
    /// If-Unmodified-Since guard against changes unknown to a cache (RFC 9110, section 13.1).
    pub fn has_origin_conditions(&self) -> bool {
        self.fields.has(&header::IF_MATCH) || self.fields.has(&header::IF_UNMODIFIED_SINCE)
    }

    /// Returns the values that select among responses that differ by these fields.
    pub fn selecting(&self, names: &[HeaderName]) -> Vec<u8> {
        let mut values = Vec::new();
        let told = self.site.is_some().then_some(&*self.client);
        push_selecting(&mut values, names, &self.fields, told);
        values
    }

    /// Returns the key of the flight in which such requests share a fetch of the response under
    /// `key`.
    pub fn flight(&self, key: &ObjectKey) -> FlightKey {
        FlightKey::of(key)
    }

    /// Returns the key under which unstorable responses are remembered.
    pub fn pass_key(&self) -> PassKey {
        PassKey { url: self.primary.hash(), kind: self.kind }
    }

    /// Returns `true` if the request carries credentials.
    pub fn brings_credentials(&self) -> bool {
        self.kind.has_authorization || self.kind.has_cookie
    }

    /// Returns `true` if a trusted proxy described the user in fields that no key contains. The
    /// cache does not answer such a request.
    pub fn speaks_of_user(&self) -> bool {
        self.site.is_some() && self.way.as_ref().is_some_and(|way| way.tells_more)
    }

    /// Returns `true` if a field of this name, in lower case, is not forwarded. An origin would
    /// trust the field, and no key contains it. Origins of forward mode get the field with requests
    /// that share no answer.
    pub fn keeps_back(&self, name: &[u8]) -> bool {
        match Speaking::of(name) {
            None => false,
            // The rules' own word took the place of the client's.
            Some(_) if self.ruling.sets(name) => false,
            Some(Speaking::Method) => self.is_lookup(),
            Some(Speaking::Identity) if self.speaks_of_user() => false,
            Some(_) => self.site.is_some() || self.is_lookup(),
        }
    }

    /// Returns `true` if the cache may look for an answer: GET and HEAD (RFC 9111, section 2).
    pub fn is_lookup(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }
}
