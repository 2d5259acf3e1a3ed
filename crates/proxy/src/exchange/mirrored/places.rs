//! Requests for places at a registry, with fields of this node alone.

use super::is_derived;
use crate::exchange::purge_table::Sequence;
use crate::exchange::request::{AdmittedRequest, RequestContext};
use crate::exchange::ruling::RuleOutcome;
use crate::exchange::settings::ExchangeSettings;
use crate::exchange::target::Target;
use crate::message::Client;
use crate::mirror::{MirrorRoute, MirroredAsk};
use crate::route::Route;
use http::{Method, header};
use shoal_core::{FieldLines, Fields, Timestamp};
use shoal_mirrors::{Class, Fetch, Form, Mirror, Place};
use shoal_rules::may_leave_prefix;
use shoal_wire::RequestParts;
use std::sync::{Arc, OnceLock};

/// Facts that all requests on behalf of one client's request share.
pub(in crate::exchange) struct MirrorBase {
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
        Self {
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
        let asked = MirroredAsk {
            mirror: Arc::clone(&self.mirror),
            facts: self.facts.clone(),
            class: Some(fetch.class.clone()),
            varies: fetch.accept.is_some(),
            is_derived,
            age_limit: self.age_limit,
            place: fetch.place.clone(),
            promised: OnceLock::new(),
        };
        let mut ask = self.context(asked, method, fields.into_iter().collect(), false)?;
        if self.mirror.settings.offline {
            (ask.directives.only_if_cached, ask.directives.max_stale) = (true, Some(u32::MAX));
        }
        Some(ask)
    }

    /// Returns the request that passes to a place, with the client's fields except its credentials.
    pub fn passing(&self, head: &RequestParts, place: Place) -> Option<RequestContext> {
        let dropped = [header::AUTHORIZATION, header::COOKIE, header::HOST];
        let is_dropped = |name: &[u8]| dropped.iter().any(|other| other.as_str().as_bytes() == name);
        let fields = head.fields.lines().filter(|(name, _)| !is_dropped(name)).collect();
        let asked = MirroredAsk {
            mirror: Arc::clone(&self.mirror),
            facts: self.facts.clone(),
            class: None,
            varies: false,
            is_derived: false,
            age_limit: None,
            place,
            promised: OnceLock::new(),
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
        let path = match &asked.place {
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

/// Returns `true` if a path below the upstream could lead out of the upstream's own path.
fn leaves_upstream(path: &str) -> bool {
    let plain = path.split('?').next().unwrap_or_default();
    plain.split('/').any(|segment| matches!(segment, "." | "..")) || may_leave_prefix(plain)
}
