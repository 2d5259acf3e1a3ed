//! Operators' rules, and requests that meet them.
//!
//! The data are a settings file and, behind a zero byte, a request: lines with its method, host,
//! path with query, and fields.

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri};
use shoal_core::FieldLines;
use shoal_rules::{
    MatchedRules, RequestEffects, RequestView, RuleSet, Values, normal_host, normal_path, values, warnings,
};
use shoal_settings::{Rule, Settings};

/// Rules compile or are refused with reasons. What they make of a request is sound, and the index
/// finds what a look at each rule finds.
pub fn any(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if data.len() > DATA_MAX {
        return;
    }
    let (settings, request) = text.split_once('\0').unwrap_or((text, "GET\na.test\n/"));
    let Ok(mut settings) = Settings::parse(settings, "shoal.toml") else { return };
    // A rule without a name has its key for a name.
    settings.rule.iter_mut().for_each(|rule| rule.name.clear());
    let set = match RuleSet::new(&settings) {
        Ok(set) => set,
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "refused without a reason");
            for mistake in mistakes {
                assert!(!mistake.key.is_empty() && !mistake.message.is_empty());
                assert_eq!(mistake.to_string().lines().count(), 1, "{mistake}");
            }
            return;
        }
    };
    assert!(warnings(&settings).iter().all(|warning| warning.lines().count() == 1));
    let Some(asked) = Asked::read(request) else { return };
    let matching = set.matching(&asked.view());
    let names: Vec<&str> = set.names(&matching).collect();
    assert_eq!(names, slow_matching(&settings, &asked), "{} {}", asked.host, asked.path_and_query);
    let url = format!("http://{}{}", asked.authority, asked.path_and_query);
    let variables = values(&url, "192.0.2.1").with_certificate("CN=a");
    if let Some(effects) = set.request_effects(&matching) {
        check_request(&set, &effects, &asked, &variables);
    }
    check_responses(&set, &settings, &matching, &asked, &variables);
}

/// A request as the exchange hands it to rules.
struct Asked {
    method: Method,
    authority: String,
    host: String,
    path_and_query: String,
    fields: FieldLines,
}

impl Asked {
    /// Reads a request; `None` if the node would not take it.
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.split('\n');
        let method = Method::from_bytes(lines.next()?.as_bytes()).ok()?;
        let (authority, path) = (lines.next()?, lines.next()?);
        if !path.starts_with('/') || path.contains('#') || authority.contains(['@', '/', '?', '#']) {
            return None;
        }
        let uri: Uri = format!("http://{authority}{path}").parse().ok()?;
        let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        let fields = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        let fields: Vec<(HeaderName, HeaderValue)> = fields.collect();
        Some(Self {
            method,
            authority: uri.authority()?.as_str().to_ascii_lowercase(),
            host,
            path_and_query: uri.path_and_query()?.as_str().to_owned(),
            fields: fields.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())).collect(),
        })
    }

    fn view(&self) -> RequestView<'_, FieldLines> {
        let Self { method, host, path_and_query, fields, .. } = self;
        RequestView { site: None, host, path_and_query, method, fields }
    }
}

/// Checks the request that key and origin see.
fn check_request(set: &RuleSet, effects: &RequestEffects, asked: &Asked, variables: &Values<'_>) {
    let path = asked.path_and_query.split('?').next().unwrap_or_default();
    let normal = normal_path(path);
    assert_eq!(normal_path(&normal), normal, "the normal form of {path} has another");
    assert!(!normal.split('/').any(|segment| segment == "." || segment == ".."), "{normal}");
    let origin = format!("http://{}", asked.authority);
    let edited = effects.edited_url(&origin, &asked.path_and_query);
    let by_url = set.url_effects(None, &asked.host, &asked.path_and_query);
    let by_url = by_url.and_then(|effects| effects.edited_url(&origin, &asked.path_and_query));
    assert_eq!(edited, by_url, "a purge finds another URL");
    if let Some(edited) = edited {
        let uri: Uri = edited.parse().unwrap_or_else(|error| panic!("{edited}: {error}"));
        assert_eq!(uri.to_string(), edited, "a reader takes it for another URL");
        let (authority, path) = (uri.authority().expect("a host"), uri.path_and_query().expect("a path"));
        let again = effects.edited_url(&format!("http://{authority}"), path.as_str());
        assert_eq!(again.as_ref(), Some(&edited), "a second edit changes it again");
    }
    if let Some(path) = effects.upstream_path(&asked.path_and_query) {
        assert!(path.starts_with('/'), "{path}");
        assert!(PathAndQuery::try_from(path.as_str()).is_ok_and(|read| read == path.as_str()), "{path}");
    }
    if let Some(edited) = effects.edited_fields(&asked.fields, variables) {
        check_fields(&edited, &asked.fields);
    }
    if let Some((to, _)) = &effects.redirect {
        assert!(!to.fill(variables).chars().any(char::is_control));
    }
}

