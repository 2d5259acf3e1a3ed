//! A request that the cache may answer, in the form that the steps of the exchange pass on.

use super::flight::FlightKey;
use super::hit_for_miss::{Kind, PassKey};
use super::peers;
use super::purge_table::Sequence;
use super::ruling::RuleOutcome;
use super::settings::ExchangeSettings;
use super::target::Target;
use super::variant::push_selecting;
use crate::by_site::SiteMeter;
use crate::message::{Client, InterimSink};
use crate::mirror::MirroredAsk;
use crate::otlp::{RequestTrace, TraceSink};
use crate::prefetch::RequestHints;
use crate::route::{FieldStatement, Route, Way};
use crate::upstream::Background;
use http::uri::PathAndQuery;
use http::{HeaderName, Method, Version, header};
use shoal_cooperation::Homes;
use shoal_core::{FieldLines, Fields, ObjectKey, Timestamp, value_text};
use shoal_semantics::directives::RequestDirectives;
use shoal_semantics::fields;
use shoal_semantics::trace_context::{TRACEPARENT, TRACESTATE, TraceContext, is_trace_state};
use shoal_settings::Mode;
use shoal_wire::RequestParts;
use std::sync::{Arc, OnceLock};

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
    /// Outcome of the operator's rules.
    pub ruling: RuleOutcome,
    /// Meaning of the request at a mirror, if its site is one.
    pub mirror: Option<Box<MirroredAsk>>,
    /// Settings under which the request is answered.
    pub live: Arc<ExchangeSettings>,
    /// Receiver of interim responses.
    pub interim: Option<InterimSink>,
    /// Links of the origin's 103 for this request; `None` if none are noted.
    pub(crate) early: Option<Arc<RequestHints>>,
    /// Time of arrival.
    pub requested: Timestamp,
    /// Position in the order of requests and purges: see
    /// [`PurgeTable::sequence`](super::purge_table::PurgeTable::sequence).
    pub sequence: Sequence,
    /// `true` if another node of the cluster asks, for a client of its own. Its fields go on as
    /// they came.
    pub is_for_peer: bool,
    /// Hops of the request between nodes: 0 for a client's.
    pub hops: u8,
    /// Another node asks for a stored copy, and may have one that arrives from the origin.
    pub joins_origin_flights: bool,
    /// State of a prefetch, which gives way to clients' requests; `None` for a client's.
    pub background: Option<Arc<Background>>,
    /// Trace of the request; `None` unless traces are on.
    pub trace: Option<Arc<RequestTrace>>,
    /// Nodes to ask before the origin, once computed; see [`Self::homes`].
    asked: OnceLock<Option<AskedNodes>>,
}

/// Nodes that a request asks before the origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedNodes {
    /// Homes, probable holders, or parents.
    pub homes: Homes,
    /// Siblings that probably hold the object.
    pub siblings: Homes,
}

/// A request that may proceed, with the outcome of the operator's rules.
pub(super) struct AdmittedRequest {
    /// Head as the rules left it.
    pub head: RequestParts,
    /// Target as the rules left it.
    pub target: Target,
    /// Outcome of the rules.
    pub ruling: RuleOutcome,
    /// The client, as trusted proxies report it if there are any.
    pub client: Arc<Client>,
    /// Path through these proxies.
    pub way: Option<Way>,
    /// Reverse site that serves the request.
    pub site: Option<Arc<Route>>,
    /// The authenticated user.
    pub user: Option<String>,
    /// Settings under which the request is answered.
    pub live: Arc<ExchangeSettings>,
}

impl RequestContext {
    /// Returns the meter of the request's site, or of forward mode.
    pub fn meter(&self) -> &Arc<SiteMeter> {
        self.live.routes.meter(self.site.as_deref())
    }

    /// Derives key, path and directives of a request. The tuple has the receiver of interim
    /// responses, the time of arrival, and the position in the order of purges.
    pub(super) fn new(
        admitted: AdmittedRequest,
        (interim, requested, sequence): (Option<InterimSink>, Timestamp, Sequence),
    ) -> Self {
        let AdmittedRequest { head, target, ruling, client, way, site, user, live } = admitted;
        let directives = ruling.directives(&head.fields);
        let fields = fields::without_nominated(head.fields);
        Self {
            mirror: None,
            primary: target.key(if site.is_some() { Mode::Reverse } else { Mode::Forward }),
            path: ruling.upstream_path.clone().unwrap_or_else(|| target.path_and_query(&head.uri)),
            target,
            directives,
            kind: Kind::of(&fields),
            method: head.method,
            fields,
            version: head.version,
            client,
            way,
            site,
            user,
            ruling,
            live,
            interim,
            early: None,
            requested,
            sequence,
            is_for_peer: false,
            hops: 0,
            joins_origin_flights: false,
            background: None,
            trace: None,
            asked: OnceLock::new(),
        }
    }

