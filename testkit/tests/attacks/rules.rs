//! Ways past operators' rules, and answers that a client chooses for others through them.

use shoal_testkit::h2::H2Connection;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};

/// A node whose site `*` is the origin, with these rules in TOML.
fn with_rules(origin: &Origin, rules: &str) -> Shoal {
    let site = format!("hosts = ['*']\nupstreams = [{{ url = '{}' }}]\n{rules}", origin.url());
    Setup::bare().listen("reverse", "mode = 'reverse'").site(&site).start()
}

fn origin() -> Origin {
    let origin = Origin::start();
    origin.on_request("/*", |request| Answer::fresh(format!("{:?}", request.fields), 600));
    origin
}

#[test]
fn escapes_in_a_query_hide_no_parameter() {
    let origin = origin();
    let shoal = with_rules(&origin, "[[rule]]\nquery = ['do=delete']\ndeny = 403\n");
    for query in ["do=delete", "%64o=delete", "do=%64elete", "a=1&d%6F=delet%65&b"] {
        for method in ["GET", "HEAD", "POST"] {
            let request = Request::new(method, &format!("/a?{query}"));
            shoal.ask(&request).expect_status(403);
            H2Connection::open(shoal.address("reverse")).ask(&request, "site.test").expect_status(403);
        }
    }
    shoal.get("/a?do=%2564elete").expect_status(200);
}

#[test]
fn addresses_in_any_spelling_are_one_host() {
    let origin = origin();
    let ip = origin.address().ip().to_string();
    let number = match origin.address().ip() {
        std::net::IpAddr::V4(address) => u32::from(address),
        std::net::IpAddr::V6(_) => unreachable!("origins of tests have addresses of IPv4"),
    };
    let [a, b, c, d] = number.to_be_bytes();
    let rule: toml::Table = format!("hosts = ['{ip}']\ndeny = 403\n").parse().expect("a rule");
    let shoal = Setup::bare().set("rule", vec![toml::Value::Table(rule)]).start();
    let port = origin.address().port();
    for host in [
        ip.clone(),
        format!("{ip}."),
        format!("{a}.{}", number & 0xff_ffff),
        format!("{number}"),
        format!("{number:#x}"),
        format!("0{a:o}.{b}.{c}.{d}"),
        format!("[::ffff:{ip}]"),
        format!("[0:0::ffff:{:x}:{:x}]", number >> 16, number & 0xffff),
    ] {
        let authority = format!("{host}:{port}");
        let request = Request::get(&format!("http://{authority}/a"));
        let answer = shoal.connect_forward().ask(&request, &authority);
        assert_eq!(answer.status, 403, "{host}");
    }
    assert_eq!(origin.total(), 0);
}

/// The answer to TRACE is the request as the origin got it, with all that this node added.
#[test]
fn trace_shows_no_credentials() {
    let origin = origin();
    let shoal = with_rules(&origin, "[[rule]]\nrequest_set = ['X-Api-Key: s3cret']\n");
    let trace = Request::new("TRACE", "/a");
    shoal.ask(&trace).expect_status(405);
    H2Connection::open(shoal.address("reverse")).ask(&trace, "site.test").expect_status(405);
    assert_eq!(origin.total(), 0);
}

/// The origin may make its page of any field. No field has what the key does not have.
#[test]
fn dropped_parameters_reach_no_field() {
    let origin = origin();
    let rule = "[[rule]]\nquery_drop = ['utm_*']\nhost = 'site.test'\n\
                request_set = ['X-Url: $url', 'X-Query: $query', 'X-Host: $host']\n";
    let shoal = with_rules(&origin, rule);
    let poison = Request::get("/a?utm_x=evil&b=1");
    shoal.connect().ask(&poison, "other.test").expect_status(200);
    let fields = origin.last("/a").fields;
    assert_eq!(fields.first("x-url"), Some("http://site.test/a?b=1"));
    assert_eq!((fields.first("x-query"), fields.first("x-host")), (Some("b=1"), Some("site.test")));
    shoal.get("/a?b=1").expect_hit();
}