/// Checks what rules make of responses.
fn check_responses(
    set: &RuleSet,
    settings: &Settings,
    matching: &MatchedRules,
    asked: &Asked,
    variables: &Values<'_>,
) {
    for status in [StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::BAD_GATEWAY] {
        let effects = set.response_effects(matching, status, &asked.fields);
        let selecting: Vec<HeaderName> = asked.fields.to_map().keys().cloned().collect();
        let edited = effects.and_then(|it| it.edited_fields(&asked.fields, &selecting, variables));
        if let Some(edited) = edited {
            check_fields(&edited, &asked.fields);
        }
        for report in set.report(settings, matching, (status, &asked.fields)) {
            assert!(!report.settings.is_empty(), "{} changes nothing", report.key);
        }
    }
    let may_change = set.may_change(None, &asked.host, &asked.path_and_query, true);
    let answers = set.request_effects(matching).is_some_and(|effects| effects.answers());
    assert!(may_change || !answers, "a hit would go past a rule");
    let _ = set.limiting_url(None, &asked.host, &asked.path_and_query);
}

/// Checks that each line is one of `before`, or has a value that a field can have.
fn check_fields(edited: &FieldLines, before: &FieldLines) {
    use shoal_core::Fields;
    let before: Vec<(&[u8], &[u8])> = before.lines().collect();
    for (name, value) in edited.lines() {
        let is_plain = value.iter().all(|byte| *byte >= b' ' && *byte != 0x7f);
        assert!(is_plain || before.contains(&(name, value)), "{name:?}: {value:?}");
        assert!(HeaderName::from_bytes(name).is_ok(), "{name:?}");
    }
}

/// Returns the keys of the rules that match, by a look at each.
fn slow_matching(settings: &Settings, asked: &Asked) -> Vec<String> {
    let rules = settings.rule.iter().enumerate();
    let matching = rules.filter(|(_, rule)| fits(rule, asked)).map(|(at, _)| format!("rule[{at}]"));
    matching.collect()
}

fn fits(rule: &Rule, asked: &Asked) -> bool {
    use shoal_core::Fields;
    let (path, query) = match asked.path_and_query.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (asked.path_and_query.as_str(), None),
    };
    let path = normal_path(path);
    let one_of = |patterns: &[String], fits: &dyn Fn(&str) -> bool| {
        patterns.is_empty() || patterns.iter().any(|pattern| fits(pattern))
    };
    let in_query = |pattern: &str| {
        let (name, value) =
            pattern.split_once('=').map_or((pattern, None), |(name, value)| (name, Some(value)));
        query.is_some_and(|query| {
            query.split('&').any(|parameter| {
                let (own_name, own) = parameter.split_once('=').unwrap_or((parameter, ""));
                parameter_fits(name, own_name) && value.is_none_or(|value| parameter_fits(value, own))
            })
        })
    };
    let in_fields = |pattern: &str| {
        let (name, value) =
            pattern.split_once(':').map_or((pattern, None), |(name, value)| (name, Some(value)));
        let name = name.trim().to_ascii_lowercase();
        asked.fields.lines().any(|(own_name, own)| {
            own_name == name.as_bytes() && value.is_none_or(|value| glob(value.trim().as_bytes(), own))
        })
    };
    one_of(&rule.hosts, &|pattern| host_fits(pattern, &asked.host))
        && one_of(&rule.paths, &|pattern| glob(pattern.as_bytes(), path.as_bytes()))
        && rule.path_regex.as_deref().is_none_or(|text| regex_fits(text, &path))
        && one_of(&rule.query, &in_query)
        && one_of(&rule.methods, &|method| method == asked.method.as_str())
        && one_of(&rule.request_fields, &in_fields)
}

/// Asks a set of this expression alone.
fn regex_fits(text: &str, path: &str) -> bool {
    let rule = Rule { path_regex: Some(text.into()), store: Some(false), ..Rule::empty() };
    let set = RuleSet::new(&Settings { rule: vec![rule], ..Settings::default() }).expect("it was compiled");
    let fields = FieldLines::default();
    let method = Method::GET;
    let view = RequestView { site: None, host: "a", path_and_query: path, method: &method, fields: &fields };
    set.names(&set.matching(&view)).next().is_some()
}

fn host_fits(pattern: &str, host: &str) -> bool {
    let host = normal_host(host);
    let pattern = pattern.to_ascii_lowercase();
    let pattern = pattern.strip_suffix('.').unwrap_or(&pattern);
    match pattern.strip_prefix('*') {
        Some("") => true,
        Some(suffix) => host.ends_with(suffix),
        None if pattern.contains(':') && !pattern.starts_with('[') => {
            normal_host(&format!("[{pattern}]")) == host
        }
        None => normal_host(pattern) == host,
    }
}

fn parameter_fits(pattern: &str, text: &str) -> bool {
    let mut plain = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let code =
            text.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match (bytes[at], code) {
            (b'%', Some(code)) => {
                plain.push(u8::from_str_radix(code, 16).expect("two digits"));
                at += 2;
            }
            (b'+', _) => plain.push(b' '),
            (byte, _) => plain.push(byte),
        }
        at += 1;
    }
    glob(pattern.as_bytes(), bytes) || glob(pattern.as_bytes(), &plain)
}

/// Compares by a table: `fits[place]` says that the pattern so far fits the first `place` bytes.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let mut fits = vec![false; text.len() + 1];
    fits[0] = true;
    for byte in pattern {
        let mut next = vec![false; text.len() + 1];
        for place in 0..=text.len() {
            next[place] = match byte {
                b'*' => fits[place] || place > 0 && next[place - 1],
                byte => place > 0 && fits[place - 1] && text[place - 1] == *byte,
            };
        }
        fits = next;
    }
    fits[text.len()]
}

/// Most bytes of data: the slow comparison takes the product of lengths.
const DATA_MAX: usize = 4096;
