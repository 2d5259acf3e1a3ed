//! Requests for places at a registry, with fields of this node alone.

use super::is_derived;
use crate::message::Client;
use crate::message::target::Target;
use crate::mirror::{MirrorRoute, MirroredAsk};
use crate::purge_table::Sequence;
use crate::request::{AdmittedRequest, RequestContext};
use crate::route::Route;
use crate::ruling::RuleOutcome;
use crate::settings::ExchangeSettings;
use http::{HeaderValue, Method, header};
use shoal_core::{FieldLines, Fields, Timestamp};
use shoal_mirrors::{Class, Fetch, Form, Mirror, Place};
use shoal_rules::may_leave_prefix;
use shoal_wire::RequestParts;
use std::sync::{Arc, OnceLock};

/// Facts that all requests on behalf of one client's request share.
pub(crate) struct MirrorBase {
    pub mirror: Arc<MirrorRoute>,
    pub facts: Mirror,
    client: Arc<Client>,
    site: Option<Arc<Route>>,
    user: Option<String>,
    live: Arc<ExchangeSettings>,
    /// URL as the client asked for it.
    asked_url: Arc<str>,
    ruling: RuleOutcome,
    user_agent: Option<Vec<u8>>,
    /// Latest publication time that is old enough, if age matters for the package.
    pub age_limit: Option<i64>,
    /// Authorization of the client, if the registry is asked for rights.
    pub credentials: Option<HeaderValue>,
    requested: Timestamp,
    sequence: Sequence,
}

impl MirrorBase {
    /// Takes the facts of a client's request.
    pub fn new(
        admitted: &AdmittedRequest,
        (mirror, facts): (Arc<MirrorRoute>, Mirror),
        age_limit: Option<i64>,
        (requested, sequence): (Timestamp, Sequence),
    ) -> Self {
        let asked_url = admitted.ruling.asked_url.clone().unwrap_or(Arc::clone(&admitted.target.url));
        let credentials = admitted.head.fields.shared_value(&header::AUTHORIZATION);
        Self {
            credentials: credentials.filter(|_| mirror.asks_for_rights()),
            mirror,
            facts,
            client: Arc::clone(&admitted.client),
            site: admitted.site.clone(),
            user: admitted.user.clone(),
            live: Arc::clone(&admitted.live),
            ruling: admitted.ruling.at_place(Arc::clone(&asked_url), None, false),
            asked_url,
            user_agent: admitted.head.fields.value(&header::USER_AGENT).map(<[u8]>::to_vec),
            age_limit,
            requested,
            sequence,
        }
    }

    /// Takes the facts of a request that is on its way.
    pub fn of(ask: &RequestContext) -> Option<Self> {
        let asked = ask.mirror.as_ref()?;
        let asked_url = ask.ruling.asked_url.clone().unwrap_or(Arc::clone(&ask.target.url));
        Some(Self {
            mirror: Arc::clone(&asked.mirror),
            facts: asked.facts.clone(),
            client: Arc::clone(&ask.client),
            site: ask.site.clone(),
            user: ask.user.clone(),
            live: Arc::clone(&ask.live),
            ruling: ask.ruling.at_place(Arc::clone(&asked_url), None, false),
            asked_url,
            user_agent: ask.fields.value(&header::USER_AGENT).map(<[u8]>::to_vec),
            age_limit: asked.age_limit,
            credentials: asked.credentials.clone(),
            requested: ask.requested,
            sequence: ask.sequence,
        })
    }

    /// Returns the same facts without a minimum age.
    pub fn ageless(&self) -> Self {
        Self {
            mirror: Arc::clone(&self.mirror),
            facts: self.facts.clone(),
            client: Arc::clone(&self.client),
            site: self.site.clone(),
            user: self.user.clone(),
            live: Arc::clone(&self.live),
            asked_url: Arc::clone(&self.asked_url),
            ruling: self.ruling.at_place(Arc::clone(&self.asked_url), None, false),
            user_agent: self.user_agent.clone(),
            age_limit: None,
            credentials: self.credentials.clone(),
            requested: self.requested,
            sequence: self.sequence,
        }
    }

    /// Returns `true` if documents of this form are rewritten.
    pub fn derives(&self, form: Form) -> bool {
        is_derived(&self.mirror, &self.facts, form)
    }

    /// Returns `true` if clients get a form that is derived from the decoded document.
    pub fn decodes(&self, fetch: &Fetch) -> bool {
        match fetch.class {
            Class::Document(form) => self.derives(form) || fetch.form_asked.is_some(),
            Class::File(_) => false,
        }
    }

    /// Returns the request of a document for this node itself.
    pub fn document(&self, place: &Place, form: Form) -> Option<RequestContext> {
        let fetch = Fetch {
            place: place.clone(),
            class: Class::Document(form),
            accept: form.accept(),
            form_asked: None,
        };
        self.asking_for(&fetch, self.derives(form), Method::GET, Vec::new())
    }

    /// Returns a request of this node itself.
    pub fn own(&self, fetch: &Fetch, method: Method) -> Option<RequestContext> {
        self.asking_for(fetch, false, method, Vec::new())
    }

    /// Returns the request of an entry that a client writes.
    pub fn entry(&self, fetch: &Fetch) -> Option<RequestContext> {
        self.asking_for(fetch, false, Method::GET, Vec::new())
    }

    /// Returns the request of an answer that may be stored. Conditions and ranges of the client
    /// stay, unless it gets another form than the stored one.
    pub fn asking(&self, fetch: &Fetch, is_derived: bool, head: &RequestParts) -> Option<RequestContext> {
        let kept = [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::RANGE, header::IF_RANGE];
        let fields = kept.iter().filter(|_| !is_derived).flat_map(|name| {
            head.fields.values(name).map(move |value| (name.as_str().as_bytes().to_vec(), value.to_vec()))
        });
        let method = if is_derived { Method::GET } else { head.method.clone() };
        self.asking_for(fetch, is_derived, method, fields.collect())
    }