/// CGI, WSGI and Rack read `X_User` as `X-User`.
#[test]
fn fields_of_rules_have_no_double() {
    let origin = origin();
    let rule = "[[rule]]\nrequest_set = ['X-User: $client_certificate']\nrequest_remove = ['X-Debug']\n";
    let shoal = with_rules(&origin, rule);
    let mut request = Request::get("/a");
    for name in ["X-User", "X_User", "X.User", "x_user", "X_Debug", "X-Debug", "X-Users"] {
        request = request.field(name, "forged");
    }
    shoal.ask(&request).expect_status(200);
    let received = origin.last("/a").fields;
    let forged = received.0.iter().filter(|(_, value)| value == "forged");
    assert_eq!(forged.map(|(name, _)| name.to_ascii_lowercase()).collect::<Vec<_>>(), ["x-users"]);
}

/// Tomcat drops parameters of segments before it resolves dots; others decode twice.
#[test]
fn no_disguise_leads_out_of_an_upstreams_path() {
    let origin = origin();
    let site = format!("hosts = ['*']\nupstreams = [{{ url = '{}/base' }}]\n", origin.url());
    let shoal = Setup::bare().listen("reverse", "mode = 'reverse'").site(&site).start();
    for path in ["/..;/x", "/..;a=b/x", "/%2e%2e;/x", "/a/..;/..;/x", "/..%3b/x", "/..%00/x", "/%252e%252e/x"]
    {
        shoal.get(path).expect_status(400);
        let answer = H2Connection::open(shoal.address("reverse")).ask(&Request::get(path), "site.test");
        assert_eq!(answer.status, 400, "HTTP/2: {path}");
    }
    assert_eq!(origin.total(), 0);
    for path in ["/a;b/c", "/a/..;/x", "/100%25", "/a%20..%20b"] {
        shoal.get(path).expect_status(200);
    }
}

/// Browsers drop tabs, so that `/<tab>/evil.test` names a host.
#[test]
fn rewritten_locations_name_no_other_host() {
    let origin = Origin::start();
    let places = ["/base/\t/evil.test/", "/base/\\evil.test", "/base//evil.test", "\t/base/\t/evil.test"];
    for (number, place) in places.iter().enumerate() {
        origin.on(&format!("/base/{number}"), Answer::new(302).field("Location", place));
    }
    let site = format!("hosts = ['*']\nupstreams = [{{ url = '{}/base' }}]\n", origin.url());
    let shoal = Setup::bare().listen("reverse", "mode = 'reverse'").site(&site).start();
    for number in 0..places.len() {
        let answer = shoal.get(&format!("/{number}"));
        let read: String = answer.field("location").unwrap_or_default().replace(['\t', ' '], "");
        assert!(!read.starts_with("//") && !read.starts_with("/\\"), "{number}: {read}");
    }
}

/// Setting `private` or `no-store` aside takes leave (`share_private`), however a rule does it.
#[test]
fn edited_fields_make_no_private_page_public() {
    let origin = Origin::start();
    for said in ["private, max-age=60", "no-store", "private=\"x-user\", max-age=60"] {
        let place = format!("/{}", said.len());
        origin.on(&format!("{place}/*"), Answer::ok("mine").field("Cache-Control", said));
    }
    for (number, edit) in [
        "response_set = ['Cache-Control: public, max-age=600']",
        "response_set = ['CDN-Cache-Control: max-age=600']",
        "response_remove = ['Cache-Control']\nlifetime_default = '10m'",
    ]
    .iter()
    .enumerate()
    {
        let shoal = with_rules(&origin, &format!("[[rule]]\n{edit}\n"));
        for place in [8, 19, 28] {
            let path = format!("/{place}/{number}");
            shoal.get(&path).expect_body("mine");
            assert!(!shoal.get(&path).hit(), "{edit}: {path}");
        }
        let leave = with_rules(&origin, &format!("[[rule]]\n{edit}\nshare_private = true\n"));
        leave.get("/8/leave").expect_body("mine");
        leave.get("/8/leave").expect_hit();
    }
}

/// Decoded digits behind a percent sign must not become an escape that the origin decodes.
#[test]
fn escapes_within_escapes_hide_no_path() {
    let origin = origin();
    let rules = "[[rule]]\nnormalise_path = true\n[[rule]]\npaths = ['/admin*']\ndeny = 403\n";
    let shoal = with_rules(&origin, rules);
    for path in ["/%61dmin", "/%%361dmin", "/%6%31dmin", "/%%36%31dmin"] {
        let answer = shoal.get(path);
        let target = origin.received().pop().map(|request| request.target).unwrap_or_default();
        assert!(answer.status == 403 || !target.contains("%61"), "{path} is {target} at the origin");
    }
}
