//! The conditions of access, the rates and the pages for errors that a request meets.
//!
//! Files are named without their folder, and nothing that stands in them is shown.

use super::ExplainSource;
use crate::access::AccessRefusal;
use crate::answers;
use crate::explain::{
    ErrorPageView, Explanation, GuardView, RateView, Refusal, RuleSettingView, RulesView, UpstreamView,
};
use crate::message::Client;
use crate::rate_limit::{limiter_time, retry_after_seconds};
use http::StatusCode;
use shoal_core::FieldLines;
use shoal_rules::MatchedRules;
use shoal_settings::{Listen, Mode, Settings, Site};
use std::path::Path;
use std::time::Instant;

/// Adds the guards of listener and rules, the rates of the client, and the pages that it may get.
pub(super) fn add(
    source: &ExplainSource<'_>,
    matching: &MatchedRules,
    client: &Client,
    explanation: &mut Explanation,
) {
    explanation.guards = guards(source.settings, client, &explanation.rules);
    explanation.rates = rates(source, matching, client);
    explanation.error_pages = error_pages(source, matching);
    if explanation.guards.iter().any(|guard| guard.setting.ends_with("certificates")) {
        explanation.notes.push("The request is supposed to come without a client certificate.".into());
    }
}

/// Returns the refusal of a client beyond a rate.
pub(super) fn beyond_rate(rates: &[RateView]) -> Option<Refusal> {
    let rate =
        rates.iter().filter(|rate| rate.wait_seconds.is_some()).max_by_key(|rate| rate.wait_seconds)?;
    let refusal = AccessRefusal::Rate(rate.wait_seconds.unwrap_or_default());
    Some(Refusal { setting: Some(rate.setting.clone()), ..of(&refusal) })
}

/// Returns the refusal of a client that rules do not serve.
pub(super) fn refused(refusal: &AccessRefusal, rules: &RulesView) -> Refusal {
    let name = match refusal {
        AccessRefusal::Client(_) => "allow_clients",
        AccessRefusal::Certificate => "allow_certificates",
        _ => "users_file",
    };
    let setting = winner(rules, name).map(|(key, _)| format!("{key}.{name}"));
    Refusal { setting, ..of(refusal) }
}

fn of(refusal: &AccessRefusal) -> Refusal {
    debug_assert!(refusal.status().is_client_error(), "a refusal is the client's fault");
    Refusal {
        status: refusal.status().as_u16(),
        setting: refusal.setting().map(str::to_owned),
        reason: answers::denial(refusal).to_owned(),
        detail: Some(answers::detail_of(refusal).as_str().to_owned()),
        location: None,
    }
}

/// Returns the upstreams of a site.
pub(super) fn upstreams(site: &Site) -> Vec<UpstreamView> {
    let view = |upstream: &shoal_settings::UpstreamServer| UpstreamView {
        url: upstream.url.clone(),
        credentials: upstream.credentials.as_deref().map(file_name),
    };
    site.upstreams.iter().take(UPSTREAMS_MAX).map(view).collect()
}

/// Returns the rule with the setting of this name that counts, and the setting.
fn winner<'a>(rules: &'a RulesView, name: &str) -> Option<(&'a str, &'a RuleSettingView)> {
    let wins = |it: &&RuleSettingView| it.part == "wins" && it.name == name;
    rules.matching.iter().find_map(|rule| Some((rule.key.as_str(), rule.settings.iter().find(wins)?)))
}

fn guards(settings: &Settings, client: &Client, rules: &RulesView) -> Vec<GuardView> {
    let listen = settings.listen.get(client.listener);
    let mut guards = listen.map(|listen| of_listener(settings, client.listener, listen)).unwrap_or_default();
    for name in GUARDS {
        let Some((key, setting)) = winner(rules, name) else { continue };
        let value = match name {
            "users_file" => format!("{:?}", file_name(Path::new(setting.value.trim_matches('"')))),
            _ => setting.value.clone(),
        };
        guards.push(GuardView { setting: format!("{key}.{name}"), value });
    }
    guards
}

fn of_listener(settings: &Settings, at: usize, listen: &Listen) -> Vec<GuardView> {
    let mut guards = Vec::new();
    let mut add = |setting: String, value: String| guards.push(GuardView { setting, value });
    let nets =
        |nets: &[_]| nets.iter().map(|net: &ipnet::IpNet| net.to_string()).collect::<Vec<_>>().join(", ");
    match (&listen.allow_clients, listen.mode) {
        (Some(own), _) => add(format!("listen[{at}].allow_clients"), nets(own)),
        (None, Mode::Forward) => add("forward.allow_clients".into(), nets(&settings.forward.allow_clients)),
        (None, Mode::Reverse) => {}
    }
    let users = match (&listen.users_file, listen.mode) {
        (Some(own), _) => Some((format!("listen[{at}].users_file"), own)),
        (None, Mode::Forward) => {
            settings.forward.users_file.as_ref().map(|file| ("forward.users_file".to_owned(), file))
        }
        (None, Mode::Reverse) => None,
    };
    if let Some((setting, file)) = users {
        add(setting, format!("{:?}", file_name(file)));
    }
    if listen.client_ca.is_some() {
        add(format!("listen[{at}].client_certificate"), listen.client_certificate.to_string());
    }
    guards
}

fn rates(source: &ExplainSource<'_>, matching: &MatchedRules, client: &Client) -> Vec<RateView> {
    let rules = &source.live.rule_set;
    let now = limiter_time(Instant::now());
    let view = |number: usize| {
        let limiter = source.live.access.limiter(number)?;
        let rate = limiter.rate();
        let wait = limiter.check(client.address.ip(), now).err();
        Some(RateView {
            setting: format!("{}.client_rate", rules.key(number)?),
            per_second: rate.per_second,
            burst: rate.burst,
            wait_seconds: wait.map(retry_after_seconds),
        })
    };
    rules.limiting(matching).filter_map(view).take(RATES_MAX).collect()
}

fn error_pages(source: &ExplainSource<'_>, matching: &MatchedRules) -> Vec<ErrorPageView> {
    let rules = &source.live.rule_set;
    let mut views: Vec<ErrorPageView> = Vec::new();
    for (sender, statuses) in [("node", &OWN_ERRORS[..]), ("origin", &ORIGIN_ERRORS[..])] {
        for status in statuses {
            let error = (*status, sender == "origin");
            let Some((key, file)) = rules.error_page_file(matching, error, &FieldLines::default()) else {
                continue;
            };
            let setting = format!("{key}.error_page");
            match views.iter_mut().find(|view| view.setting == setting && view.sender == sender) {
                Some(view) => view.statuses.push(status.as_u16()),
                None => views.push(ErrorPageView {
                    setting,
                    file: file_name(file),
                    sender: sender.to_owned(),
                    statuses: vec![status.as_u16()],
                }),
            }
        }
    }
    debug_assert!(views.iter().all(|view| !view.statuses.is_empty()));
    views
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Settings of a rule that guard.
const GUARDS: [&str; 6] =
    ["allow_clients", "allow_certificates", "users_file", "realm", "satisfy", "forward_authorization"];

/// Common errors of this node and of origins.
const OWN_ERRORS: [StatusCode; 9] = [
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::PROXY_AUTHENTICATION_REQUIRED,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];
const ORIGIN_ERRORS: [StatusCode; 7] = [
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::GONE,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// Maximum rates and upstreams listed.
const RATES_MAX: usize = 200;
const UPSTREAMS_MAX: usize = 200;
