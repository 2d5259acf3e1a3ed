//! Rules as operators write them, and their effects on requests and responses.

use super::*;
use crate::mistakes::{mistakes, warnings};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use std::time::Duration;

fn settings(rules: &str) -> Settings {
    Settings::parse(rules, "test").unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

fn set(rules: &str) -> RuleSet {
    RuleSet::new(&settings(rules)).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// Names of the rules that match a plain GET.
fn matching(set: &RuleSet, host: &str, path_and_query: &str) -> Vec<String> {
    let fields = HeaderMap::new();
    let request = RequestView { site: None, host, path_and_query, method: &Method::GET, fields: &fields };
    let matching = set.matching(&request);
    set.names(&matching).map(str::to_owned).collect()
}

#[test]
fn conditions_all_hold_or_the_rule_rests() {
    let set = set(r#"
        [[rule]]
        name = "host"
        hosts = ["a.test", "*.b.test"]
        store = false
        [[rule]]
        name = "path"
        paths = ["/x/*", "*.js"]
        store = false
        [[rule]]
        name = "regex"
        path_regex = '^/v[0-9]+/'
        store = false
        [[rule]]
        name = "query"
        query = ["preview", "v=2*"]
        store = false
    "#);
    for (host, path, names) in [
        ("a.test", "/", vec!["host"]),
        ("b.test", "/x/", vec!["path"]),
        ("c.b.test", "/y.js", vec!["host", "path"]),
        ("c", "/%78/1", vec!["path"]),
        ("c", "//x/1", vec!["path"]),
        ("c", "/v12/a?preview", vec!["regex", "query"]),
        ("c", "/?v=21", vec!["query"]),
        ("c", "/?v=1&w=2", vec![]),
    ] {
        assert_eq!(matching(&set, host, path), names, "{host} {path}");
    }
}

#[test]
fn later_rules_win() {
    let set = set(
        "[[rule]]\nlifetime = \"1m\"\nstale_if_error = \"1h\"\n[[rule]]\npaths = [\"/a\"]\nlifetime = \"2m\"\n",
    );
    let effects = |path: &str| {
        let fields = HeaderMap::new();
        let request = RequestView {
            site: None,
            host: "h",
            path_and_query: path,
            method: &Method::GET,
            fields: &fields,
        };
        let matching = set.matching(&request);
        set.response_effects(&matching, StatusCode::OK, &fields).expect("effects").overrides
    };
    let seconds = |number| Some(Duration::from_secs(number));
    assert_eq!((effects("/a").lifetime, effects("/a").stale_if_error), (seconds(120), seconds(3600)));
    assert_eq!(effects("/b").lifetime, seconds(60));
}

#[test]
fn errors_get_no_lifetime_unless_named() {
    let set = set("[[rule]]\nlifetime = \"1h\"\n[[rule]]\nstatuses = [\"404\"]\nlifetime = \"5s\"\n");
    let lifetime = |status: u16| {
        let fields = HeaderMap::new();
        let request =
            RequestView { site: None, host: "h", path_and_query: "/", method: &Method::GET, fields: &fields };
        let status = StatusCode::from_u16(status).expect("a status");
        let effects = set.response_effects(&set.matching(&request), status, &fields);
        effects.and_then(|effects| effects.overrides.lifetime).map(|lifetime| lifetime.as_secs())
    };
    assert_eq!([200, 301, 404, 500, 503].map(lifetime), [Some(3600), Some(3600), Some(5), None, None]);
}

#[test]
fn responses_are_told_by_type_and_fields() {
    let set =
        set("[[rule]]\ncontent_types = [\"image/*\"]\nresponse_fields = [\"x-kind: big*\"]\nstore = false\n");
    let stored = |content_type: &'static str, kind: &'static str| {
        let fields: HeaderMap = [
            (CONTENT_TYPE, HeaderValue::from_static(content_type)),
            (HeaderName::from_static("x-kind"), HeaderValue::from_static(kind)),
        ]
        .into_iter()
        .collect();
        let request =
            RequestView { site: None, host: "h", path_and_query: "/", method: &Method::GET, fields: &fields };
        set.response_effects(&set.matching(&request), StatusCode::OK, &fields).is_none()
    };
    assert!(!stored("Image/PNG; x=y", "bigger"));
    assert!(stored("image/png", "small") && stored("text/html", "big"));
}

#[test]
fn rules_of_a_site_hold_there_alone() {
    let set = set(r#"
        [[listen]]
        address = "127.0.0.1:1"
        mode = "reverse"
        [[site]]
        hosts = ["a.test"]
        upstreams = [{ url = "http://127.0.0.1:2" }]
        [[site.rule]]
        name = "own"
        store = false
    "#);
    let fields = HeaderMap::new();
    let names = |site| {
        let request =
            RequestView { site, host: "a.test", path_and_query: "/", method: &Method::GET, fields: &fields };
        set.names(&set.matching(&request)).count()
    };
    assert_eq!([names(Some(0)), names(Some(1)), names(None)], [1, 0, 0]);
}

#[test]
fn mistakes_name_their_setting() {
    for (rule, key, message) in [
        ("paths = [\"x\"]\nstore = false", "paths[0]", "matches no path"),
        ("path_regex = \"(\"\nstore = false", "path_regex", "unclosed group"),
        ("path_regex = \"a{1000}{1000}\"\nstore = false", "path_regex", "size limit"),
        ("statuses = [\"20\"]\nstore = false", "statuses[0]", "no status"),
        ("ignore_origin = [\"private\"]", "ignore_origin", "share_private"),
        ("response_set = [\"X: a\\r\\nb\"]", "response_set[0]", "cannot be a field's value"),
        ("response_set = [\"X: $nothing\"]", "response_set[0]", "no variable"),
        ("request_set = [\"Host: a\"]", "request_set[0]", "belongs to the connection"),
        ("request_remove = [\"a b\"]", "request_remove[0]", "no field name"),
        ("methods = [\"GET\"]\nquery_drop = [\"x\"]", "methods", "purges"),
        ("statuses = [\"200\"]\ndeny = 403", "statuses", "two rules"),
        ("lifetime_min = \"2m\"\nlifetime_max = \"1m\"", "lifetime_min", "above"),
        ("redirect = \"/a\"\nredirect_status = 304", "redirect_status", "no redirect"),
        ("hosts = [\"a b\"]\nstore = false", "hosts[0]", "no host"),
        ("upstream_add = \"x\"", "upstream_add", "no path"),
        ("upstream_add = \"/y`\"", "upstream_add", "no path"),
        ("host = \"a.test:99999\"", "host", "no host"),
        ("hosts = [\"a.test:80\"]\nstore = false", "hosts[0]", "without a port"),
        ("request_set = [\"X-Forwarded-For: $client\"]", "request_set", "itself"),
        ("response_add = [\"X-Who: $client\"]", "response_set", "stored"),
        ("response_fields = [\"X-A\"]\nresponse_remove = [\"X-A\"]", "response_fields", "judged as changed"),
    ] {
        let found = mistakes(&settings(&format!("[[rule]]\n{rule}\n")));
        assert_eq!(found.len(), 1, "{rule}: {found:?}");
        assert_eq!(found[0].0, format!("rule[0].{key}"), "{rule}");
        assert!(found[0].1.contains(message), "{rule}: {found:?}");
    }
}

#[test]
fn rules_without_settings_are_mistakes() {
    let found = mistakes(&settings("[[rule]]\nhosts = [\"a\"]\n"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "rule[0]", "a mistake within the rule takes this one's place");
    assert!(found[0].1.contains("changes nothing"), "{found:?}");
}

#[test]
fn overrides_are_told_aloud() {
    let leave = "[[rule]]\nignore_origin = [\"private\"]\nshare_private = true\n[[rule]]\nlifetime_default = \"1m\"\n";
    let told = warnings(&settings(leave));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|warning| warning.starts_with("rule[0]: ")), "{told:?}");
    for (edit, count) in [
        ("response_set = ['Cache-Control: public']", 1),
        ("response_add = ['CDN-Cache-Control: s-maxage=5']", 1),
        ("response_remove = ['vary']", 1),
        ("response_set = ['Cache-Control: max-age=5']", 0),
    ] {
        assert_eq!(warnings(&settings(&format!("[[rule]]\n{edit}\n"))).len(), count, "{edit}");
    }
}

#[test]
fn ten_thousand_rules_are_looked_up_by_index() {
    let rules: String =
        (0..10_000).map(|at| format!("[[rule]]\npaths = [\"/p{at}/*\"]\nstore = false\n")).collect();
    let set = set(&rules);
    assert_eq!(matching(&set, "h", "/p77/x"), ["rule[77]"]);
    assert_eq!(set.index.candidates("h", "/p77/x").len(), 1);
}

proptest! {
    /// The index finds the same rules as a look at each rule.
    #[test]
    fn index_agrees_with_all_rules(
        paths in proptest::collection::vec("(/[ab]{0,2}){0,2}[*]?", 1..8),
        path in "(/[ab]{0,2}){1,3}",
    ) {
        let paths: Vec<String> =
            paths.into_iter().filter(|path| path.starts_with(['/', '*'])).collect();
        let rules: String =
            paths.iter().map(|path| format!("[[rule]]\npaths = [\"{path}\"]\nstore = false\n")).collect();
        let set = set(&rules);
        let normal = normal_path(&path);
        let slow: Vec<String> = paths.iter().enumerate()
            .filter(|(_, pattern)| crate::pattern::Glob::parse(pattern).expect("a pattern").matches(normal.as_bytes()))
            .map(|(at, _)| format!("rule[{at}]"))
            .collect();
        prop_assert_eq!(matching(&set, "h", &path), slow);
    }
}

#[test]
fn pages_are_chosen_by_status_and_side() {
    let mut set = set(r#"
        [[rule]]
        error_page = "any.html"
        [[rule]]
        statuses = ["5xx"]
        error_page = "server.txt"
        error_page_origin = true
    "#);
    let fields = HeaderMap::new();
    let view =
        RequestView { site: None, host: "a", path_and_query: "/", method: &Method::GET, fields: &fields };
    let matching = set.matching(&view);
    let page = |set: &RuleSet, status: u16, is_origins: bool| {
        let status = StatusCode::from_u16(status).expect("a status");
        set.error_page(&matching, (status, is_origins), &fields).map(|page| page.body.clone())
    };
    assert_eq!(page(&set, 502, false), None, "nothing is read yet");
    set.read_pages(&|path| Ok(path.to_string_lossy().into_owned().into_bytes())).expect("pages");
    for (status, is_origins, name) in [
        (502, false, Some("server.txt")),
        (404, false, Some("any.html")),
        (502, true, Some("server.txt")),
        (404, true, None),
        (200, true, None),
        (304, false, None),
    ] {
        assert_eq!(page(&set, status, is_origins).as_deref(), name.map(str::as_bytes), "{status}");
    }
    let mistakes = set.read_pages(&|_| Err("gone".into())).expect_err("no pages");
    assert_eq!(mistakes[1].key, "rule[1].error_page");
}

#[test]
fn failures_have_mistakes_too() {
    let found = mistakes(&settings(
        r#"
        [[rule]]
        error_page = "page.php"
        [[rule]]
        error_page_origin = true
        [[rule]]
        stale_on = ["503", "2xx"]
        [[rule]]
        statuses = ["404"]
        stale_on = ["503"]
        [[rule]]
        stale_on = []
        [[rule]]
        deny = 403
        error_page = "no.html"
    "#,
    ));
    let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(
        keys,
        ["rule[0].error_page", "rule[1].error_page_origin", "rule[2].stale_on[1]", "rule[3].stale_on"]
    );
}

#[test]
fn rates_are_of_each_rule() {
    let set = set(r#"
        [[rule]]
        client_rate = 2.5
        [[rule]]
        paths = ["/login*"]
        methods = ["POST"]
        client_rate = 0.1
        client_burst = 5
    "#);
    let rates: Vec<_> = set.rates().map(|(number, _, rate)| (number, rate.per_second, rate.burst)).collect();
    assert_eq!(rates, [(0, 2.5, 3), (1, 0.1, 5)]);
    assert!(set.limits_rates() && !set.changes_requests());
    let fields = HeaderMap::new();
    let limiting = |method: &Method, path| {
        let request = RequestView { site: None, host: "a", path_and_query: path, method, fields: &fields };
        set.limiting(&set.matching(&request)).collect::<Vec<_>>()
    };
    assert_eq!(limiting(&Method::POST, "/%6cogin"), [0, 1]);
    assert_eq!(limiting(&Method::GET, "/login"), [0]);
    assert!(set.limiting_url(None, "a", "/login").is_none(), "the method decides");
    assert!(set.limiting_url(None, "a", "/").is_some());
}

#[test]
fn access_rules_keep_the_fast_path_away() {
    let set = set(r#"
        [[rule]]
        hosts = ["a.test"]
        paths = ["/private/*"]
        users_file = "users"
        [[rule]]
        paths = ["/machines/*"]
        allow_certificates = ["CN=*"]
    "#);
    for (host, path, may) in [
        ("a.test", "/private/x", true),
        ("a.test.", "/private/x", true),
        ("a.test", "/%70rivate/x", true),
        ("a.test", "//private/x", true),
        ("a.test", "/x/../private/x", true),
        ("b.test", "/machines/1", true),
        ("b.test", "/private/x", false),
    ] {
        assert_eq!(set.may_change(None, host, path, false), may, "{host}{path}");
    }
}

#[test]
fn mistakes_in_access_are_named() {
    for (rule, key) in [
        ("client_burst = 3\nstore = false", "rule[0].client_burst"),
        ("statuses = ['404']\nclient_rate = 1.0", "rule[0].statuses"),
        ("users_file = 'u'\nrealm = \"a\\nb\"", "rule[0].realm"),
        ("allow_certificates = ['CM=x']", "rule[0].allow_certificates[0]"),
        ("response_set = ['X: $client_certificate']", "rule[0].response_set"),
    ] {
        let found = mistakes(&settings(&format!("[[rule]]\n{rule}\n")));
        assert!(found.iter().any(|(at, _)| at == key), "{rule}: {found:?}");
    }
}
