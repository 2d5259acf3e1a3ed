//! Operators' rules: each recipe of docs/RULES.md, against a scripted origin.

use shoal_testkit::shoal::binary;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::process::Command;

/// A reverse proxy for `origin` with these rules.
fn shoal(origin: &Origin, rules: &str) -> Shoal {
    setup(origin, rules).start()
}

fn setup(origin: &Origin, rules: &str) -> Setup {
    let rules: toml::Table = rules.parse().expect("rules in TOML");
    Setup::to(origin).set("rule", rules["rule"].clone())
}

fn with(path: &str, fields: &[(&str, &str)]) -> Request {
    fields.iter().fold(Request::get(path), |request, (name, value)| request.field(name, value))
}

/// An answer that says nothing about caching.
fn silent(body: &str) -> Answer {
    Answer::ok(body)
}

#[test]
fn default_lifetime_is_for_silent_origins() {
    let origin = Origin::start();
    origin.on("/silent", silent("a"));
    origin.on("/said", Answer::ok("b").field("Cache-Control", "no-cache"));
    origin.on("/missing", Answer::new(404));
    origin.on("/broken", Answer::new(500));
    let shoal = shoal(&origin, "[[rule]]\nlifetime_default = '10m'\n");
    for path in ["/silent", "/said", "/broken"] {
        shoal.get(path);
    }
    shoal.get("/silent").expect_body("a").expect_hit();
    for path in ["/said", "/broken"] {
        assert!(!shoal.get(path).hit(), "{path}");
        assert_eq!(origin.count(path), 2, "{path}");
    }
    assert_eq!(shoal.get("/silent").cache().number("ttl").map(|ttl| ttl > 500), Some(true));
}

#[test]
fn lifetime_counts_from_the_arrival() {
    let origin = Origin::start();
    origin.on("/old", Answer::ok("a").field("Age", "5000").field("Cache-Control", "max-age=60"));
    let shoal = shoal(&origin, "[[rule]]\nlifetime = '10m'\n");
    shoal.get("/old");
    shoal.get("/old").expect_hit();
}

#[test]
fn most_and_least_lifetimes_bound_the_origins() {
    let origin = Origin::start();
    origin.on("/long", Answer::fresh("a", 90_000));
    origin.on("/short", Answer::fresh("b", 1));
    let rules = "[[rule]]\nlifetime_min = '1m'\nlifetime_max = '1h'\n";
    let shoal = shoal(&origin, rules);
    let ttl = |path: &str| {
        shoal.get(path);
        shoal.get(path).expect_hit().cache().number("ttl").expect("a time to live")
    };
    // A lifetime by rule is rounded up to whole seconds of age on arrival.
    let (long, short) = (ttl("/long"), ttl("/short"));
    assert!((3500..=3602).contains(&long) && (20..=62).contains(&short), "{long} {short}");
}

#[test]
fn negative_lifetime_is_by_status() {
    let origin = Origin::start();
    origin.on("/missing", Answer::new(404));
    origin.on("/gone", Answer::new(410));
    let shoal = shoal(&origin, "[[rule]]\nstatuses = ['404']\nlifetime = '10m'\n");
    shoal.get("/missing");
    assert!(shoal.get("/missing").expect_status(404).cache().number("ttl").is_some_and(|ttl| ttl > 60));
}

#[test]
fn answers_for_cookies_get_no_default_lifetime() {
    let origin = Origin::start();
    origin.on_request("/", |request| silent(&request.fields.joined("Cookie")));
    let shoal = shoal(&origin, "[[rule]]\nlifetime_default = '10m'\n");
    shoal.ask(&with("/", &[("Cookie", "session=alice")])).expect_body("session=alice");
    shoal.get("/").expect_body("");
}

#[test]
fn named_cookies_select_and_others_go() {
    let origin = Origin::start();
    origin.on_request("/", |request| silent(&request.fields.joined("Cookie")));
    let shoal = shoal(&origin, "[[rule]]\nlifetime_default = '10m'\ncookies = ['lang']\n");
    let german = [("Cookie", "_ga=1; lang=de; session=alice")];
    shoal.ask(&with("/", &german)).expect_body("lang=de");
    shoal.ask(&with("/", &[("Cookie", "lang=de; _ga=2")])).expect_body("lang=de").expect_hit();
    shoal.ask(&with("/", &[("Cookie", "lang=en")])).expect_body("lang=en").expect_forwarded("vary-miss");
    shoal.get("/").expect_body("");
    shoal.ask(&with("/", &german)).expect_hit();
}