    /// Returns the request of a file's body under another place, if it is stored there.
    pub fn same_body(&self, ask: &RequestContext, place: Place) -> Option<RequestContext> {
        let class = ask.mirror.as_ref()?.class.clone()?;
        let accept = match &class {
            Class::File(_) => None,
            Class::Document(form) => form.accept(),
        };
        let kept = [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::RANGE, header::IF_RANGE];
        let fields = kept.iter().flat_map(|name| {
            ask.fields.values(name).map(move |value| (name.as_str().as_bytes().to_vec(), value.to_vec()))
        });
        let fetch = Fetch { place, class, accept, form_asked: None };
        let mut other = self.asking_for(&fetch, false, ask.method.clone(), fields.collect())?;
        other.directives.only_if_cached = true;
        // The file itself was judged already.
        other.mirror.as_mut()?.age_limit = None;
        Some(other)
    }

    fn asking_for(
        &self,
        fetch: &Fetch,
        is_derived: bool,
        method: Method,
        mut fields: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Option<RequestContext> {
        let mut add = |name: &http::HeaderName, value: &[u8]| {
            fields.push((name.as_str().as_bytes().to_vec(), value.to_vec()));
        };
        self.user_agent.iter().for_each(|agent| add(&header::USER_AGENT, agent));
        fetch.accept.iter().for_each(|accept| add(&header::ACCEPT, accept.as_bytes()));
        // A document that other clients may get as it is stored stays without a coding.
        if self.decodes(fetch) {
            add(&header::ACCEPT_ENCODING, b"gzip");
        }
        let shared = self.mirror.registry.shared_place(fetch);
        let asked = MirroredAsk {
            mirror: Arc::clone(&self.mirror),
            facts: self.facts.clone(),
            class: Some(fetch.class.clone()),
            varies: fetch.accept.is_some(),
            is_derived,
            age_limit: self.age_limit,
            place: shared.clone().unwrap_or_else(|| fetch.place.clone()),
            own_place: shared.is_some().then(|| fetch.place.clone()),
            promised: OnceLock::new(),
            credentials: self.credentials.clone(),
        };
        let mut ask = self.context(asked, method, fields.into_iter().collect(), false)?;
        if self.mirror.settings.offline {
            (ask.directives.only_if_cached, ask.directives.max_stale) = (true, Some(u32::MAX));
        }
        Some(ask)
    }

    /// Returns the request of this node that passes to a place without a body.
    pub fn probing(&self, method: Method, place: &Place, accept: Option<&str>) -> Option<RequestContext> {
        let uri = "/".parse().ok()?;
        let agent = self.user_agent.iter().map(|agent| (header::USER_AGENT.as_str(), agent.clone()));
        let accept = accept.map(|accept| (header::ACCEPT.as_str(), accept.as_bytes().to_vec()));
        let fields = agent.chain(accept).collect();
        let head = RequestParts { method, uri, version: http::Version::HTTP_11, fields };
        self.passing(&head, place.clone())
    }

    /// Returns the request that passes to a place, with the fields that describe its body and
    /// answer. Other fields may name the client, or be credentials.
    pub fn passing(&self, head: &RequestParts, place: Place) -> Option<RequestContext> {
        let fields = head.fields.lines().filter(|(name, _)| PASSING.contains(name)).collect();
        let asked = MirroredAsk {
            mirror: Arc::clone(&self.mirror),
            facts: self.facts.clone(),
            class: None,
            varies: false,
            is_derived: false,
            age_limit: None,
            place,
            own_place: None,
            promised: OnceLock::new(),
            credentials: self.credentials.clone(),
        };
        self.context(asked, head.method.clone(), fields, true)
    }

    fn context(
        &self,
        asked: MirroredAsk,
        method: Method,
        fields: FieldLines,
        passes: bool,
    ) -> Option<RequestContext> {
        debug_assert!(!fields.has(&header::AUTHORIZATION) && !fields.has(&header::COOKIE), "no client's");
        let target = Target::parse(&asked.url_of(&asked.place)).ok()?;
        let path = match asked.place_at_origin() {
            Place::Below(path) if leaves_upstream(path) => return None,
            Place::Below(path) => Some(path.parse().ok()?),
            Place::Elsewhere(_) => None,
        };
        let head =
            RequestParts { method, uri: target.url.parse().ok()?, version: http::Version::HTTP_11, fields };
        let admitted = AdmittedRequest {
            head,
            target,
            ruling: self.ruling.at_place(Arc::clone(&self.asked_url), path, passes),
            client: Arc::clone(&self.client),
            way: None,
            site: self.site.clone(),
            user: self.user.clone(),
            live: Arc::clone(&self.live),
        };
        Some(RequestContext::new(admitted, (None, self.requested, self.sequence)).at_mirror(asked))
    }
}

/// Fields of a client that pass to a registry.
const PASSING: [&[u8]; 8] = [
    b"accept",
    b"accept-encoding",
    b"accept-language",
    b"content-encoding",
    b"content-length",
    b"content-type",
    b"te",
    b"user-agent",
];

/// Returns `true` if a path below the upstream could lead out of the upstream's own path.
fn leaves_upstream(path: &str) -> bool {
    let plain = path.split('?').next().unwrap_or_default();
    plain.split('/').any(|segment| matches!(segment, "." | "..")) || may_leave_prefix(plain)
}