    /// Begins the request's trace. A valid context of the client is its parent; any other is
    /// dropped with its state. Servers that are asked get the context of this node. The
    /// caller's flag decides if the request came from a trusted proxy.
    pub(super) fn begin_trace(&mut self, traces: &TraceSink) {
        let (parent, state) = (TRACEPARENT, TRACESTATE);
        let is_one = self.fields.values(&parent).count() == 1;
        let caller = self.fields.value(&parent).filter(|_| is_one).and_then(TraceContext::parse);
        let keeps_state = caller.is_some() && is_trace_state(self.fields.values(&state));
        let trace = traces.begin(caller, self.way.is_some());
        let own = trace.context.to_field();
        let is_kept = |name: &[u8]| name != b"traceparent" && (keeps_state || name != b"tracestate");
        let kept = self.fields.lines().filter(|(name, _)| is_kept(name));
        self.fields = kept.chain([(&b"traceparent"[..], own.as_bytes())]).collect();
        self.trace = Some(Arc::new(trace));
    }

    /// Makes the request one at a mirror.
    pub(super) fn at_mirror(self, asked: MirroredAsk) -> Self {
        debug_assert!(self.site.is_some() && !self.is_for_peer, "a site of this node");
        debug_assert!(!self.ruling.leaves_request(), "other nodes would take it for a site's request");
        Self { primary: self.target.mirror_key(&asked.mirror.realm), mirror: Some(Box::new(asked)), ..self }
    }

    /// Returns `true` if the origin is asked for the whole, also for a client that wants a range.
    pub fn fetches_whole(&self) -> bool {
        self.mirror.as_ref().is_some_and(|asked| asked.fetches_whole())
    }

    /// Returns `true` if requests for other places have the same key: an error at one of them says
    /// nothing about the others.
    pub fn shares_key(&self) -> bool {
        self.mirror.as_ref().is_some_and(|asked| asked.own_place.is_some())
    }

    /// Marks the request as one of another node.
    pub(super) fn for_peer(self) -> Self {
        Self { is_for_peer: true, ..self }
    }

    /// Returns the homes of the key, if they are to be asked before the origin: in a cluster, for a
    /// request that other nodes answer as this one would, unless this node is the first home. With
    /// placement by digests, the probable holders stand in their place. In a hierarchy the parents
    /// do; the list may then be empty, since siblings are asked too.
    pub fn homes(&self) -> Option<&Homes> {
        self.asked_nodes().map(|asked| &asked.homes)
    }

    /// Returns the siblings that probably hold the object, in a hierarchy.
    pub fn siblings(&self) -> Homes {
        self.asked_nodes().map_or(Homes::default(), |asked| asked.siblings)
    }

    fn asked_nodes(&self) -> Option<&AskedNodes> {
        // A prefetch of this node asks the origin alone: another node prefetches for itself.
        let cluster = self.live.cluster.as_ref().filter(|_| self.background.is_none())?;
        let find = || {
            let beside_nobody = |homes| AskedNodes { homes, siblings: Homes::default() };
            if let Some(rules) = &self.live.parents {
                return peers::upward(self, cluster, rules);
            }
            if self.live.asks_holders {
                let asked = peers::may_ask(self).then(|| cluster.holders(self.primary.full()));
                return asked.filter(|holders| holders.first().is_some()).map(beside_nobody);
            }
            let homes = cluster.members().view.homes(self.primary.full());
            (peers::may_ask(self) && homes.first().is_some_and(|first| first != cluster.own()))
                .then_some(beside_nobody(homes))
        };
        self.asked.get_or_init(find).as_ref()
    }

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
        FlightKey::of(key).asking_after(self.homes().map(|_| self.hops))
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
        match FieldStatement::of(name) {
            None => false,
            // The entry node has kept the client's back, and these are its own.
            Some(_) if self.is_for_peer => false,
            // The rules' own word took the place of the client's.
            Some(_) if self.ruling.sets(name) => false,
            Some(FieldStatement::Method) => self.is_lookup(),
            Some(FieldStatement::Identity) if self.speaks_of_user() => false,
            Some(_) => self.site.is_some() || self.is_lookup(),
        }
    }

    /// Returns `true` if the cache may look for an answer: GET and HEAD (RFC 9111, section 2).
    pub fn is_lookup(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }
}
