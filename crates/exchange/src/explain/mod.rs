//! `shoal explain`: a request that might come, taken through the decisions of the exchange without
//! an effect.
//!
//! ```text
//!   asked ─► admission ─► rules ─► stored, its use ─► destination ─► storing of the answer
//! ```
//!
//! Each decision is made by the function that the steps of a request call. Nothing is fetched,
//! counted, promoted or dropped.

mod access;
mod asked;
mod explanation;
mod mirror_view;
mod mirrored;
mod stored;
mod storing;
mod variants;

pub use explanation::{
    ErrorPageView, ExplainRequest, Explanation, GuardView, ListenerView, RateView, Refusal, ReuseView,
    RuleSettingView, RuleView, RulesView, SiteView, StoredView, StoringView, SupposedResponse, TargetView,
    UpstreamView, VariantView,
};
pub use mirror_view::{MirrorView, PromiseView};

use super::CacheEngine;
use super::admission::AdmissionView;
use super::admit;
use super::answers;
use super::mirrored::ExplainedMirror;
use super::purge_table::Sequence;
use super::request::{AdmittedRequest, RequestContext};
use super::settings::ExchangeSettings;
use super::target::Target;
use crate::access::AccessRefusal;
use crate::clock;
use crate::message::{Client, Reply, ReplyHead};
use crate::route::Route;
use asked::ListenerRequest;
use http::{Method, StatusCode, header};
use shoal_core::{FieldLines, Fields};
use shoal_rules::{COMBINATION, MatchedRules, RuleReport, SettingPart};
use shoal_semantics::status_fields::{ForwardReason, Reason};
use shoal_settings::Settings;
use shoal_wire::RequestParts;
use std::net::IpAddr;
use std::sync::Arc;

/// Settings, and the node if one runs, about which a request is explained.
pub struct ExplainSource<'a> {
    /// Settings in force.
    pub settings: &'a Settings,
    /// The same settings, prepared.
    pub live: Arc<ExchangeSettings>,
    /// The node; `None` for settings alone.
    pub engine: Option<&'a Arc<CacheEngine>>,
}

/// Explains a request.
///
/// # Errors
/// If the request cannot be read, in a line.
pub async fn explain(source: &ExplainSource<'_>, request: &ExplainRequest) -> Result<Explanation, String> {
    let ListenerRequest { head, client, target, listener, mut notes, response } =
        asked::read(source, request)?;
    let live = &source.live;
    let told = live.told(&client, |heard| {
        head.fields.lines().for_each(|(name, value)| heard.note(name, value));
    });
    let (client, way) = match told {
        Some(told) => (Arc::new(told.client), Some(told.way)),
        None => (Arc::new(client), None),
    };
    let mut explanation = Explanation {
        method: head.method.to_string(),
        url: target.as_ref().map_or_else(|_| request.url.clone(), |target| target.url.to_string()),
        client: client.address.ip().to_canonical().to_string(),
        listener,
        ..Explanation::default()
    };
    let authorization = head.fields.shared_value(&header::PROXY_AUTHORIZATION);
    let site = match live.admit(&client, authorization.as_ref(), AdmissionView::of(&head, &target)) {
        Ok(grant) => grant.site.map(Arc::clone),
        Err(refusal) => {
            access::add(source, &MatchedRules::default(), &client, &mut explanation);
            return Ok(refused(explanation, notes, &refusal));
        }
    };
    if head.method == Method::CONNECT {
        return Ok(explain_tunnel(source, (&head, &client), explanation, notes).await);
    }
    if let Some(reply) = answers::loop_detected(live, &head, &client) {
        explanation.refusal = Some(local_refusal(&reply, Reason::Loop));
        return Ok(Explanation { notes, ..explanation });
    }
    let Ok(mut target) = target else {
        let (status, reason) = (StatusCode::BAD_REQUEST.as_u16(), Reason::Target.meaning().to_owned());
        let detail = Some(Reason::Target.as_str().to_owned());
        explanation.refusal = Some(Refusal { status, reason, detail, ..Refusal::default() });
        return Ok(Explanation { notes, ..explanation });
    };
    if site.is_none() && live.interception.is_some() && live.mirror_of_origin(&target).is_some() {
        notes.push(OF_MIRROR.into());
    }
    explanation.site = site.as_deref().map(|site| site_view(source.settings, site));
    let mut head = head;
    let matching = live.matching_rules(&head, &target, site.as_ref());
    let plain = (StatusCode::OK, FieldLines::default());
    explanation.rules = rules_view(source, &matching, response.as_ref().unwrap_or(&plain));
    access::add(source, &matching, &client, &mut explanation);
    if let Some(refusal) = refused_by_limits(live, &matching, (&head, &target, &client), &explanation) {
        explanation.refusal = Some(refusal);
        return Ok(with_notes(explanation, notes));
    }
    let ruling = match live.apply_to_request(&mut head, &mut target, &client, site.as_ref()) {
        Ok(ruling) => ruling,
        Err(reply) => {
            explanation.refusal = Some(rule_answer(&reply, &explanation.rules));
            return Ok(with_notes(explanation, notes));
        }
    };
    let sequence = source.engine.map_or(Sequence::new(u64::MAX), |engine| engine.purge_table().sequence());
    let is_mirrored = site.as_ref().is_some_and(|site| live.mirrors.of_site(site.site).is_some());
    let admitted =
        AdmittedRequest { head, target, ruling, client, way, site, user: None, live: Arc::clone(live) };
    if is_mirrored {
        let asked = ExplainedMirror::of(admitted, (clock::now(), sequence));
        return mirrored::explain(source, asked, with_notes(explanation, notes)).await;
    }
    let ask = RequestContext::new(admitted, (None, clock::now(), sequence));
    explain_use(source, &ask, with_notes(explanation, notes), response).await
}