#[test]
fn dropped_parameters_reach_no_origin() {
    let origin = Origin::start();
    origin.on_request("/p", |request| Answer::fresh(request.target.clone(), 60));
    let rules = "[[rule]]\nquery_drop = ['utm_*', 'fbclid']\nquery_sort = true\n";
    let shoal = shoal(&origin, rules);
    shoal.get("/p?b=2&utm_source=x&a=1").expect_body("/p?a=1&b=2");
    shoal.get("/p?a=1&fbclid=3&b=2").expect_body("/p?a=1&b=2").expect_hit();
    shoal.get("/p?utm_medium=x").expect_body("/p");
    shoal.get("/p").expect_hit();
    assert_eq!(origin.count("/p"), 2);
    assert!(
        shoal.access_log(1).iter().any(|line| line.contains("utm_source=x")),
        "the log has the URL as asked"
    );
}

#[test]
fn purges_follow_the_rules() {
    let origin = Origin::start();
    origin.on("/p", Answer::fresh("a", 60));
    let rules = "[[rule]]\nquery_drop = ['utm_*']\n";
    let shoal = setup(&origin, rules).set_list("admin.purge_from", &["127.0.0.0/8"]).start();
    shoal.get("/p?utm_source=x");
    shoal.get("/p").expect_hit();
    shoal.ask(&Request::new("PURGE", "/p?utm_medium=y")).expect_status(200);
    assert!(!shoal.get("/p").hit());
}

#[test]
fn paths_in_other_spellings_are_one_object() {
    let origin = Origin::start();
    origin.on("/a/b", Answer::fresh("a", 60));
    let shoal = shoal(&origin, "[[rule]]\nnormalise_path = true\n");
    shoal.get("/a/b");
    for path in ["//a/b", "/%61/b", "/a/./b", "/x/../a/b"] {
        shoal.get(path).expect_body("a").expect_hit();
    }
}

#[test]
fn hosts_are_one_object_by_alias() {
    let origin = Origin::start();
    origin.on("/", Answer::fresh("a", 60));
    let rules = "[[rule]]\nhosts = ['www.a.test', 'a.test']\nhost = 'www.a.test'\n";
    let shoal = shoal(&origin, rules);
    let get = |host: &str| shoal.connect().ask(&Request::get("/"), host);
    get("a.test");
    get("www.a.test").expect_hit();
    get("A.test").expect_hit();
    assert_eq!(origin.count("/"), 1);
}

#[test]
fn codings_are_folded() {
    let origin = Origin::start();
    origin.on_request("/", |request| {
        Answer::fresh(request.fields.joined("Accept-Encoding"), 60).field("Vary", "Accept-Encoding")
    });
    let shoal = shoal(&origin, "[[rule]]\naccept_encoding = ['br', 'gzip']\n");
    let ask = |value: &str| shoal.ask(&with("/", &[("Accept-Encoding", value)]));
    ask("gzip, deflate, br, zstd").expect_body("br");
    ask("br;q=1.0, gzip;q=0.8").expect_body("br").expect_hit();
    ask("gzip, deflate").expect_body("gzip");
    ask("gzip").expect_hit();
    ask("br;q=0").expect_body("");
}

#[test]
fn reloads_of_clients_are_ignored() {
    let origin = Origin::start();
    origin.on("/", Answer::fresh("a", 60));
    let rules = "[[rule]]\nignore_client_no_cache = true\n";
    let shoal = setup(&origin, rules).set("cache.reload_interval", "0s").start();
    shoal.get("/");
    for (name, value) in
        [("Cache-Control", "no-cache"), ("Pragma", "no-cache"), ("Cache-Control", "max-age=0")]
    {
        shoal.ask(&with("/", &[(name, value)])).expect_hit();
    }
}

#[test]
fn directives_of_origins_are_ignored() {
    let origin = Origin::start();
    origin.on("/private", Answer::ok("a").field("Cache-Control", "private, no-store"));
    origin.on("/no-cache", Answer::ok("b").field("Cache-Control", "no-cache, max-age=60"));
    let rules = "[[rule]]\npaths = ['/private']\nignore_origin = ['private', 'no-store']\nshare_private = true\n\
                 lifetime = '1m'\n[[rule]]\npaths = ['/no-cache']\nignore_origin = ['no-cache']\n";
    let shoal = shoal(&origin, rules);
    for path in ["/private", "/no-cache"] {
        shoal.get(path);
        shoal.get(path).expect_hit();
    }
}

