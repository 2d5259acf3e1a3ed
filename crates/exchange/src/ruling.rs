//! Operators' rules in the life of a request: their effects on it and on its response.
//!
//! ```text
//!   request ─► apply_to_request: answer, or the request as key and origin see it
//!   response ─► apply_to_response: fields as they are judged, stored and sent
//! ```

use super::answers;
use super::error_pages;
use super::fetch::Fetch;
use super::handling_report::HandlingReport;
use super::location;
use super::lookup::StoredResponse;
use super::request::RequestContext;
use super::settings::ExchangeSettings;
use super::target::{Target, TargetError};
use crate::ip_text::push_address;
use crate::message::{CacheResult, Client, Reply, ReplyHead};
use crate::metrics::Metrics;
use crate::mirror;
use crate::mirror::MirroredAsk;
use crate::route::Route;
use crate::upstream::UpstreamResponse;
use http::uri::{InvalidUri, PathAndQuery};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use shoal_core::{FieldLines, Fields, ObjectKey};
use shoal_rules::{
    MatchedRules, PathMapping, RequestEffects, RequestView, RuleSet, Values, may_leave_prefix,
};
use shoal_semantics::CacheRules;
use shoal_semantics::directives::{CacheControl, RequestDirectives, Scope};
use shoal_semantics::status_fields::Reason;
use shoal_semantics::targeted::effective_directives;
use shoal_settings::{Mode, Satisfy};
use shoal_wire::RequestParts;
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

/// Outcome of the rules for a request. It takes one word where no rule asks for anything, since
/// requests are moved often.
#[derive(Debug, Default)]
pub struct RuleOutcome(Option<Box<RuleOutcomeParts>>);

impl RuleOutcome {
    /// Takes the user that the rules asked for.
    pub fn take_user(&mut self) -> Option<String> {
        self.0.as_mut()?.user.take()
    }
}

impl RuleOutcome {
    /// Returns the outcome for the place at the origin that a mirror has chosen for a request. The
    /// rules that match still have a say about the response.
    pub fn at_place(&self, asked: Arc<str>, upstream_path: Option<PathAndQuery>, passes: bool) -> Self {
        let (matching, asked_url) = (self.matching.clone(), Some(asked));
        RuleOutcomeParts { matching, asked_url, upstream_path, passes, ..RuleOutcomeParts::default() }.into()
    }
}

impl From<RuleOutcomeParts> for RuleOutcome {
    fn from(outcome: RuleOutcomeParts) -> Self {
        Self(Some(Box::new(outcome)))
    }
}

impl std::ops::Deref for RuleOutcome {
    type Target = RuleOutcomeParts;

    fn deref(&self) -> &RuleOutcomeParts {
        static NO_RULES: LazyLock<RuleOutcomeParts> = LazyLock::new(RuleOutcomeParts::default);
        self.0.as_deref().unwrap_or_else(|| &NO_RULES)
    }
}

/// The rules that a request matched, and their outcome.
#[derive(Debug, Default)]
pub struct RuleOutcomeParts {
    /// Rules that may still ask something of the response.
    matching: MatchedRules,
    /// Fields that select among responses by these rules.
    selecting: Vec<HeaderName>,
    /// `true` if reloads of clients do not count.
    ignores_reload: bool,
    /// `true` if the request is neither looked up nor stored.
    pub passes: bool,
    /// The path that the origin is asked for, where it is another.
    pub upstream_path: Option<PathAndQuery>,
    /// Change of the path by rules.
    pub mapping: Option<PathMapping>,
    /// Request fields that have a value of the rules and no other.
    set_fields: Vec<HeaderName>,
    /// URL as the client asked for it, where the target is another.
    pub asked_url: Option<Arc<str>>,
    /// The user that the rules asked for.
    pub user: Option<String>,
}

impl RuleOutcomeParts {
    /// Returns `true` if a rule has set the field of this name, in lower case.
    pub fn sets(&self, name: &[u8]) -> bool {
        self.set_fields.iter().any(|other| other.as_str().as_bytes() == name)
    }