/// Explains a CONNECT.
async fn explain_tunnel(
    source: &ExplainSource<'_>,
    (head, client): (&RequestParts, &Client),
    mut explanation: Explanation,
    mut notes: Vec<String>,
) -> Explanation {
    let authority = head.uri.authority().map(|authority| (authority.host(), authority.port_u16()));
    let (host, port) = authority.unwrap_or_default();
    if let Some(refusal) = by_rules_of_tunnels(source, head, client, &mut explanation) {
        explanation.refusal = Some(refusal);
        return with_notes(explanation, notes);
    }
    let interception = source.live.interception.as_ref();
    if interception.is_some_and(|it| it.covers(&host.to_ascii_lowercase(), port.unwrap_or(443))) {
        notes.push(INTERCEPTED.into());
        return with_notes(explanation, notes);
    }
    let refusal = destination(source, host, port.unwrap_or(443), &mut notes).await;
    notes.push("A tunnel: the cache does not see into it. A site caches what clients reach by https.".into());
    match refusal {
        Some(refusal) => refused(explanation, notes, &refusal),
        None => {
            explanation.reuse = Some(forwarded(None, Some(Reason::Tunnel)));
            with_notes(explanation, notes)
        }
    }
}

/// Note of a URL that a mirror answers inside an intercepted CONNECT.
const OF_MIRROR: &str =
    "Inside an intercepted CONNECT, the mirror of this registry answers, under its own key.";

/// Note of a CONNECT that this node answers itself.
const INTERCEPTED: &str =
    "This node answers the CONNECT itself (intercept.hosts). Ask about the https URLs inside.";

/// Adds notes in front of those that an explanation has.
fn with_notes(explanation: Explanation, mut notes: Vec<String>) -> Explanation {
    notes.extend(explanation.notes);
    Explanation { notes, ..explanation }
}

