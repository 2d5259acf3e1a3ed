//! Upstreams below a path, under other names and with credentials: the requests that they get, and
//! the URLs in their responses.

use shoal_testkit::certificates::Authority;
use shoal_testkit::shoal::binary;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request, Response, Setup, Shoal};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A proxy for `*` with this `[[site]]`, and a forward proxy.
fn setup(site: &str) -> Setup {
    Setup::bare().listen("reverse", "mode = 'reverse'").site(&format!("hosts = ['*']\n{site}"))
}

/// A site with one upstream at this path of the origin.
fn below(origin: &Origin, path: &str, more: &str) -> Setup {
    setup(&format!("{more}\nupstreams = [{{ url = '{}{path}' }}]\n", origin.url()))
}

fn ask(shoal: &Shoal, path: &str, host: &str) -> Response {
    shoal.connect().ask(&Request::get(path), host)
}

fn echo(origin: &Origin) {
    origin.on_request("/*", |request| Answer::fresh(format!("{} {}", request.method, request.target), 60));
}

/// A file of credentials that only its owner reads.
fn secret(setup: &Setup, name: &str, text: &str) -> PathBuf {
    let path = setup.file(name, text);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("the file is ours");
    path
}

fn check(setup: &Setup) -> (Option<i32>, String) {
    let file = setup.file("checked.toml", &setup.text());
    let output = Command::new(binary()).arg("check").arg(file).output().expect("the binary runs");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn client_paths_go_below_the_upstreams() {
    let origin = Origin::start();
    echo(&origin);
    let shoal = below(&origin, "/simple/", "").start();
    shoal.get("/pip/?x=/../y").expect_body("GET /simple/pip/?x=/../y");
    shoal.get("/pip/?x=/../y").expect_hit();
    shoal.get("/").expect_body("GET /simple/");
    shoal.ask(&Request::new("POST", "/legacy").body(b"x")).expect_body("POST /simple/legacy");
    shoal.ask(&Request::new("HEAD", "/head")).expect_status(200);
    assert_eq!(origin.last("/simple/head").method, "HEAD");
}

#[test]
fn command_line_takes_a_url_with_a_path() {
    let origin = Origin::start();
    origin.on("/simple/pip", Answer::new(301).field("Location", "/simple/pip/"));
    let setup = Setup::bare().listen("reverse", "mode = 'reverse'");
    let address = setup.address("reverse");
    let url = format!("{}/simple", origin.url());
    let mut run = Command::new(binary());
    run.args(["run", "--to", &url, "--listen", &address.to_string(), "--store", "none"]);
    let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs");
    wait::until("it listens", || TcpStream::connect(address).is_ok());
    let answer = Connection::open(address).ask(&Request::get("/pip"), "127.0.0.1");
    let ended = child.kill().and_then(|()| child.wait());
    assert_eq!(answer.expect_status(301).field("location"), Some("/pip/"));
    assert_eq!(origin.last("/simple/pip").fields.first("host"), Some(&*origin.address().to_string()));
    assert!(ended.is_ok());
}

#[test]
fn dot_segments_do_not_leave_the_path() {
    let origin = Origin::start();
    echo(&origin);
    let shoal = below(&origin, "/simple", "").start();
    for path in ["/../x", "/%2e%2e/x", "/a/../../x", "/./x", "/a/..//../x"] {
        shoal.get(path).expect_body("GET /simple/x");
    }
    for path in ["/..%2fx", "/a/..%2f..%2fx", "/..%5Cx"] {
        shoal.get(path).expect_status(400);
    }
    shoal.get("/@scope%2fname").expect_body("GET /simple/@scope%2Fname");
    assert!(origin.received().iter().all(|request| request.target.starts_with("/simple/")));
}

#[test]
fn rules_and_upstream_add_up() {
    let origin = Origin::start();
    echo(&origin);
    let site = "path_prefix = '/npm'\n[[rule]]\nupstream_strip = '/npm'\n";
    let site = format!("upstreams = [{{ url = '{}/registry' }}]\n{site}", origin.url());
    let shoal = setup(&site).start();
    shoal.get("/npm/left-pad").expect_body("GET /registry/left-pad");
    shoal.get("/npm/..%2fx").expect_status(400);
    let shoal = below(&origin, "/registry", "path_prefix = '/npm'").start();
    shoal.get("/npm/left-pad").expect_body("GET /registry/npm/left-pad");
}

#[test]
fn upstreams_of_a_site_differ_in_path() {
    let (one, other) = (Origin::start(), Origin::start());
    one.on_request("/*", |request| Answer::ok(request.target.clone()));
    other.on_request("/*", |request| Answer::ok(request.target.clone()));
    let site = format!(
        "upstreams = [{{ url = '{}/a' }}, {{ url = '{}/b/c' }}]\n\
         [[rule]]\nstore = false\n",
        one.url(),
        other.url()
    );
    let shoal = setup(&site).start();
    let mut seen = [shoal.get("/x").text(), shoal.get("/x").text()];
    seen.sort();
    assert_eq!(seen, ["/a/x", "/b/c/x"]);
}

#[test]
fn path_stays_below_when_an_upstream_fails_over() {
    let origin = Origin::start();
    echo(&origin);
    let site =
        format!("upstreams = [{{ url = 'http://127.0.0.1:1/dead' }}, {{ url = '{}/live' }}]\n", origin.url());
    let shoal = setup(&site).start();
    for number in 0..4 {
        shoal.get(&format!("/{number}")).expect_body(format!("GET /live/{number}"));
    }
}

#[test]
fn locations_of_the_upstream_become_the_sites() {
    let origin = Origin::start();
    let url = origin.url();
    for (path, to) in [
        ("/simple/absolute", format!("{url}/simple/b?c#d")),
        ("/simple/path", "/simple/b".into()),
        ("/simple/other", format!("{url}/files/b")),
        ("/simple/elsewhere", "http://elsewhere.test/simple/b".into()),
        ("/simple/slashes", "/simple//evil.test/".into()),
        ("/simple/relative", "b/".into()),
    ] {
        origin.on(path, Answer::new(301).field("Location", &to).field("Cache-Control", "max-age=60"));
    }
    let shoal = below(&origin, "/simple", "preserve_host = false").start();
    for round in 0..2 {
        for (path, to) in [
            ("/absolute", "http://site.test/b?c#d"),
            ("/path", "/b"),
            ("/other", &format!("{url}/files/b")),
            ("/elsewhere", "http://elsewhere.test/simple/b"),
            ("/slashes", "http://site.test//evil.test/"),
            ("/relative", "b/"),
        ] {
            let answer = ask(&shoal, path, "site.test");
            assert_eq!((answer.field("location"), answer.hit()), (Some(to), round == 1), "{path}");
        }
    }
    assert_eq!(origin.last("/simple/path").fields.first("host"), Some(&*origin.address().to_string()));
}

#[test]
fn each_host_has_its_own_rewritten_response() {
    let origin = Origin::start();
    let to = format!("{}/b", origin.url());
    origin.on("/a", Answer::new(302).field("Location", &to).field("Cache-Control", "max-age=60"));
    let shoal = below(&origin, "", "preserve_host = false").start();
    for host in ["one.test", "evil.test"] {
        for _ in 0..2 {
            let answer = ask(&shoal, "/a", host);
            assert_eq!(answer.field("location"), Some(&*format!("http://{host}/b")));
        }
    }
    assert_eq!(origin.count("/a"), 2);
    // X-Forwarded-Host of a client names nobody.
    let request =
        Request::get("/a").field("X-Forwarded-Host", "evil.test").field("Forwarded", "host=evil.test");
    let answer = shoal.connect().ask(&request, "one.test");
    assert_eq!(answer.expect_hit().field("location"), Some("http://one.test/b"));
}

#[test]
fn variants_and_validations_are_rewritten() {
    let origin = Origin::start();
    let url = origin.url();
    origin.on_request("/v1/a", move |request| {
        let kind = request.fields.joined("X-Kind");
        let etag = format!("\"{kind}\"");
        let answer = match request.fields.joined("If-None-Match") == etag {
            true => Answer::new(304),
            false => Answer::ok(kind.clone()),
        };
        let answer = answer.field("Content-Location", &format!("{url}/v1/a.{kind}"));
        let answer = answer.field("Vary", "X-Kind").field("ETag", &etag).field("Cache-Control", "no-cache");
        answer.field("Refresh", "9; url=/v1/next")
    });
    let shoal = below(&origin, "/v1", "").start();
    for round in 0..3 {
        for kind in ["x", "y"] {
            let answer = shoal.connect().ask(&Request::get("/a").field("X-Kind", kind), "site.test");
            assert_eq!(
                answer.expect_body(kind).field("content-location"),
                Some(&*format!("http://site.test/a.{kind}"))
            );
            assert_eq!(answer.field("refresh"), Some("9; url=/next"), "round {round}");
        }
    }
    let asked = origin.received();
    let whole = asked.iter().filter(|request| request.fields.first("if-none-match").is_none());
    assert_eq!((asked.len(), whole.count()), (6, 2), "the others were validations");
}

#[test]
fn rewriting_can_be_switched() {
    let origin = Origin::start();
    let to = format!("{}/b", origin.url());
    origin.on("/a", Answer::new(302).field("Location", &to));
    for (more, rewrites) in [
        ("", false),
        ("rewrite_location = true", true),
        ("preserve_host = false", true),
        ("preserve_host = false\nrewrite_location = false", false),
    ] {
        let shoal = below(&origin, "", more).start();
        let answer = ask(&shoal, "/a", "site.test");
        let expected = if rewrites { "http://site.test/b" } else { &to };
        assert_eq!(answer.expect_status(302).field("location"), Some(expected), "{more}");
    }
}

#[test]
fn mapping_by_rules_is_undone_in_locations() {
    let origin = Origin::start();
    let moved = |to: &str| Answer::new(301).field("Location", to).field("Cache-Control", "max-age=60");
    origin.on("/registry/a", moved("/registry/b/"));
    origin.on("/registry/c", moved("/login"));
    let site = format!(
        "upstreams = [{{ url = '{}' }}]\n[[rule]]\npaths = ['/npm/*']\nupstream_strip = '/npm'\n\
         upstream_add = '/registry'\n",
        origin.url()
    );
    let shoal = setup(&site).start();
    for _ in 0..2 {
        assert_eq!(ask(&shoal, "/npm/a", "site.test").field("location"), Some("/npm/b/"));
        assert_eq!(ask(&shoal, "/npm/c", "site.test").field("location"), Some("/login"));
    }
    assert_eq!(origin.total(), 2);
}

#[test]
fn upstreams_over_http_2_are_below_a_path_too() {
    let origin = Origin::start_h2c();
    let setup = Setup::bare().listen("reverse", "mode = 'reverse'");
    origin.on_request("/*", |request| {
        let said = format!("{} {}", request.target, request.fields.joined("authorization"));
        Answer::fresh(said, 60).field("location", "http://up.test/v1/next")
    });
    let file = secret(&setup, "key", "Bearer abc");
    let site = format!(
        "hosts = ['*']\nupstreams = [{{ url = '{}/v1', h2c = true, host = 'up.test', credentials = '{}' }}]\n",
        origin.url(),
        file.display()
    );
    let shoal = setup.site(&site).start();
    let answer = ask(&shoal, "/../a", "site.test");
    assert_eq!(answer.expect_body("/v1/a Bearer abc").field("location"), Some("http://site.test/next"));
    assert_eq!(origin.last("/v1/a").fields.first(":authority"), Some("up.test"));
}

#[test]
fn unsafe_requests_invalidate_the_rewritten_url() {
    let origin = Origin::start();
    origin.on("/v1/list", Answer::fresh("old", 60));
    origin.on("/v1/add", Answer::new(303).field("Location", "/v1/list"));
    let shoal = below(&origin, "/v1", "").start();
    shoal.get("/list");
    shoal.get("/list").expect_hit();
    let added = shoal.ask(&Request::new("POST", "/add").body(b"x"));
    assert_eq!(added.expect_status(303).field("location"), Some("/list"));
    assert!(!shoal.get("/list").hit());
}

#[test]
fn host_and_tls_name_are_the_upstreams_own() {
    let authority = Authority::new();
    let origin = Origin::start_tls(&authority.issue(&["packages.test"]));
    origin.on_request("/*", |request| {
        let host = request.fields.first("host").or(request.fields.first(":authority")).unwrap_or("none");
        Answer::fresh(host, 60).field("Location", "https://packages.test:8443/simple/b")
    });
    let upstream = |more: &str| {
        let upstreams = format!("upstreams = [{{ url = '{}/simple'{more} }}]\n", origin.url());
        let setup = setup(&upstreams);
        let file = setup.file("ca.pem", &authority.pem()).to_string_lossy().into_owned();
        setup.set("upstream.ca_file", file).start()
    };
    let named = upstream(", server_name = 'packages.test', host = 'packages.test:8443'");
    let answer = named.get("/a");
    assert_eq!(
        answer.expect_body("packages.test:8443").field("location").map(|to| to.ends_with("/b")),
        Some(true)
    );
    assert!(!answer.field("location").is_some_and(|to| to.contains("packages")), "{answer:?}");
    let unnamed = upstream("");
    assert_eq!(
        unnamed.get("/a").expect_status(502).proxy().word("error").as_deref(),
        Some("tls_certificate_error")
    );
}

#[test]
fn credentials_take_the_place_of_the_clients() {
    let origin = Origin::start();
    origin.on_request("/*", |request| Answer::fresh(request.fields.joined("Authorization"), 60));
    let setup = Setup::bare().listen("reverse", "mode = 'reverse'");
    let file = secret(&setup, "key", "ann:s3cret\n");
    let site = format!(
        "hosts = ['*']\nupstreams = [{{ url = '{}', credentials = '{}' }}]\n",
        origin.url(),
        file.display()
    );
    let shoal = setup.site(&site).start();
    shoal
        .ask(&Request::get("/a").field("Authorization", "Bearer client"))
        .expect_body("Basic YW5uOnMzY3JldA==");
    shoal.get("/a").expect_hit();
    shoal.ask(&Request::get("/a").field("Authorization", "Bearer other")).expect_hit();
    let posted = shoal.ask(&Request::new("POST", "/b").field("Authorization", "Bearer client").body(b"x"));
    posted.expect_body("Basic YW5uOnMzY3JldA==");
    secret_is_nowhere(&shoal);
    std::fs::write(&file, "Bearer n3wer\n").expect("the file is ours");
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    shoal.get("/c").expect_body("Bearer n3wer");
    secret_is_nowhere(&shoal);
    std::fs::write(&file, "one line\nand another\n").expect("the file is ours");
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(422);
    shoal.get("/d").expect_body("Bearer n3wer");
}

fn secret_is_nowhere(shoal: &Shoal) {
    let mut texts = vec![shoal.log(), shoal.status().to_string()];
    texts.extend(shoal.access_log(1));
    texts.push(shoal.ask_admin(&Request::get("/metrics")).text());
    for text in texts {
        assert!(!["s3cret", "YW5u", "n3wer"].iter().any(|secret| text.contains(secret)), "{text}");
    }
}

#[test]
fn credentials_reach_their_upstream_alone() {
    let (own, other) = (Origin::start(), Origin::start());
    for origin in [&own, &other] {
        origin.on_request("/*", |request| {
            let answer = Answer::ok(request.fields.joined("Authorization"));
            answer.field("Cache-Control", "no-store")
        });
    }
    let setup = Setup::bare().listen("reverse", "mode = 'reverse'");
    let file = secret(&setup, "key", "Bearer abc");
    let site = format!(
        "hosts = ['*']\nupstreams = [{{ url = '{}', credentials = '{}' }}, {{ url = '{}' }}]\n",
        own.url(),
        file.display(),
        other.url()
    );
    let shoal = setup.site(&site).start();
    let get = || shoal.ask(&Request::get("/").field("Authorization", "Bearer client")).text();
    let mut seen = [get(), get()];
    seen.sort();
    assert_eq!(seen, ["", "Bearer abc"]);
    // A redirect is the client's to follow: the other origin hears nothing of this node.
    own.on("/", Answer::new(302).field("Location", &format!("{}/x", other.url())));
    for _ in 0..2 {
        shoal.get("/");
    }
    assert_eq!(other.count("/x"), 0);
}

#[test]
fn health_checks_ask_for_the_whole_path() {
    let origin = Origin::start();
    origin.on("/health", Answer::ok("fine"));
    let setup = Setup::bare().listen("reverse", "mode = 'reverse'");
    let file = secret(&setup, "key", "Bearer abc");
    let site = format!(
        "hosts = ['*']\nhealth = {{ path = '/health', interval = '100ms' }}\n\
         upstreams = [{{ url = '{}/app', host = 'up.test', credentials = '{}' }}]\n",
        origin.url(),
        file.display()
    );
    let shoal = setup.site(&site).start();
    origin.wait_for("/health", 1);
    let checked = origin.last("/health");
    assert_eq!(checked.fields.first("host"), Some("up.test"));
    assert_eq!(checked.fields.first("authorization"), Some("Bearer abc"));
    let url = format!("{}/app", origin.url());
    wait::until("the status names the whole URL", || shoal.status()["upstreams"][0]["url"] == url);
}

#[test]
fn mistakes_are_named_with_their_setting() {
    let setup = Setup::bare().listen("reverse", "mode = 'reverse'");
    let (empty, good) = (secret(&setup, "empty", "\n"), setup.file("good", "a:b\n"));
    std::fs::set_permissions(&good, std::fs::Permissions::from_mode(0o644)).expect("the file is ours");
    for (upstream, said) in [
        ("url = 'http://a/x?y'".to_owned(), "upstreams[0].url: "),
        ("url = 'http://a/../x'".into(), "upstreams[0].url: "),
        ("url = 'http://a', server_name = 'b'".into(), "upstreams[0].server_name: "),
        ("url = 'http://a', host = 'b/c'".into(), "upstreams[0].host: "),
        ("url = 'http://a', credentials = '/missing/file'".into(), "upstreams[0].credentials: "),
        (format!("url = 'http://a', credentials = '{}'", empty.display()), "expected user:password"),
    ] {
        let body = format!("hosts = ['*']\nupstreams = [{{ {upstream} }}]\n");
        let other = Setup::bare().listen("reverse", "mode = 'reverse'").site(&body);
        let (code, text) = check(&other);
        assert_eq!(code, Some(2), "{upstream}: {text}");
        assert!(text.contains(said) && text.contains("checked.toml:"), "{upstream}: {text}");
    }
    let site =
        format!("hosts = ['*']\nupstreams = [{{ url = 'http://a', credentials = '{}' }}]\n", good.display());
    let (code, text) = check(&setup.site(&site));
    assert!(code == Some(0) && text.contains("every user of this machine may read"), "{text}");
    assert!(text.contains("clients share the responses"), "{text}");
}