    /// Returns `true` if a rule has set a field of the request.
    pub fn sets_fields(&self) -> bool {
        !self.set_fields.is_empty()
    }

    /// Returns `true` if the request goes to the origin as the client sent it, but for fields.
    /// Another node then comes to the same outcome.
    pub fn leaves_request(&self) -> bool {
        let is_plain = self.upstream_path.is_none() && self.mapping.is_none() && self.asked_url.is_none();
        is_plain && self.selecting.is_empty() && !self.passes && !self.ignores_reload
    }

    /// Returns the rules that matched.
    pub fn matching(&self) -> &MatchedRules {
        &self.matching
    }

    /// Directives of a request with these fields, as far as they count.
    pub fn directives(&self, fields: &FieldLines) -> RequestDirectives {
        let said = RequestDirectives::of(fields);
        if self.ignores_reload { said.without_reload() } else { said }
    }
}

impl ExchangeSettings {
    /// Applies rules and site to a request: changes `target` and the fields of `head`.
    ///
    /// # Errors
    /// The answer, where a rule refuses or redirects the request, or its path leads astray.
    pub(super) fn apply_to_request(
        &self,
        head: &mut RequestParts,
        target: &mut Target,
        client: &Client,
        site: Option<&Arc<Route>>,
    ) -> Result<RuleOutcome, Box<Reply>> {
        let outcome = self.apply_rules(head, target, client, site)?;
        let Some(site) = site else { return Ok(outcome) };
        // Credentials of this node take the place of the client's at every upstream of the site.
        if site.has_credentials && head.fields.has(&header::AUTHORIZATION) {
            head.fields = head.fields.with_only(&header::AUTHORIZATION, None);
        }
        if leads_astray(site, &outcome, target.path()) {
            let verdict = HandlingReport::local(Reason::Target);
            let page = (StatusCode::BAD_REQUEST, ASTRAY);
            return Err(Box::new(answers::early(self, head, client, page, verdict)));
        }
        Ok(outcome)
    }

    /// Applies the rules alone.
    fn apply_rules(
        &self,
        head: &mut RequestParts,
        target: &mut Target,
        client: &Client,
        site: Option<&Arc<Route>>,
    ) -> Result<RuleOutcome, Box<Reply>> {
        if self.rule_set.is_empty() {
            self.keep_credentials(None, head, client);
            return Ok(RuleOutcome::default());
        }
        let matching = self.matching_rules(head, target, site);
        let Some(effects) = self.rule_set.request_effects(&matching) else {
            self.keep_credentials(None, head, client);
            let is_empty = matching == MatchedRules::default();
            let outcome = RuleOutcomeParts { matching, ..RuleOutcomeParts::default() };
            return Ok(if is_empty { RuleOutcome::default() } else { outcome.into() });
        };
        let address = client_text(client);
        if let Some(reply) = self.answer_by_rule(&effects, head, target, client, &address) {
            return Err(Box::new(reply));
        }
        let user = self
            .guard(&effects, &head.fields, client)
            .map_err(|refusal| Box::new(self.refused_by_rule(&effects, &refusal, head, client)))?;
        self.keep_credentials(Some(&effects), head, client);
        let asked = Arc::clone(&target.url);
        let unfit = |_| {
            let verdict = HandlingReport::local(Reason::Target);
            Box::new(answers::early(self, head, client, (StatusCode::BAD_REQUEST, UNFIT), verdict))
        };
        let is_changed = rewrite(&effects, target).map_err(unfit)?;
        let upstream_path = effects.upstream_path(target.path()).map(|path| path.parse()).transpose();
        let upstream_path = upstream_path.map_err(|_: InvalidUri| unfit(TargetError::Host))?;
        // The key has the changed URL: fields must tell the origin no more than the key has.
        let variables = variables(&target.url, &address, client);
        if let Some(edited) = effects.edited_fields(&head.fields, &variables) {
            head.fields = edited;
        }
        let mapping = effects.path_mapping(target.path());
        Ok(RuleOutcome::from(RuleOutcomeParts {
            selecting: effects.selecting().cloned().collect(),
            ignores_reload: effects.ignore_client_no_cache == Some(true),
            passes: effects.pass == Some(true),
            set_fields: effects.fields.set_names().cloned().collect(),
            upstream_path,
            mapping,
            asked_url: is_changed.then_some(asked),
            user,
            matching,
        }))
    }