/// Returns the refusal of a request beyond a rate, or from a client that the rules do not serve. A
/// rule's own answer comes before the latter.
fn refused_by_limits(
    live: &ExchangeSettings,
    matching: &MatchedRules,
    (head, target, client): (&RequestParts, &Target, &Client),
    explanation: &Explanation,
) -> Option<Refusal> {
    if let Some(refusal) = access::beyond_rate(&explanation.rates) {
        return Some(refusal);
    }
    let effects = live.rule_set.request_effects(matching)?;
    if live.has_answer(&effects, head, target, client) {
        return None;
    }
    let refusal = live.guard(&effects, &head.fields, client).err()?;
    Some(access::refused(&refusal, &explanation.rules))
}

/// Returns the refusal of a tunnel by rules.
fn by_rules_of_tunnels(
    source: &ExplainSource<'_>,
    head: &RequestParts,
    client: &Client,
    explanation: &mut Explanation,
) -> Option<Refusal> {
    let live = &source.live;
    let matching = live.matching_tunnel(head)?;
    explanation.rules = rules_view(source, &matching, &(StatusCode::OK, FieldLines::default()));
    access::add(source, &matching, client, explanation);
    if let Some(refusal) = access::beyond_rate(&explanation.rates) {
        return Some(refusal);
    }
    let effects = live.rule_set.request_effects(&matching)?;
    if let Some(reply) = live.refusal_by_rule(&effects, head, client) {
        return Some(rule_answer(&reply, &explanation.rules));
    }
    let refusal = live.guard(&effects, &head.fields, client).err()?;
    Some(access::refused(&refusal, &explanation.rules))
}

/// Explains the use of the cache for an admitted request.
async fn explain_use(
    source: &ExplainSource<'_>,
    ask: &RequestContext,
    mut explanation: Explanation,
    response: Option<(StatusCode, FieldLines)>,
) -> Result<Explanation, String> {
    debug_assert!(explanation.refusal.is_none(), "a refused request has no use for the cache");
    debug_assert_eq!(explanation.site.is_some(), ask.site.is_some());
    explanation.target = Some(TargetView {
        url: ask.target.url.to_string(),
        upstream_path: ask.path.to_string(),
        key: ask.primary.full().iter().map(|byte| readable(*byte)).collect(),
    });
    if let Some((reply, reason)) = answers::at_end_of_way(ask).zip(answers::end_of_way(ask)) {
        explanation.refusal = Some(local_refusal(&reply, reason));
        return Ok(explanation);
    }
    let has_pinned = || source.engine.is_some_and(|engine| engine.upstreams.has_pinned(&ask.client));
    let may_look_up = admit::may_look_up(ask, has_pinned);
    let mut found = None;
    if !may_look_up {
        explanation.reuse = Some(without_cache(ask, &explanation.rules));
    } else if let Some(engine) = source.engine {
        let looked = stored::look(engine, ask).await;
        explanation.stored = Some(looked.view);
        explanation.reuse = Some(looked.reuse);
        explanation.notes.extend(looked.notes);
        found = looked.found;
        if let (Some(head), None) = (&found, &response) {
            let judged = (head.stored.status(), head.stored.fields().lines().collect());
            explanation.rules = rules_view(source, ask.ruling.matching(), &judged);
        }
    } else {
        explanation.notes.push("Settings alone: nobody looked into a cache.".into());
    }
    let is_answered =
        explanation.reuse.as_ref().is_some_and(|reuse| reuse.hit != Some(false) || is_local(reuse));
    if ask.site.is_none() && !is_answered {
        let (host, port) = (ask.target.host(), ask.target.port);
        let refusal = destination(source, host, port, &mut explanation.notes).await;
        if let Some(refusal) = refusal {
            let notes = std::mem::take(&mut explanation.notes);
            let stored = explanation.stored.take();
            return Ok(Explanation { stored, reuse: None, ..refused(explanation, notes, &refusal) });
        }
    }
    let asks_origin = !explanation.reuse.as_ref().is_some_and(is_local);
    explanation.storing = match may_look_up && asks_origin && !ask.has_origin_conditions() {
        true => Some(storing::view(source, ask, (response, found.as_deref()), &explanation.rules)),
        false => None,
    };
    Ok(explanation)
}

