//! `POST /explain`: a supposed request, and its handling by the node. Names of fields are stable.

use super::MirrorView;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A request to explain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    /// Absolute URL; for CONNECT, host and port.
    pub url: String,
    /// Method; GET without one.
    #[serde(default)]
    pub method: Option<String>,
    /// Request fields, as name and value.
    #[serde(default)]
    pub fields: Vec<(String, String)>,
    /// Address of the client; 127.0.0.1 without one.
    #[serde(default)]
    pub client: Option<IpAddr>,
    /// Mode of the listener, `forward` or `reverse`; without one, the mode that serves the URL.
    #[serde(default)]
    pub mode: Option<String>,
    /// A supposed response of the origin.
    #[serde(default)]
    pub response: Option<SupposedResponse>,
}

/// A response that an origin might give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupposedResponse {
    /// Status.
    pub status: u16,
    /// Fields, as name and value.
    #[serde(default)]
    pub fields: Vec<(String, String)>,
}

/// The handling of a request, from its arrival to the storing of its answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Method of the request.
    pub method: String,
    /// URL as the client asks for it, normalised.
    pub url: String,
    /// Address of the client, as trusted proxies report it if there are any.
    pub client: String,
    /// Listener that takes the request.
    pub listener: ListenerView,
    /// Refusal, or answer of a rule in place of the cache's.
    pub refusal: Option<Refusal>,
    /// Site that serves the URL; `None` in forward mode.
    pub site: Option<SiteView>,
    /// Mirror that answers; `None` for other sites.
    #[serde(default)]
    pub mirror: Option<MirrorView>,
    /// Matching rules.
    pub rules: RulesView,
    /// Access that listener and rules ask for.
    #[serde(default)]
    pub guards: Vec<GuardView>,
    /// Rates that the request counts for.
    #[serde(default)]
    pub rates: Vec<RateView>,
    /// Pages in place of errors, by the status of an error without fields.
    #[serde(default)]
    pub error_pages: Vec<ErrorPageView>,
    /// Key and target after the rules; `None` after a refusal.
    pub target: Option<TargetView>,
    /// Contents of the cache; `None` if nobody looked.
    pub stored: Option<StoredView>,
    /// Use of the cache for this request; `None` if nobody looked.
    pub reuse: Option<ReuseView>,
    /// Storing of the origin's answer; `None` if the request gets no answer that could be stored.
    pub storing: Option<StoringView>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// A listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerView {
    /// Address in the settings.
    pub address: String,
    /// `forward` or `reverse`.
    pub mode: String,
    /// `true` for https.
    pub tls: bool,
}

/// A refusal or redirect by this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Status of the answer.
    pub status: u16,
    /// Setting that refuses, if one does: `forward.deny_destinations`, `rule[2].deny`.
    pub setting: Option<String>,
    /// Sentence for the client.
    pub reason: String,
    /// `detail` of Cache-Status.
    pub detail: Option<String>,
    /// Target of a redirect.
    pub location: Option<String>,
}

/// A site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteView {
    /// Key in the settings: `site[0]`.
    pub key: String,
    /// Line in the settings file, if known.
    pub line: Option<usize>,
    /// Hosts in the settings.
    pub hosts: Vec<String>,
    /// Path prefix.
    pub path_prefix: String,
    /// Upstreams.
    #[serde(default)]
    pub upstreams: Vec<UpstreamView>,
}

/// An upstream of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamView {
    /// URL in the settings.
    pub url: String,
    /// Name of the file of credentials, without its folder; `None` without credentials.
    pub credentials: Option<String>,
}

/// A condition of access.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardView {
    /// Setting that asks: `rule[0].users_file`, `listen[0].allow_clients`.
    pub setting: String,
    /// Value, as the file has it; of a file of users its name alone.
    pub value: String,
}

/// A rate of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateView {
    /// Setting: `rule[0].client_rate`.
    pub setting: String,
    /// Requests a second of one client network.
    pub per_second: f64,
    /// Requests at once.
    pub burst: u32,
    /// Seconds until the client's next request is served, if it has to wait.
    pub wait_seconds: Option<u64>,
}

/// An operator's page for errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorPageView {
    /// Setting: `rule[0].error_page`.
    pub setting: String,
    /// Name of the file, without its folder.
    pub file: String,
    /// Sender of the error: `node` or `origin`.
    pub sender: String,
    /// Statuses that get the page, of those that are common.
    pub statuses: Vec<u16>,
}

/// Matching rules, in the order in which they take part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesView {
    /// Sentence on how rules combine.
    pub combination: String,
    /// Rules that match.
    pub matching: Vec<RuleView>,
    /// Further matching rules, which are not listed.
    pub left_out: usize,
}

/// A matching rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleView {
    /// Key in the settings: `rule[0]`.
    pub key: String,
    /// Name; empty without one.
    pub name: String,
    /// Line in the settings file, if known.
    pub line: Option<usize>,
    /// Conditions, as name and value.
    pub conditions: Vec<(String, String)>,
    /// Settings.
    pub settings: Vec<RuleSettingView>,
}

/// A setting of a matching rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSettingView {
    /// Name.
    pub name: String,
    /// Value, as the file has it.
    pub value: String,
    /// `wins`, `overruled`, `other_response` or `other_status`.
    pub part: String,
    /// Key of the later rule that sets the same.
    pub overruled_by: Option<String>,
}

/// The request as key and origin see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetView {
    /// URL after the rules.
    pub url: String,
    /// Path and query that the origin is asked for.
    pub upstream_path: String,
    /// Primary cache key.
    pub key: String,
}