    /// Returns the rules that match a request.
    pub(super) fn matching_rules(
        &self,
        head: &RequestParts,
        target: &Target,
        site: Option<&Arc<Route>>,
    ) -> MatchedRules {
        self.rule_set.matching(&RequestView {
            site: site.map(|site| site.site),
            host: target.host(),
            path_and_query: target.path(),
            method: &head.method,
            fields: &head.fields,
        })
    }

    /// Returns `true` if a rule answers in place of the cache and its origin.
    pub(super) fn has_answer(
        &self,
        effects: &RequestEffects,
        head: &RequestParts,
        target: &Target,
        client: &Client,
    ) -> bool {
        self.answer_by_rule(effects, head, target, client, &client_text(client)).is_some()
    }

    /// The answer that a rule gives in place of the cache and its origin.
    fn answer_by_rule(
        &self,
        effects: &RequestEffects,
        head: &RequestParts,
        target: &Target,
        client: &Client,
        address: &str,
    ) -> Option<Reply> {
        if let Some(reply) = self.refusal_by_rule(effects, head, client) {
            return Some(reply);
        }
        let (to, status) = effects.redirect.as_ref()?;
        let to = to.fill_target(&variables(&target.url, address, client));
        // A rule that redirects http to https also matches the request that follows.
        if to.trim_end_matches('?') == &*target.url {
            return None;
        }
        let location = HeaderValue::from_str(&to).ok()?;
        let verdict = HandlingReport::local(Reason::Rule);
        let mut reply = answers::early(self, head, client, (*status, REDIRECTED), verdict);
        if let ReplyHead::Built(_, fields) = &mut reply.head {
            fields.insert(header::LOCATION, location);
        }
        Some(reply)
    }

    /// The answer to a client or request that a rule refuses.
    pub(super) fn refusal_by_rule(
        &self,
        effects: &RequestEffects,
        head: &RequestParts,
        client: &Client,
    ) -> Option<Reply> {
        let ip = client.address.ip().to_canonical();
        // With `satisfy = "any"`, users and certificates are looked at too.
        let is_one_of_several = effects.access.satisfy == Some(Satisfy::Any) && effects.access.asks();
        let networks = effects.allow_clients.as_ref().filter(|_| !is_one_of_several);
        let is_stranger = networks.is_some_and(|nets| !nets.iter().any(|net| net.contains(&ip)));
        let status = is_stranger.then_some(StatusCode::FORBIDDEN).or(effects.deny)?;
        let verdict = HandlingReport::local(Reason::Rule).outcome(CacheResult::Denied);
        Some(answers::early(self, head, client, (status, DENIED), verdict))
    }

    /// The answer to a CONNECT that a rule refuses. A tunnel may carry every path of its host, so
    /// rules match it by host, method and fields, and by paths that `/` matches.
    pub(super) fn refused_tunnel(&self, head: &RequestParts, client: &Client) -> Option<Reply> {
        let effects = self.rule_set.request_effects(&self.matching_tunnel(head)?)?;
        if let Some(reply) = self.refusal_by_rule(&effects, head, client) {
            return Some(reply);
        }
        let refusal = self.guard(&effects, &head.fields, client).err()?;
        Some(self.refused_by_rule(&effects, &refusal, head, client))
    }

    /// The rules that a CONNECT matches.
    pub(super) fn matching_tunnel(&self, head: &RequestParts) -> Option<MatchedRules> {
        let host = head.uri.host()?.to_ascii_lowercase();
        Some(self.rule_set.matching(&RequestView {
            site: None,
            host: host.trim_end_matches('.'),
            path_and_query: "/",
            method: &head.method,
            fields: &head.fields,
        }))
    }

