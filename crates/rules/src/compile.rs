//! A rule of the settings, compiled and checked.

use crate::access::{AccessEffects, CertificatePattern, ClientRate};
use crate::condition::Conditions;
use crate::effects::{FieldEdit, FieldEdits, RequestEffects, ResponseEffects, Template};
use crate::failures::{ErrorPage, FailureEffects, StaleErrors};
use crate::host::host_pattern;
use crate::mistakes::RuleMistake;
use crate::pattern::{FieldPattern, Glob, ParameterPattern, field_name};
use crate::url::QueryEdit;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, FORWARDED, HOST, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    MAX_FORWARDS, RANGE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use regex::RegexBuilder;
use shoal_semantics::{IgnoredDirectives, Overrides};
use shoal_settings::{OriginDirective, Rule, SetCookie};
use std::sync::Arc;

/// A rule that can be asked.
#[derive(Clone, Debug)]
pub struct CompiledRule {
    /// Name, or else the key.
    pub name: String,
    /// Conditions.
    pub conditions: Conditions,
    /// Changes of requests.
    pub request: RequestEffects,
    /// Changes of responses.
    pub response: ResponseEffects,
    /// Key in the settings.
    pub key: String,
    /// Settings for failures.
    pub failures: FailureEffects,
    /// Rate of requests of a client.
    pub rate: Option<ClientRate>,
}

impl CompiledRule {
    /// The changes of responses but for lifetimes and stale windows.
    pub fn response_without_lifetime(&self) -> ResponseEffects {
        ResponseEffects { overrides: self.response.overrides.without_lifetime(), ..self.response.clone() }
    }
}

/// Compiles the rule that stands under `key`.
///
/// # Errors
/// Every mistake in it.
pub fn compile(key: &str, site: Option<usize>, rule: &Rule) -> Result<CompiledRule, Vec<RuleMistake>> {
    let mut reader = Reader { key, mistakes: Vec::new() };
    let conditions = reader.conditions(site, rule);
    let request = reader.request_effects(rule);
    let response = reader.response_effects(rule);
    let failures = reader.failure_effects(rule);
    reader.check_together(rule, &request, &response, &failures);
    let name = if rule.name.is_empty() { key.to_owned() } else { rule.name.clone() };
    match reader.mistakes.is_empty() {
        true => {
            let key = key.to_owned();
            Ok(CompiledRule { name, conditions, request, response, key, failures, rate: client_rate(rule) })
        }
        false => Err(reader.mistakes),
    }
}

/// Reads the settings of one rule and gathers mistakes.
struct Reader<'a> {
    key: &'a str,
    mistakes: Vec<RuleMistake>,
}