#[test]
fn vary_is_limited() {
    let origin = Origin::start();
    origin.on_request("/", |_| Answer::fresh("a", 60).field("Vary", "User-Agent, X-Kind"));
    let shoal = shoal(&origin, "[[rule]]\nignore_vary = ['user-agent']\n");
    shoal.ask(&with("/", &[("User-Agent", "one")]));
    let answer = shoal.ask(&with("/", &[("User-Agent", "two")]));
    assert_eq!(answer.expect_hit().field("vary"), Some("X-Kind"));
    assert!(!shoal.ask(&with("/", &[("X-Kind", "b")])).hit());
}

#[test]
fn fields_are_part_of_the_key() {
    let origin = Origin::start();
    origin.on_request("/", |request| Answer::fresh(request.fields.joined("X-Device"), 60));
    let shoal = shoal(&origin, "[[rule]]\nkey_fields = ['X-Device']\n");
    let ask = |device: &str| shoal.ask(&with("/", &[("X-Device", device)]));
    ask("phone").expect_body("phone");
    ask("desk").expect_body("desk");
    ask("phone").expect_body("phone").expect_hit();
}

#[test]
fn cookies_are_stripped() {
    let origin = Origin::start();
    for path in ["/strip", "/pass"] {
        origin.on(path, Answer::fresh("a", 60).field("Set-Cookie", "s=1"));
    }
    let shoal = shoal(&origin, "[[rule]]\npaths = ['/strip']\nset_cookie = 'strip'\n");
    shoal.get("/strip");
    assert_eq!(shoal.get("/strip").expect_hit().field("set-cookie"), None);
    shoal.get("/pass");
    assert!(!shoal.get("/pass").hit());
}

#[test]
fn fields_change_both_ways() {
    let origin = Origin::start();
    origin.on_request("/f", |request| {
        let seen = format!("{}|{}", request.fields.joined("X-From"), request.fields.joined("X-Secret"));
        Answer::fresh(seen, 60).field("Server", "old").field("X-Powered-By", "y")
    });
    origin.on("/post", Answer::ok("b").field("X-Powered-By", "y"));
    let rules = "[[rule]]\nrequest_set = ['X-From: $client $scheme://$host$path']\nrequest_remove = ['X-Secret']\n\
                 response_set = ['Server: new']\nresponse_add = ['X-Path: $path']\nresponse_remove = ['X-Powered-By']\n";
    let shoal = shoal(&origin, rules);
    let ask = || shoal.connect().ask(&with("/f", &[("X-Secret", "1")]), "h.test");
    assert!(ask().text().ends_with(" http://h.test/f|"), "{}", ask().text());
    for answer in [ask(), ask(), shoal.ask(&Request::new("POST", "/post").body(b"x"))] {
        assert_eq!(answer.field("x-powered-by"), None);
        assert_eq!(answer.field("server"), Some("new"));
        assert!(answer.field("x-path").is_some());
    }
}

#[test]
fn store_false_keeps_a_response_out() {
    let origin = Origin::start();
    origin.on("/admin/x", Answer::fresh("a", 60));
    let shoal = shoal(&origin, "[[rule]]\npaths = ['/admin/*']\nstore = false\n");
    shoal.get("/admin/x");
    assert_eq!(shoal.get("/admin/x").cache().word("detail").as_deref(), Some("rule"));
    shoal.get("/%61dmin/x");
    assert_eq!(origin.total(), 3);
}

#[test]
fn requests_are_denied_and_redirected() {
    let origin = Origin::start();
    origin.on("/", Answer::fresh("a", 60));
    let rules = "[[rule]]\npaths = ['/wp-admin/*']\ndeny = 404\n[[rule]]\npaths = ['/old/*']\n\
                 redirect = 'https://$host/new$path'\nredirect_status = 301\n[[rule]]\npaths = ['/office']\n\
                 allow_clients = ['192.0.2.0/24']\n";
    let shoal = shoal(&origin, rules);
    for path in ["/wp-admin/x", "//wp-admin/x", "/%77p-admin/x", "/x/../wp-admin/x"] {
        shoal.get(path).expect_status(404);
    }
    shoal.get("/office").expect_status(403);
    let moved = shoal.connect().ask(&Request::get("/old/a?b"), "h.test");
    assert_eq!(moved.expect_status(301).field("location"), Some("https://h.test/new/old/a"));
    shoal.get("/").expect_status(200);
    assert_eq!(origin.total(), 1);
}

#[test]
fn site_rules_hold_for_each_spelling() {
    let origin = Origin::start();
    origin.on("/private/a", Answer::fresh("secret", 60));
    origin.on("/", Answer::fresh("a", 60));
    let site = format!(
        "hosts = ['*']\npath_prefix = '/private'\nupstreams = [{{ url = 'http://{}' }}]\n\
         rule = [{{ allow_clients = ['192.0.2.0/24'] }}]",
        origin.address()
    );
    let shoal = Setup::to(&origin).site(&site).start();
    shoal.get("/").expect_body("a");
    for path in ["/private/a", "/x/../private/a", "//private/a", "/%70rivate/a", "/./private/a?b"] {
        shoal.get(path).expect_status(403);
    }
    assert_eq!(origin.total(), 1);
}