/// Contents of the cache for the URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredView {
    /// `response`, `parts` or `nothing`.
    pub kind: String,
    /// Lists of request fields by which stored variants differ, the latest first.
    pub varies_by: Vec<Vec<String>>,
    /// Tier that would answer: `ram` or `disk`.
    pub tier: Option<String>,
    /// `true` if the disk has the response.
    pub on_disk: bool,
    /// Status of the response.
    pub status: Option<u16>,
    /// Bytes of the body.
    pub body_bytes: Option<u64>,
    /// Age in seconds.
    pub age_seconds: Option<u64>,
    /// Freshness lifetime in seconds, from the response's making.
    pub lifetime_seconds: Option<u64>,
    /// Seconds until the response becomes stale; negative when it is.
    pub ttl_seconds: Option<i64>,
    /// Date at which the response becomes, or became, stale.
    pub fresh_until: Option<String>,
    /// `true` if each use needs a validation.
    pub always_validates: bool,
    /// `true` if the response may never be served stale.
    pub forbids_stale: bool,
    /// Seconds of `stale-while-revalidate`.
    pub stale_while_revalidate_seconds: u64,
    /// Seconds for which the response stands in for errors, of its own or of the settings.
    pub stale_if_error_seconds: u64,
    /// Stored ranges, as first and last byte.
    pub parts: Vec<(u64, u64)>,
    /// Ranges that are not stored, as first and last byte.
    #[serde(default)]
    pub gaps: Vec<(u64, u64)>,
    /// Bytes of the whole representation, if parts are stored.
    #[serde(default)]
    pub complete_bytes: Option<u64>,
    /// Variants: those that the request may select, then others in RAM.
    #[serde(default)]
    pub variants: Vec<VariantView>,
    /// Further variants in RAM, which are not listed.
    #[serde(default)]
    pub variants_left_out: usize,
    /// Codings of the text's forms that this node has made and holds.
    #[serde(default)]
    pub coded_forms: Vec<String>,
    /// `true` if an answer to such a request could not be stored recently.
    pub remembered_as_unstorable: bool,
}

/// A variant of the URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantView {
    /// Nominated fields and their values in normal form; `None` for a request without the field.
    /// Credentials and cookies are left out.
    pub fields: Vec<(String, Option<String>)>,
    /// Place: `ram`, `disk`, or `none` if nothing is stored for these values.
    pub tier: String,
    /// `true` if the request has these values.
    pub is_selected: bool,
}

/// Use of the cache for the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReuseView {
    /// `true` if the cache answers, `false` if the origin is asked or the request refused; `None`
    /// if the stored parts decide.
    pub hit: Option<bool>,
    /// `fwd` of Cache-Status.
    pub fwd: Option<String>,
    /// `detail` of Cache-Status, as far as it does not come from the origin's answer.
    pub detail: Option<String>,
    /// Reason, a sentence.
    pub reason: String,
    /// Remedy, a sentence.
    pub remedy: Option<String>,
}

/// Storing of the origin's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoringView {
    /// Origin of the judged answer: `given`, `stored`, or `plain`, a 200 without fields.
    pub answer: String,
    /// Status of the judged answer.
    pub status: u16,
    /// `true` if the answer would be stored.
    pub stored: bool,
    /// `detail` of Cache-Status, if the answer is not stored.
    pub detail: Option<String>,
    /// Section of an RFC, or setting, that decides.
    pub decided_by: String,
    /// Freshness lifetime in seconds.
    pub lifetime_seconds: Option<u64>,
    /// Seconds from the arrival until the answer becomes stale; not above 0 if it arrives stale.
    pub ttl_seconds: Option<i64>,
    /// Source of the lifetime: `max-age`, `rule.lifetime`, `heuristic` …
    pub lifetime_source: Option<String>,
    /// `true` if a rule's `lifetime_max` shortens the lifetime.
    pub limited: bool,
    /// `true` if a targeted field took the place of Cache-Control (RFC 9213).
    pub targeted: bool,
    /// Meaning, a sentence.
    pub reason: String,
    /// Setting that would change it, a sentence.
    pub remedy: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::PromiseView;
    use serde_json::Value;

    fn names_in(value: &Value, names: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                names.push(name.clone());
                names_in(value, names);
            }),
            Value::Array(items) => items.iter().for_each(|item| names_in(item, names)),
            _ => {}
        }
    }

    #[test]
    fn names_of_the_json_are_those_of_the_page() {
        let rule = RuleView { settings: vec![RuleSettingView::default()], ..RuleView::default() };
        let whole = Explanation {
            refusal: Some(Refusal::default()),
            site: Some(SiteView { upstreams: vec![UpstreamView::default()], ..SiteView::default() }),
            mirror: Some(MirrorView { promise: Some(PromiseView::default()), ..MirrorView::default() }),
            rules: RulesView { matching: vec![rule], ..RulesView::default() },
            target: Some(TargetView::default()),
            guards: vec![GuardView::default()],
            rates: vec![RateView::default()],
            error_pages: vec![ErrorPageView::default()],
            stored: Some(StoredView { variants: vec![VariantView::default()], ..StoredView::default() }),
            reuse: Some(ReuseView::default()),
            storing: Some(StoringView::default()),
            ..Explanation::default()
        };
        let mut names = Vec::new();
        names_in(&serde_json::to_value(&whole).expect("JSON"), &mut names);
        assert!(names.len() > 60, "{names:?}");
        let page = include_str!("../../../../docs/OPERATING.md");
        let section = page.split("### Names in the JSON of explain").nth(1).expect("the section");
        let section = section.split("\n## ").next().expect("its end");
        for name in names {
            assert!(section.contains(&format!("`{name}`")), "docs/OPERATING.md lacks {name}");
        }
    }
}