impl Reader<'_> {
    fn note(&mut self, setting: &str, message: impl Into<String>) {
        self.mistakes.push(RuleMistake { key: format!("{}.{setting}", self.key), message: message.into() });
    }

    /// Reads each text of a list; those that cannot be read are noted.
    fn each<T>(
        &mut self,
        setting: &str,
        texts: &[String],
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let mut values = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            match read(text) {
                Ok(value) => values.push(value),
                Err(message) => self.note(&format!("{setting}[{at}]"), message),
            }
        }
        values
    }

    /// As [`Self::each`], of a list that may be absent.
    fn list<T>(
        &mut self,
        setting: &str,
        texts: &Option<Vec<String>>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Arc<[T]>> {
        texts.as_ref().map(|texts| self.each(setting, texts, read).into())
    }

    fn conditions(&mut self, site: Option<usize>, rule: &Rule) -> Conditions {
        let mut conditions = Conditions {
            site,
            hosts: self.each("hosts", &rule.hosts, host_pattern),
            paths: self.each("paths", &rule.paths, path_pattern),
            query: self.each("query", &rule.query, ParameterPattern::parse),
            methods: self.each("methods", &rule.methods, method),
            request_fields: self.each("request_fields", &rule.request_fields, FieldPattern::parse),
            content_types: self
                .each("content_types", &rule.content_types, |text| Glob::parse(&text.to_ascii_lowercase())),
            response_fields: self.each("response_fields", &rule.response_fields, FieldPattern::parse),
            ..Conditions::default()
        };
        for (at, text) in rule.statuses.iter().enumerate() {
            if let Err(message) = conditions.statuses.add(text) {
                self.note(&format!("statuses[{at}]"), message);
            }
        }
        if let Some(text) = &rule.path_regex {
            match RegexBuilder::new(text).size_limit(REGEX_BYTES).dfa_size_limit(REGEX_BYTES).build() {
                Ok(regex) => conditions.path_regex = Some(regex),
                Err(why) => self.note("path_regex", one_line(&why.to_string())),
            }
        }
        conditions
    }

    fn request_effects(&mut self, rule: &Rule) -> RequestEffects {
        let redirect = rule.redirect.as_ref().and_then(|text| match self.template("redirect", text) {
            Some(to) => StatusCode::from_u16(rule.redirect_status).ok().map(|status| (to, status)),
            None => None,
        });
        let host = rule.host.as_ref().map(|host| Arc::from(host.to_ascii_lowercase()));
        if let Some(host) = &rule.host
            && !is_authority(host)
        {
            self.note("host", format!("{host:?} is no host"));
        }
        let mut fields = FieldEdits::default();
        self.edits("request_set", &rule.request_set, FieldEdit::Set, &mut fields);
        self.removals("request_remove", &rule.request_remove, &mut fields);
        for name in OWN.iter().filter(|name| fields.has(name)) {
            self.note("request_set", format!("this node says {name} itself"));
        }
        RequestEffects {
            allow_clients: rule.allow_clients.as_deref().map(Arc::from),
            deny: rule.deny.and_then(|status| StatusCode::from_u16(status).ok()),
            redirect,
            host,
            normalise_path: rule.normalise_path,
            query: QueryEdit {
                keep: rule.query_keep.as_ref().map(|list| self.each("query_keep", list, Glob::parse)),
                drop: rule.query_drop.as_ref().map(|list| self.each("query_drop", list, Glob::parse)),
                sort: rule.query_sort,
            },
            accept_encoding: self.list("accept_encoding", &rule.accept_encoding, word),
            accept_language: self.list("accept_language", &rule.accept_language, word),
            cookies: self.list("cookies", &rule.cookies, Glob::parse),
            key_fields: self.list("key_fields", &rule.key_fields, field_name),
            ignore_client_no_cache: rule.ignore_client_no_cache,
            pass: rule.pass,
            upstream_strip: self.prefix("upstream_strip", &rule.upstream_strip),
            upstream_add: self.prefix("upstream_add", &rule.upstream_add),
            fields,
            access: self.access(rule),
        }
    }

    fn access(&mut self, rule: &Rule) -> AccessEffects {
        let is_plain = |realm: &String| realm.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if !rule.realm.as_ref().is_none_or(is_plain) {
            self.note("realm", "a realm is made of printable ASCII characters");
        }
        if rule.client_burst.is_some() && rule.client_rate.is_none() {
            self.note("client_burst", "needs client_rate");
        }
        AccessEffects {
            users_file: rule.users_file.as_deref().map(Into::into),
            realm: rule.realm.as_deref().map(Into::into),
            forward_authorization: rule.forward_authorization,
            certificates: self.list(
                "allow_certificates",
                &rule.allow_certificates,
                CertificatePattern::parse,
            ),
            satisfy: rule.satisfy,
        }
    }

    fn response_effects(&mut self, rule: &Rule) -> ResponseEffects {
        let mut fields = FieldEdits::default();
        self.edits("response_set", &rule.response_set, FieldEdit::Set, &mut fields);
        self.edits("response_add", &rule.response_add, FieldEdit::Add, &mut fields);
        self.removals("response_remove", &rule.response_remove, &mut fields);
        let ignored = rule.ignore_origin.as_ref().map(|list| {
            let has = |directive| list.contains(&directive);
            IgnoredDirectives {
                no_store: has(OriginDirective::NoStore),
                private: has(OriginDirective::Private),
                no_cache: has(OriginDirective::NoCache),
                must_revalidate: has(OriginDirective::MustRevalidate),
            }
        });
        let star = |text: &str| if text == "*" { Ok(ANY_NAME) } else { field_name(text) };
        ResponseEffects {
            overrides: Overrides {
                store: rule.store,
                lifetime: rule.lifetime,
                lifetime_default: rule.lifetime_default,
                lifetime_min: rule.lifetime_min,
                lifetime_max: rule.lifetime_max,
                stale_while_revalidate: rule.stale_while_revalidate,
                stale_if_error: rule.stale_if_error,
                ignored,
                strip_cookies: rule.set_cookie.map(|what| what == SetCookie::Strip),
                share_private: rule.share_private.then_some(true),
                cookies_are_keyed: rule.cookies.as_ref().map(|_| true),
                pin: rule.pin,
            },
            ignore_vary: self.list("ignore_vary", &rule.ignore_vary, star),
            fields,
        }
    }

    fn failure_effects(&mut self, rule: &Rule) -> FailureEffects {
        let page = rule.error_page.as_deref().map(|path| ErrorPage::new(path, rule.error_page_origin));
        let page = page.transpose().unwrap_or_else(|message| {
            self.note("error_page", message);
            None
        });
        if rule.error_page_origin && rule.error_page.is_none() {
            self.note("error_page_origin", "needs error_page, which names the page");
        }
        let stale_on = rule.stale_on.as_deref().map(StaleErrors::parse);
        let stale_on = stale_on.transpose().unwrap_or_else(|mistakes| {
            mistakes.into_iter().for_each(|(at, why)| self.note(&format!("stale_on[{at}]"), why));
            None
        });
        FailureEffects { page, stale_on: stale_on.map(Arc::new) }
    }

    fn check_together(
        &mut self,
        rule: &Rule,
        request: &RequestEffects,
        response: &ResponseEffects,
        failures: &FailureEffects,
    ) {
        let ignored = response.overrides.ignored.unwrap_or_default();
        if (ignored.no_store || ignored.private) && !rule.share_private {
            self.note("ignore_origin", format!("{NEEDS_LEAVE} to set no-store or private aside"));
        }
        let asks_response =
            !rule.statuses.is_empty() || !rule.content_types.is_empty() || !rule.response_fields.is_empty();
        if asks_response && (!request.is_empty() || rule.client_rate.is_some()) {
            self.note(
                "statuses",
                "a rule that changes requests cannot ask something of the response; make two rules of it",
            );
        }
        if asks_response && failures.stale_on.is_some() {
            self.note(
                "stale_on",
                "names the errors itself; a rule with it cannot ask something of the response",
            );
        }
        let asks_request = !rule.methods.is_empty() || !rule.request_fields.is_empty();
        if asks_request && request.changes_url() {
            self.note(
                "methods",
                "a rule that changes URLs asks for hosts, paths and query alone, so that purges find the same URL",
            );
        }
        if let (Some(least), Some(most)) = (rule.lifetime_min, rule.lifetime_max)
            && least > most
        {
            self.note("lifetime_min", "is above lifetime_max");
        }
        for text in rule.response_set.iter().chain(&rule.response_add) {
            if text.split_once(':').is_some_and(|(_, value)| {
                Template::parse(value.trim()).is_ok_and(|value| value.names_client())
            }) {
                self.note("response_set", "$client would be stored, and others would get it");
            }
        }
        let edits_asked = rule.response_fields.iter().any(|text| {
            let name = text.split(':').next().unwrap_or_default();
            field_name(name).is_ok_and(|name| response.fields.has(&name))
        });
        if edits_asked || !rule.content_types.is_empty() && response.fields.has(&CONTENT_TYPE) {
            let message = "the rule changes a field that it asks for, and responses are judged as changed";
            self.note("response_fields", message);
        }
        if rule.deny.is_some() && rule.redirect.is_some() {
            self.note("redirect", "the rule denies the request already");
        }
        let changes =
            !request.is_empty() || !response.is_empty() || !failures.is_empty() || rule.client_rate.is_some();
        if !changes && self.mistakes.is_empty() {
            // The key of the rule itself, so that a mistake within the rule speaks alone.
            let message = "the rule changes nothing: add a setting such as lifetime, store or deny";
            self.mistakes.push(RuleMistake { key: self.key.to_owned(), message: message.into() });
        }
        if rule.redirect.is_some() && matches!(rule.redirect_status, 304..=306) {
            let message = format!("{} is no redirect: 301, 302, 303, 307 or 308", rule.redirect_status);
            self.note("redirect_status", message);
        }
    }

    /// Reads lines `Name: value`.
    fn edits(
        &mut self,
        setting: &str,
        texts: &[String],
        edit: impl Fn(Template) -> FieldEdit,
        edits: &mut FieldEdits,
    ) {
        for (at, text) in texts.iter().enumerate() {
            let setting = format!("{setting}[{at}]");
            let Some((name, value)) = text.split_once(':') else {
                self.note(&setting, format!("{text:?} is no field: write \"Name: value\""));
                continue;
            };
            let Some(name) = self.editable(&setting, name) else { continue };
            let value = value.trim();
            if HeaderValue::from_str(value).is_err() {
                self.note(&setting, format!("{value:?} cannot be a field's value"));
            } else if let Some(value) = self.template(&setting, value) {
                edits.push(name, edit(value));
            }
        }
    }

    fn removals(&mut self, setting: &str, names: &[String], edits: &mut FieldEdits) {
        for (at, name) in names.iter().enumerate() {
            if let Some(name) = self.editable(&format!("{setting}[{at}]"), name) {
                edits.push(name, FieldEdit::Remove);
            }
        }
    }

    /// Reads the name of a field that a rule may edit.
    fn editable(&mut self, setting: &str, name: &str) -> Option<HeaderName> {
        match field_name(name) {
            Ok(name) if FRAMING.contains(&name) => {
                self.note(setting, format!("{name} belongs to the connection and cannot be edited"));
                None
            }
            Ok(name) => Some(name),
            Err(message) => {
                self.note(setting, message);
                None
            }
        }
    }

    fn template(&mut self, setting: &str, text: &str) -> Option<Template> {
        Template::parse(text).map_err(|message| self.note(setting, message)).ok()
    }

    fn prefix(&mut self, setting: &str, text: &Option<String>) -> Option<Arc<str>> {
        let text = text.as_ref()?;
        let is_path = text.starts_with('/')
            && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?' && byte != b'#')
            && text.parse::<PathAndQuery>().is_ok();
        if !is_path {
            self.note(setting, format!("{text:?} is no path: it begins with \"/\", without a query"));
        }
        Some(text.as_str().into())
    }
}

