//! Operators' rules in the life of a request: what they make of it, and of its response.
//!
//! ```text
//!   request ─► apply_to_request: answer, or the request as key and origin see it
//!   response ─► apply_to_response: fields as they are judged, stored and sent
//! ```

use super::answers;
use super::fetch::Fetch;
use super::handling_report::HandlingReport;
use super::lookup::StoredResponse;
use super::request::RequestContext;
use super::settings::ExchangeSettings;
use super::target::Target;
use crate::ip_text::push_address;
use crate::message::{CacheResult, Client, Reply, ReplyHead};
use crate::route::Route;
use crate::upstream::UpstreamResponse;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, StatusCode, header};
use shoal_core::{FieldLines, Fields, ObjectKey};
use shoal_rules::{MatchedRules, RequestEffects, RequestView, RuleSet};
use shoal_semantics::CacheRules;
use shoal_semantics::directives::RequestDirectives;
use shoal_settings::Mode;
use shoal_wire::RequestParts;
use std::borrow::Cow;
use std::sync::Arc;

/// The rules that a request met, and what they made of it.
#[derive(Debug, Default)]
pub struct RuleOutcome {
    /// Rules that may still ask something of the response.
    matching: MatchedRules,
    /// Fields that select among responses by these rules.
    selecting: Vec<HeaderName>,
    /// Whether reloads of clients do not count.
    ignores_reload: bool,
    /// The path that the origin is asked for, where it is another.
    pub upstream_path: Option<PathAndQuery>,
    /// Request fields that have a value of the rules and no other.
    set_fields: Vec<HeaderName>,
    /// URL as the client asked for it, where the target is another.
    pub asked_url: Option<Arc<str>>,
}

impl RuleOutcome {
    /// Returns `true` if a rule has set the field of this name, in lower case.
    pub fn sets(&self, name: &[u8]) -> bool {
        self.set_fields.iter().any(|other| other.as_str().as_bytes() == name)
    }

    /// Directives of a request with these fields, as far as they count.
    pub fn directives(&self, fields: &FieldLines) -> RequestDirectives {
        let said = RequestDirectives::of(fields);
        if self.ignores_reload { said.without_reload() } else { said }
    }
}

impl ExchangeSettings {
    /// Applies the rules to a request: changes `target` and the fields of `head`.
    ///
    /// # Errors
    /// The answer, where a rule refuses or redirects the request.
    pub(super) fn apply_to_request(
        &self,
        head: &mut RequestParts,
        target: &mut Target,
        client: &Client,
        site: Option<&Arc<Route>>,
    ) -> Result<RuleOutcome, Box<Reply>> {
        if self.rule_set.is_empty() {
            return Ok(RuleOutcome::default());
        }
        let matching = self.rule_set.matching(&RequestView {
            site: site.map(|site| site.site),
            host: target.host(),
            path_and_query: target.path(),
            method: &head.method,
            fields: &head.fields,
        });
        let Some(effects) = self.rule_set.request_effects(&matching) else {
            return Ok(RuleOutcome { matching, ..RuleOutcome::default() });
        };
        let address = client_text(client);
        if let Some(reply) = self.answer_by_rule(&effects, head, target, client, &address) {
            return Err(Box::new(reply));
        }
        let variables = shoal_rules::values(&target.url, &address);
        if let Some(edited) = effects.edited_fields(&head.fields, &variables) {
            head.fields = edited;
        }
        let asked = Arc::clone(&target.url);
        let is_changed = rewrite(&effects, target);
        let upstream_path = effects.upstream_path(target.path()).and_then(|path| path.parse().ok());
        Ok(RuleOutcome {
            selecting: effects.selecting().cloned().collect(),
            ignores_reload: effects.ignore_client_no_cache == Some(true),
            set_fields: effects.fields.set_names().cloned().collect(),
            upstream_path,
            asked_url: is_changed.then_some(asked),
            matching,
        })
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
        let ip = client.address.ip().to_canonical();
        let is_stranger =
            effects.allow_clients.as_ref().is_some_and(|nets| !nets.iter().any(|net| net.contains(&ip)));
        let verdict = HandlingReport::local("rule");
        if let Some(status) = is_stranger.then_some(StatusCode::FORBIDDEN).or(effects.deny) {
            let verdict = verdict.outcome(CacheResult::Denied);
            return Some(answers::early(self, head, client, (status, DENIED), verdict));
        }
        let (to, status) = effects.redirect.as_ref()?;
        let to = to.fill(&shoal_rules::values(&target.url, address));
        // A rule that sends to https what came by http also meets the request that follows.
        if to.trim_end_matches('?') == &*target.url {
            return None;
        }
        let location = HeaderValue::from_str(&to).ok()?;
        let mut reply = answers::early(self, head, client, (*status, REDIRECTED), verdict);
        if let ReplyHead::Built(_, fields) = &mut reply.head {
            fields.insert(header::LOCATION, location);
        }
        Some(reply)
    }