/// Returns `true` if the node answers by itself.
fn is_local(reuse: &ReuseView) -> bool {
    reuse.hit == Some(false) && reuse.fwd.is_none()
}

/// Returns the refusal of the destination's addresses, as far as they are known.
async fn destination(
    source: &ExplainSource<'_>,
    host: &str,
    port: u16,
    notes: &mut Vec<String>,
) -> Option<AccessRefusal> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return source.live.forward.address(bare, (address, port).into()).err();
    }
    let Some(engine) = source.engine else {
        notes.push(
            "The addresses of the host are judged when it is asked; settings alone resolve no name.".into(),
        );
        return None;
    };
    match engine.upstreams.judge_addresses((bare, port), &source.live.forward).await {
        Ok(refusal) => refusal,
        Err(why) => {
            notes.push(format!("The name {bare} has no address: {why}"));
            None
        }
    }
}

/// Returns the explanation of a refused request. The operator is told the address, which the client
/// is not.
fn refused(explanation: Explanation, mut notes: Vec<String>, refusal: &AccessRefusal) -> Explanation {
    notes.push(format!("The error log says: {refusal}."));
    let explanation = with_notes(explanation, notes);
    let detail = Some(answers::detail_of(refusal).as_str().to_owned());
    let refusal = Refusal {
        status: refusal.status().as_u16(),
        setting: refusal.setting().map(str::to_owned),
        reason: answers::denial(refusal).to_owned(),
        detail,
        location: None,
    };
    Explanation { refusal: Some(refusal), ..explanation }
}

/// Returns the answer of this node itself as a refusal.
fn local_refusal(reply: &Reply, reason: Reason) -> Refusal {
    Refusal {
        status: reply.record.status,
        reason: reason.meaning().to_owned(),
        detail: Some(reason.as_str().to_owned()),
        ..Refusal::default()
    }
}

/// Returns the answer that a rule gives, with the setting.
fn rule_answer(reply: &Reply, rules: &RulesView) -> Refusal {
    let location = match &reply.head {
        ReplyHead::Built(_, fields) => fields.get(header::LOCATION),
        _ => None,
    };
    let location = location.and_then(|location| location.to_str().ok()).map(str::to_owned);
    let status = reply.record.status;
    let winner = |name: &str| {
        let wins = |it: &&RuleSettingView| it.part == "wins" && it.name == name;
        let of_rule = |rule: &RuleView| {
            rule.settings.iter().find(wins).map(|it| (format!("{}.{name}", rule.key), it.value.clone()))
        };
        rules.matching.iter().find_map(of_rule)
    };
    let denies = winner("deny").filter(|(_, value)| *value == status.to_string());
    let (setting, reason, detail) = match (&location, denies) {
        (Some(_), _) => (winner("redirect"), "A rule sends the request elsewhere.", Reason::Rule),
        _ if says(reply, Reason::User) => (winner("users_file"), Reason::User.meaning(), Reason::User),
        _ if says(reply, Reason::Certificate) => {
            (winner("allow_certificates"), Reason::Certificate.meaning(), Reason::Certificate)
        }
        (None, Some(deny)) => (Some(deny), "A rule refuses the request.", Reason::Rule),
        (None, None) => {
            (winner("allow_clients"), "A rule does not serve the client's network.", Reason::Rule)
        }
    };
    let setting = setting.map(|(setting, _)| setting);
    Refusal { setting, location, reason: reason.to_owned(), ..local_refusal(reply, detail) }
}

/// Returns `true` if Cache-Status of the answer has this detail.
fn says(reply: &Reply, detail: Reason) -> bool {
    let ReplyHead::Built(_, fields) = &reply.head else { return false };
    let members = fields.get_all("cache-status").iter().filter_map(|value| value.to_str().ok());
    let wanted = format!("detail={}", detail.as_str());
    members.flat_map(|member| member.split(';')).any(|part| part.trim() == wanted)
}