    /// Applies site and rules to a response as it arrives. A 304 speaks for the stored response, so
    /// the rules look at that one.
    pub(super) fn apply_to_response(
        &self,
        ask: &RequestContext,
        stored: Option<&StoredResponse>,
        response: &mut UpstreamResponse,
        metrics: &Arc<Metrics>,
    ) {
        if let Some(asked) = &ask.mirror {
            mirror::shape(asked, ask.method != Method::HEAD, response, metrics);
        }
        location::rewrite(ask, response);
        if self.rule_set.is_empty() {
            return;
        }
        if let Some(edited) = self.edited_response(ask, stored, (response.status, &response.fields)) {
            response.fields = edited;
        }
        error_pages::replace(ask, response);
    }

    /// Returns the fields of a response as the rules make them; `None` when they do not change.
    pub(super) fn edited_response(
        &self,
        ask: &RequestContext,
        stored: Option<&StoredResponse>,
        (status, fields): (StatusCode, &FieldLines),
    ) -> Option<FieldLines> {
        let outcome = &ask.ruling;
        if self.rule_set.is_empty() {
            return None;
        }
        let is_not_modified = status == StatusCode::NOT_MODIFIED;
        let effects = match stored.filter(|_| is_not_modified) {
            Some(stored) => {
                let (status, fields) = (stored.head.stored.status(), stored.head.stored.fields());
                self.rule_set.response_effects(&outcome.matching, status, &fields)
            }
            None => self.rule_set.response_effects(&outcome.matching, status, fields),
        };
        // A 304 without Vary leaves that of the stored response as it is.
        let keeps_vary = is_not_modified && !fields.has(&header::VARY);
        let selecting = if keeps_vary { &[][..] } else { &outcome.selecting };
        if effects.is_none() && selecting.is_empty() {
            return None;
        }
        let address = client_text(&ask.client);
        let variables = variables(&ask.target.url, &address, &ask.client);
        let effects = effects.unwrap_or_default();
        let edited = effects.edited_fields(fields, selecting, &variables)?;
        if effects.fields.is_empty() {
            return Some(edited);
        }
        let rules = CacheRules { overrides: effects.overrides, ..self.rules(ask).clone() };
        Some(with_origins_privacy(fields, edited, &rules))
    }

    /// Returns the judgement's settings for a response with this status and these fields.
    pub(super) fn rules_for(
        &self,
        ask: &RequestContext,
        status: StatusCode,
        fields: &impl Fields,
    ) -> Cow<'_, CacheRules> {
        let general = self.rules(ask);
        let rules = match self.rule_set.response_effects(&ask.ruling.matching, status, fields) {
            Some(effects) => Cow::Owned(CacheRules { overrides: effects.overrides, ..general.clone() }),
            None => Cow::Borrowed(general),
        };
        MirroredAsk::with_pin(ask.mirror.as_deref(), rules)
    }

    /// The primary keys under which responses of both modes to a URL may stand, by these rules and
    /// without rules.
    pub(super) fn keys_of(&self, target: &Target) -> Vec<ObjectKey> {
        let mut keys = target.keys().to_vec();
        keys.extend(self.mirrors.realms().map(|realm| target.mirror_key(realm)));
        let site = self.routes.find(target.host().as_bytes(), target.path());
        for (mode, site) in [(Mode::Reverse, site.map(|site| site.site)), (Mode::Forward, None)] {
            let mut ruled = target.clone();
            let effects = self.rule_set.url_effects(site, target.host(), target.path());
            if effects.is_some_and(|effects| rewrite(&effects, &mut ruled) == Ok(true)) {
                keys.push(ruled.key(mode));
            }
        }
        keys
    }

    /// Returns `true` if rules may change the answer to a plain request for which the fast path has
    /// found a response; `is_variant` says that fields selected it.
    pub(super) fn may_change(&self, mode: Mode, host: &[u8], path: &str, is_variant: bool) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return true };
        let site = match mode {
            Mode::Forward => None,
            Mode::Reverse => self.routes.find(host.as_bytes(), path).map(|site| site.site),
        };
        self.rule_set.may_change(site, host, path, is_variant)
    }
}