    /// Applies the rules to a response as it arrives. A 304 speaks for the response that is stored,
    /// so the rules look at that one.
    pub(super) fn apply_to_response(
        &self,
        ask: &RequestContext,
        stored: Option<&StoredResponse>,
        response: &mut UpstreamResponse,
    ) {
        let outcome = &ask.ruling;
        if self.rule_set.is_empty() {
            return;
        }
        let is_not_modified = response.status == StatusCode::NOT_MODIFIED;
        let effects = match stored.filter(|_| is_not_modified) {
            Some(stored) => {
                let (status, fields) = (stored.head.stored.status(), stored.head.stored.fields());
                self.rule_set.response_effects(&outcome.matching, status, &fields)
            }
            None => self.rule_set.response_effects(&outcome.matching, response.status, &response.fields),
        };
        // A 304 without Vary leaves that of the stored response as it is.
        let keeps_vary = is_not_modified && !response.fields.has(&header::VARY);
        let selecting = if keeps_vary { &[][..] } else { &outcome.selecting };
        if effects.is_none() && selecting.is_empty() {
            return;
        }
        let address = client_text(&ask.client);
        let variables = shoal_rules::values(&ask.target.url, &address);
        let edited = effects.unwrap_or_default().edited_fields(&response.fields, selecting, &variables);
        if let Some(edited) = edited {
            response.fields = edited;
        }
    }

    /// How a response with this status and these fields is judged.
    pub(super) fn rules_for(
        &self,
        ask: &RequestContext,
        status: StatusCode,
        fields: &impl Fields,
    ) -> Cow<'_, CacheRules> {
        let general = self.rules(ask);
        match self.rule_set.response_effects(&ask.ruling.matching, status, fields) {
            Some(effects) => Cow::Owned(CacheRules { overrides: effects.overrides, ..general.clone() }),
            None => Cow::Borrowed(general),
        }
    }

    /// The primary keys under which responses of both modes to a URL may stand, by these rules and
    /// without rules.
    pub(super) fn keys_of(&self, target: &Target) -> Vec<ObjectKey> {
        let mut keys = target.keys().to_vec();
        let site = self.routes.find(target.host().as_bytes(), target.path());
        for (mode, site) in [(Mode::Reverse, site.map(|site| site.site)), (Mode::Forward, None)] {
            let mut ruled = target.clone();
            let effects = self.rule_set.url_effects(site, target.host(), target.path());
            if effects.is_some_and(|effects| rewrite(&effects, &mut ruled)) {
                keys.push(ruled.key(mode));
            }
        }
        keys
    }

    /// Whether rules may change the answer to a plain request, for which the fast path has found a
    /// response; `is_variant` says that it was selected by fields.
    pub(super) fn may_change(&self, mode: Mode, host: &[u8], path: &str, is_variant: bool) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return true };
        let site = match mode {
            Mode::Forward => None,
            Mode::Reverse => self.routes.find(host.as_bytes(), path).map(|site| site.site),
        };
        self.rule_set.may_change(site, host, path, is_variant)
    }
}

/// Returns the response to a fetch as the rules make it.
pub(super) fn ruled(fetch: &Fetch, mut response: UpstreamResponse) -> UpstreamResponse {
    let stored = fetch.stored.as_ref().map(|(_, stored)| stored);
    fetch.ask.live.apply_to_response(&fetch.ask, stored, &mut response);
    response
}

/// Compiles the rules of these settings.
///
/// # Errors
/// Every mistake, as text.
pub(super) fn compile(settings: &shoal_settings::Settings) -> Result<RuleSet, String> {
    RuleSet::new(settings)
        .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// Changes the URL. Returns `false` if it stays.
fn rewrite(effects: &RequestEffects, target: &mut Target) -> bool {
    let Some(url) = effects.edited_url(target.origin(), target.path()) else { return false };
    match Target::parse(&url) {
        Ok(ruled) if ruled != *target => {
            *target = ruled;
            true
        }
        _ => false,
    }
}

/// The client's address as fields and templates have it.
fn client_text(client: &Client) -> String {
    let mut text = Vec::new();
    push_address(&mut text, client.address.ip().to_canonical());
    String::from_utf8_lossy(&text).into_owned()
}

const DENIED: &str = "A rule of this server refuses the request.";
const REDIRECTED: &str = "A rule of this server sends the request elsewhere.";