/// Returns the view of a request that goes to the origin, or is answered by this node.
fn forwarded(why: Option<ForwardReason>, detail: Option<Reason>) -> ReuseView {
    let about = why.map(|it| (it.meaning(), it.remedy())).or(detail.map(|it| (it.meaning(), it.remedy())));
    let (reason, remedy) = about.unwrap_or_default();
    debug_assert!(!reason.is_empty(), "a decision without a reason");
    ReuseView {
        hit: Some(false),
        fwd: why.map(|why| why.as_str().to_owned()),
        detail: detail.map(|detail| detail.as_str().to_owned()),
        reason: reason.to_owned(),
        remedy: (why != Some(ForwardReason::UriMiss)).then(|| remedy.to_owned()),
    }
}

/// Returns the use for a request in which the cache has no part.
fn without_cache(ask: &RequestContext, rules: &RulesView) -> ReuseView {
    match (ask.is_lookup(), ask.ruling.passes) {
        (false, _) => forwarded(Some(ForwardReason::Method), None),
        (true, true) if ask.directives.only_if_cached => forwarded(None, Some(Reason::OnlyIfCached)),
        (true, false) => forwarded(Some(ForwardReason::Bypass), None),
        (true, true) => {
            let setting = storing::with_rule("pass", rules);
            ReuseView {
                reason: format!(
                    "{setting} takes the request past the cache: it is neither looked up nor stored."
                ),
                remedy: Some("The rule's `pass`.".to_owned()),
                ..forwarded(Some(ForwardReason::Bypass), Some(Reason::Rule))
            }
        }
    }
}

fn site_view(settings: &Settings, route: &Route) -> SiteView {
    let sites = settings.all_sites();
    let site = sites.get(route.site);
    let hosts = site.map(|site| site.hosts.clone()).unwrap_or_default();
    let upstreams = site.map(access::upstreams).unwrap_or_default();
    let key = match route.site.checked_sub(settings.site.len()) {
        Some(mirror) => format!("mirror[{mirror}]"),
        None => format!("site[{}]", route.site),
    };
    SiteView { key, line: None, hosts, path_prefix: route.path_prefix.clone(), upstreams }
}

fn rules_view(
    source: &ExplainSource<'_>,
    matching: &MatchedRules,
    (status, fields): &(StatusCode, FieldLines),
) -> RulesView {
    assert_eq!(
        source.live.rule_set.is_empty(),
        source.settings.rule.is_empty() && !has_site_rules(source.settings)
    );
    let reports = source.live.rule_set.report(source.settings, matching, (*status, fields));
    let left_out = reports.len().saturating_sub(RULES_MAX);
    let matching = reports.into_iter().take(RULES_MAX).map(rule_view).collect();
    RulesView { combination: COMBINATION.to_owned(), matching, left_out }
}

fn has_site_rules(settings: &Settings) -> bool {
    settings.site.iter().any(|site| !site.rule.is_empty())
}

fn rule_view(report: RuleReport) -> RuleView {
    let setting = |it: shoal_rules::SettingReport| {
        let (part, overruled_by) = match it.part {
            SettingPart::Wins => ("wins", None),
            SettingPart::Overruled(key) => ("overruled", Some(key)),
            SettingPart::OtherResponse => ("other_response", None),
            SettingPart::OtherStatus => ("other_status", None),
        };
        RuleSettingView { name: it.name.to_owned(), value: it.value, part: part.to_owned(), overruled_by }
    };
    let named = |(name, value): (&'static str, String)| (name.to_owned(), value);
    RuleView {
        key: report.key,
        name: report.name,
        line: None,
        conditions: report.conditions.into_iter().map(named).collect(),
        settings: report.settings.into_iter().map(setting).collect(),
    }
}

/// Returns a byte of a key for people: a mark parts the URL from the mode.
fn readable(byte: u8) -> char {
    if byte == 0 { ' ' } else { char::from(byte) }
}

/// Maximum rules listed.
const RULES_MAX: usize = 200;

const _: () = assert!(RULES_MAX > 0);