/// Returns the rate that the rule allows a client. Without a burst, the requests of one second may
/// come at once.
fn client_rate(rule: &Rule) -> Option<ClientRate> {
    let per_second = rule.client_rate?;
    let of_a_second = per_second.ceil().max(1.0) as u32;
    Some(ClientRate { per_second, burst: rule.client_burst.unwrap_or(of_a_second).max(1) })
}

/// Returns `true` for a host, perhaps with a port.
fn is_authority(text: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else { return false };
    let has_sound_port = authority.port_u16().is_some() || authority.as_str() == authority.host();
    !text.contains('@') && !authority.host().is_empty() && has_sound_port
}

fn path_pattern(text: &str) -> Result<Glob, String> {
    if !text.starts_with(['/', '*']) {
        return Err(format!("{text:?} matches no path: it begins with \"/\" or \"*\""));
    }
    match text.contains(['?', '#']) {
        true => Err(format!("{text:?} is no path: `query` has the parameters")),
        false => Glob::parse(text),
    }
}

fn method(text: &str) -> Result<Method, String> {
    Method::from_bytes(text.as_bytes()).map_err(|_| format!("{text:?} is no method"))
}

fn word(text: &str) -> Result<String, String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    match !text.is_empty() && text.bytes().all(is_word) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(format!("{text:?} is no coding or language")),
    }
}

/// The last line of an error of several lines.
fn one_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").into()
}

/// Most memory of a compiled expression, in bytes.
const REGEX_BYTES: usize = 1 << 20;
const ANY_NAME: HeaderName = HeaderName::from_static("*");
const NEEDS_LEAVE: &str = "needs share_private = true";
/// Request fields that this node makes itself.
const OWN: [HeaderName; 11] = [
    VIA,
    HeaderName::from_static("cdn-loop"),
    MAX_FORWARDS,
    FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    RANGE,
    IF_RANGE,
    IF_NONE_MATCH,
    IF_MODIFIED_SINCE,
];
/// Fields that frame messages or belong to one connection.
const FRAMING: [HeaderName; 7] = [CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