#[test]
fn tunnels_are_refused_by_rules() {
    let origin = Origin::start();
    let address = origin.address();
    let rules = |condition: &str| format!("[[rule]]\n{condition}\ndeny = 403\n");
    let host = format!("hosts = ['{}']", address.ip());
    for (condition, status) in [
        (host.as_str(), 403),
        ("methods = ['CONNECT']", 403),
        ("paths = ['/*']", 403),
        ("paths = ['/admin/*']", 200),
        ("hosts = ['elsewhere.test']", 200),
    ] {
        let setup = setup(&origin, &rules(condition));
        let shoal = setup.set("forward.connect_ports", vec![i64::from(address.port())]).start();
        let mut tunnel = shoal.connect_forward();
        let answer = tunnel.ask(&Request::new("CONNECT", &address.to_string()), &address.to_string());
        assert_eq!(answer.status, status, "{condition}");
    }
    let rules = "[[rule]]\nallow_clients = ['192.0.2.0/24']\n";
    let setup = setup(&origin, rules).set("forward.connect_ports", vec![i64::from(address.port())]);
    let shoal = setup.start();
    shoal.ask_forward(&Request::new("CONNECT", &address.to_string())).expect_status(403);
}

#[test]
fn upstreams_are_asked_below_another_path() {
    let origin = Origin::start();
    origin.on("/registry/left-pad", Answer::fresh("a", 60));
    let rules = "[[rule]]\npaths = ['/npm/*']\nupstream_strip = '/npm'\nupstream_add = '/registry'\n";
    let shoal = shoal(&origin, rules);
    shoal.get("/npm/left-pad").expect_body("a");
    shoal.get("/npm/left-pad").expect_hit();
}

#[test]
fn stale_windows_are_given() {
    let origin = Origin::start();
    let paths = [("/a", "max-age=1, must-revalidate"), ("/b", "s-maxage=1")];
    for (path, said) in paths {
        origin.on_each(path, [Answer::ok("a").field("Cache-Control", said), Answer::new(500)]);
    }
    let rules = "[[rule]]\nignore_origin = ['must-revalidate']\nstale_if_error = '1h'\n";
    let shoal = shoal(&origin, rules);
    for (path, _) in paths {
        shoal.get(path).expect_body("a");
    }
    std::thread::sleep(std::time::Duration::from_millis(2100));
    for (path, _) in paths {
        shoal.get(path).expect_status(200).expect_body("a");
        assert_eq!(origin.count(path), 2, "{path}");
    }
}

#[test]
fn later_rules_win() {
    let origin = Origin::start();
    origin.on("/a/b", silent("a"));
    origin.on("/a/c", silent("a"));
    let rules =
        "[[rule]]\npaths = ['/a/*']\nlifetime_default = '10m'\n[[rule]]\npaths = ['/a/c']\nstore = false\n";
    let shoal = shoal(&origin, rules);
    for path in ["/a/b", "/a/c"] {
        shoal.get(path);
    }
    shoal.get("/a/b").expect_hit();
    assert!(!shoal.get("/a/c").hit());
}

#[test]
fn a_validated_response_keeps_its_rules() {
    let origin = Origin::start();
    origin.on_request("/", |request| {
        let answer = match request.fields.joined("If-None-Match").is_empty() {
            true => Answer::ok("a"),
            false => Answer::new(304),
        };
        answer.field("ETag", "\"1\"").field("Cache-Control", "no-cache").field("X-Powered-By", "y")
    });
    let rules = "[[rule]]\nstatuses = ['200']\nresponse_remove = ['X-Powered-By']\n";
    let shoal = shoal(&origin, rules);
    for _ in 0..3 {
        assert_eq!(shoal.get("/").expect_status(200).expect_body("a").field("x-powered-by"), None);
    }
}

#[test]
fn kept_parameters_are_all_that_count() {
    let origin = Origin::start();
    origin.on_request("/p", |request| Answer::fresh(request.target.clone(), 60));
    let shoal = shoal(&origin, "[[rule]]\nquery_keep = ['page']\n");
    shoal.get("/p?x=1&page=2").expect_body("/p?page=2");
    shoal.get("/p?page=2&y=3").expect_body("/p?page=2").expect_hit();
    shoal.get("/p?page=3").expect_body("/p?page=3");
}