impl ExchangeSettings {
    /// Returns the outcome of rules for a request of another node, which has applied them to the
    /// request. The rules that match still have a say about the response.
    pub(super) fn outcome_for_peer(
        &self,
        head: &RequestParts,
        target: &Target,
        site: Option<&Arc<Route>>,
    ) -> RuleOutcome {
        if self.rule_set.is_empty() {
            return RuleOutcome::default();
        }
        let matching = self.matching_rules(head, target, site);
        RuleOutcomeParts { matching, ..RuleOutcomeParts::default() }.into()
    }
}

/// Returns the response to a fetch as the rules make it.
pub(super) fn ruled(
    fetch: &Fetch,
    mut response: UpstreamResponse,
    metrics: &Arc<Metrics>,
) -> UpstreamResponse {
    let stored = fetch.stored.as_ref().map(|(_, stored)| stored);
    fetch.ask.live.apply_to_response(&fetch.ask, stored, &mut response, metrics);
    response
}

/// Returns the edited fields of a response that the origin meant for one client such that it is
/// stored by nobody here. Leave for that is `share_private`, and no edit of a field. The targeted
/// field goes before all others (RFC 9213), and leaves Cache-Control to the operator.
fn with_origins_privacy(fields: &FieldLines, edited: FieldLines, rules: &CacheRules) -> FieldLines {
    let is_for_one = |fields: &FieldLines| {
        let CacheControl { no_store, private, .. } = effective_directives(fields, rules).directives;
        no_store || private != Scope::default()
    };
    let has_leave = rules.overrides.share_private == Some(true);
    if has_leave || !is_for_one(fields) || is_for_one(&edited) {
        return edited;
    }
    let name = rules.targeted.first().map_or(&header::CACHE_CONTROL, |name| name);
    let name = name.as_str().as_bytes();
    let others = edited.lines().filter(|(other, _)| *other != name);
    let private: FieldLines = others.chain([(name, &b"private"[..])]).collect();
    debug_assert!(is_for_one(&private), "the field governs");
    private
}

/// Compiles the rules of these settings.
///
/// # Errors
/// Every mistake, as text.
pub(super) fn compile(settings: &shoal_settings::Settings) -> Result<RuleSet, String> {
    let read = || {
        let mut rules = RuleSet::new(settings)?;
        rules.read_pages(&error_pages::read).map(|()| rules)
    };
    read().map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// Returns `true` if the path could lead out of a prefix that is put before it.
fn leads_astray(site: &Route, outcome: &RuleOutcomeParts, path: &str) -> bool {
    let is_below = site.group.members().iter().any(|member| !member.changes.prefix.is_empty());
    match &outcome.mapping {
        Some(mapping) => (is_below || mapping.puts_prefix()) && may_leave_prefix(&mapping.rest(path)),
        None => is_below && may_leave_prefix(path),
    }
}

/// Changes the URL. Returns `false` if it stays.
///
/// # Errors
/// If the changed URL cannot be read, or is too long. The rules must not be skipped then.
fn rewrite(effects: &RequestEffects, target: &mut Target) -> Result<bool, TargetError> {
    let Some(url) = effects.edited_url(target.origin(), target.path()) else { return Ok(false) };
    let ruled = Target::parse(&url)?;
    let is_changed = ruled != *target;
    *target = ruled;
    Ok(is_changed)
}

/// Returns the values of the variables for a request.
fn variables<'a>(url: &'a str, address: &'a str, client: &'a Client) -> Values<'a> {
    let certificate = client.certificate.as_ref().map_or("", |certificate| &certificate.subject);
    shoal_rules::values(url, address).with_certificate(certificate)
}

/// The client's address as fields and templates have it.
fn client_text(client: &Client) -> String {
    let mut text = Vec::new();
    push_address(&mut text, client.address.ip().to_canonical());
    String::from_utf8_lossy(&text).into_owned()
}

const ASTRAY: &str = "The path leads out of the part of the server that is served here.";
const UNFIT: &str = "The rules of this server make no URL of the request.";
const DENIED: &str = "A rule of this server refuses the request.";
const REDIRECTED: &str = "A rule of this server sends the request elsewhere.";