#[test]
fn languages_are_folded() {
    let origin = Origin::start();
    origin.on_request("/", |request| Answer::fresh(request.fields.joined("Accept-Language"), 60));
    let shoal = shoal(&origin, "[[rule]]\naccept_language = ['de', 'en']\n");
    let ask = |value: &str| shoal.ask(&with("/", &[("Accept-Language", value)]));
    ask("fr, de-AT;q=0.7, en;q=0.3").expect_body("de");
    ask("de").expect_body("de").expect_hit();
    ask("en-GB").expect_body("en");
    ask("fr").expect_body("");
}

#[test]
fn no_cookies_make_one_object() {
    let origin = Origin::start();
    origin.on_request("/", |request| silent(&request.fields.joined("Cookie")));
    let shoal = shoal(&origin, "[[rule]]\nlifetime_default = '10m'\ncookies = []\n");
    shoal.ask(&with("/", &[("Cookie", "session=alice")])).expect_body("");
    shoal.ask(&with("/", &[("Cookie", "session=bob")])).expect_body("").expect_hit();
}

#[test]
fn stale_answers_come_at_once() {
    let origin = Origin::start();
    origin.on_each("/", [Answer::fresh("a", 1), Answer::fresh("b", 60)]);
    let shoal = shoal(&origin, "[[rule]]\nstale_while_revalidate = '1h'\n");
    shoal.get("/").expect_body("a");
    std::thread::sleep(std::time::Duration::from_millis(2100));
    shoal.get("/").expect_body("a").expect_hit();
    origin.wait_for("/", 2);
}

#[test]
fn key_fields_outlast_validations() {
    let origin = Origin::start();
    origin.on_request("/", |request| {
        let etag = format!("\"{}\"", request.fields.joined("X-Device"));
        match request.fields.joined("If-None-Match") == etag {
            true => Answer::new(304).field("ETag", &etag),
            false => Answer::ok(request.fields.joined("X-Device"))
                .field("ETag", &etag)
                .field("Vary", "X-Kind")
                .field("Cache-Control", "no-cache"),
        }
    });
    let shoal = shoal(&origin, "[[rule]]\nkey_fields = ['X-Device']\n");
    let ask = |device: &str| shoal.ask(&with("/", &[("X-Device", device), ("X-Kind", "k")]));
    for round in 0..3 {
        for device in ["phone", "desk"] {
            let answer = ask(device);
            answer.expect_body(device);
            assert_eq!(answer.field("vary"), Some("X-Kind, x-device"), "round {round}");
        }
    }
    let asked = origin.received();
    let unconditional = asked.iter().filter(|request| request.fields.joined("If-None-Match").is_empty());
    assert_eq!(unconditional.count(), 2, "the others were validations");
}

#[test]
fn rules_name_the_client_to_the_origin() {
    let origin = Origin::start();
    origin.on_request("/", |request| silent(&request.fields.joined("X-Real-IP")));
    let shoal = shoal(&origin, "[[rule]]\nrequest_set = ['X-Real-IP: $client']\n");
    let answer = shoal.ask(&with("/", &[("X-Real-IP", "192.0.2.66"), ("X_Real_IP", "192.0.2.66")]));
    assert!(answer.text().starts_with("127."), "{}", answer.text());
    assert!(!origin.last("/").head.contains("192.0.2.66"), "nothing of the client's own word");
}

#[test]
fn redirect_to_itself_is_left_out() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("a", 60));
    let shoal = shoal(&origin, "[[rule]]\nredirect = 'http://$host$path'\n");
    shoal.get("/a").expect_status(200);
    let elsewhere = shoal.get("/a?b");
    assert!(elsewhere.expect_status(302).field("location").is_some_and(|to| to.ends_with("/a")));
}

#[test]
fn upstream_prefix_is_not_left_by_dots() {
    let origin = Origin::start();
    origin.on_request("/registry/x", |request| silent(&request.target));
    let rules = "[[rule]]\npaths = ['/npm/*']\nupstream_strip = '/npm'\nupstream_add = '/registry'\n";
    let shoal = shoal(&origin, rules);
    for path in ["/npm/../npm/../npm/x", "/%6epm/x", "//npm//x", "/npm/./x"] {
        shoal.get(path).expect_body("/registry/x");
    }
}

#[test]
fn mistakes_stop_the_start() {
    let origin = Origin::start();
    let setup = setup(&origin, "[[rule]]\nignore_origin = ['private']\n");
    let file = setup.file("shoal.toml", &setup.text());
    let output = Command::new(binary()).arg("check").arg(file).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("rule[0].ignore_origin") && said.contains("share_private"), "{said}");
}
