//! Attacks over HTTP/1, from clients and from origins, that were published against other proxies:
//! `docs/ATTACKS.md` names them.

use shoal_testkit::{Answer, Connection, Origin, Request, Setup};

fn naming_origin() -> Origin {
    let origin = Origin::start();
    origin.on_request("/*", |request| Answer::fresh(format!("{} {}", request.method, request.target), 60));
    origin
}

/// Names as long as a length of eight bits, and of nine and sixteen, can say, before a second
/// length and a hidden request.
#[test]
fn names_of_any_length_change_no_framing() {
    let origin = naming_origin();
    let shoal = Setup::to(&origin).set("client.head_max", "128 KiB").start();
    let hidden = "GET /hidden HTTP/1.1\r\nHost: site.test\r\n\r\n";
    for length in [254, 255, 256, 257, 269, 270, 271, 511, 512, 32_767, 65_535, 65_536, 65_550] {
        let name = format!("Content-Length0{}", "a".repeat(length - 15));
        let mut client = shoal.connect();
        client.send(format!(
            "POST /a HTTP/1.1\r\nHost: site.test\r\n{name}:\r\nContent-Length: {}\r\n\r\n{hidden}",
            hidden.len()
        ));
        let status = client.response("POST").status;
        assert!(matches!(status, 200 | 400 | 431), "{length}: {status}");
    }
    assert_eq!(origin.count("/hidden"), 0);
}

#[test]
fn fields_without_a_name_are_refused() {
    let origin = naming_origin();
    let shoal = Setup::to(&origin).start();
    for line in [":", ": x", ":authority: other.test", " : x", "\t: x"] {
        let mut client = shoal.connect();
        client.send(format!("GET /a HTTP/1.1\r\nHost: site.test\r\n{line}\r\nX-Denied: 1\r\n\r\n"));
        client.response("GET").expect_status(400);
        assert!(client.closes(), "{line:?}");
    }
    assert_eq!(origin.total(), 0);
}

/// What rules read as `/a#.png` and origins as `/a`.
#[test]
fn fragments_in_targets_are_refused() {
    let origin = naming_origin();
    let shoal = Setup::to(&origin).start();
    for target in
        ["/a#b", "/a#.png", "/#", "#", "/a?b#c", "http://site.test/a#b", "http://site.test#@other.test/"]
    {
        let mut client = shoal.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: site.test\r\n\r\n"));
        client.response("GET").expect_status(400);
    }
    assert_eq!(origin.total(), 0);
}

/// Paths that somebody between client and application may take for one another have keys of their
/// own, and reach the origin as they are.
#[test]
fn paths_are_never_made_alike() {
    let origin = naming_origin();
    let shoal = Setup::to(&origin).start();
    let paths = [
        "/a/b",
        "/a%2fb",
        "/a%2Fb",
        "/a//b",
        "/a/./b",
        "/a/c/../b",
        "/a/%2e%2e/b",
        "/A/b",
        "/a/b/",
        "/a/b;x.css",
        "/a/b%3bx.css",
        "/a/b%0ax.css",
        "/a/b%00.css",
        "/a/b%23.css",
        "/a/b%3f.css",
        "/a\\b",
        "/a%5cb",
        "/a/b?",
        "/a/b?x",
    ];
    for path in paths {
        let first = shoal.get(path);
        first.expect_body(format!("GET {path}"));
        assert!(!first.hit(), "{path} was stored for another");
        shoal.get(path).expect_hit().expect_body(format!("GET {path}"));
    }
}

/// Parts of a request that choose no key choose nothing that others get.
#[test]
fn bodies_and_oversized_fields_poison_nobody() {
    let origin = Origin::start();
    origin.on_request("/*", |request| {
        let is_odd = request.fields.0.iter().any(|(name, _)| name.starts_with("x-odd"));
        match (request.body.is_empty(), is_odd) {
            (false, _) => Answer::fresh("poison", 60),
            (_, true) => Answer::new(400).piece("poison"),
            _ => Answer::fresh("the page", 60),
        }
    });
    let shoal = Setup::to(&origin).start();
    let odd = [
        Request::get("/a").body(b"x=1"),
        Request::get("/b").field("X-Odd", &"a".repeat(8000)),
        Request::get("/c").field("X-Odd-\u{7f}", "a"),
        Request::get("/d").field("X-Odd", "a\tb"),
    ];
    for request in odd {
        shoal.ask(&request);
        shoal.get(&request.target).expect_body("the page");
    }
}

/// A field that no cache could make sense of does not send each request to the origin.
#[test]
fn odd_preferences_do_not_pass_the_cache_by() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("the page", 60).field("Vary", "Accept-Encoding"));
    origin.on("/b", Answer::fresh("the page", 60));
    let shoal = Setup::to(&origin).start();
    for value in ["gzip;;;q", ",,,", ";q=", "\u{80}", "gzip;q=9999999999999999999", "*;q=0, identity;q=0"] {
        let request = |path| Request::get(path).field("Accept-Encoding", value);
        shoal.ask(&request("/b")).expect_body("the page");
        shoal.ask(&request("/b")).expect_hit();
        shoal.ask(&request("/a")).expect_body("the page");
        shoal.ask(&request("/a")).expect_hit();
    }
    assert_eq!(origin.count("/b"), 1);
}

#[test]
fn ranges_of_any_size_leave_the_node_sound() {
    let origin = Origin::start();
    origin.on("/stored", Answer::fresh("0123456789", 60));
    let odd = [
        "bytes 9-1/5",
        "bytes 0-0/0",
        "bytes 0-18446744073709551615/18446744073709551616",
        "bytes -1-5/10",
        "bytes */10",
        "bytes 0-3/*",
        "bytes 5-9/3",
        "bytes",
        "",
        "lines 0-3/10",
        "bytes 0-9/10, bytes 0-3/10",
        "bytes 99999999999999999999-5/1",
    ];
    origin.on_request("/part/*", move |request| {
        let number: usize = request.path().trim_start_matches("/part/").parse().expect("a number");
        Answer::new(206)
            .field("Content-Range", odd[number])
            .field("Cache-Control", "max-age=60")
            .field("ETag", "\"v\"")
            .piece("0123")
    });
    let shoal = Setup::to(&origin).start();
    shoal.get("/stored").expect_body("0123456789");
    let ranges = [
        "bytes=0-18446744073709551615",
        "bytes=18446744073709551615-",
        "bytes=-18446744073709551616",
        "bytes=9223372036854775807-9223372036854775808",
        "bytes=-0",
        "bytes=5-1",
        "bytes=--1",
        "bytes=0-0,-1,5-5,0-",
        "bytes=,,,",
        "bytes=0-3;x",
        "lines=0-3",
        "bytes=0x1-0x3",
    ];
    for range in ranges {
        let answer = shoal.ask(&Request::get("/stored").field("Range", range));
        assert!(matches!(answer.status, 200 | 206 | 416), "{range}: {}", answer.status);
        for number in 0..odd.len() {
            shoal.ask(&Request::get(&format!("/part/{number}")).field("Range", range));
        }
    }
    let many = format!("bytes={}", (0..1500).map(|at| format!("{at}-{at},")).collect::<String>());
    assert!(shoal.ask(&Request::get("/stored").field("Range", &many)).body.len() < 4_000);
    shoal.get("/stored").expect_hit().expect_body("0123456789");
}

/// Lists that a parser would recurse into, and chunks that it would call itself for.
#[test]
fn long_lists_and_many_chunks_are_read_without_recursion() {
    let origin = Origin::start();
    let chunks = "1\r\nx\r\n".repeat(200_000);
    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n";
    origin.on("/chunks", Answer::raw(format!("{head}{chunks}0\r\n\r\n")));
    origin.on("/a", Answer::ok("x"));
    origin.on("/b", Answer::ok("x"));
    let setup = Setup::to(&origin).set("client.head_max", "1 MiB");
    let shoal =
        setup.listen("trusting", "mode = 'reverse'\ntrusted_proxies = ['127.0.0.0/8', '10.0.0.0/8']").start();
    assert_eq!(shoal.get("/chunks").body.len(), 200_000);
    let list = "10.0.0.1, ".repeat(60_000) + "192.0.2.1";
    let mut client = Connection::open(shoal.address("trusting"));
    let status = client.ask(&Request::get("/a").field("X-Forwarded-For", &list), "site.test").status;
    assert!(matches!(status, 200 | 431), "{status}");
    let mut client = shoal.connect();
    client.send(format!(
        "POST /b HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
    ));
    client.response("POST").expect_body("x");
    assert_eq!(origin.last("/b").body.len(), 200_000);
}

#[test]
fn other_schemes_have_no_code() {
    let origin = naming_origin();
    let shoal = Setup::to(&origin).start();
    let address = origin.address();
    for target in [
        "urn:example:a".to_owned(),
        "cache_object://localhost/info".into(),
        format!("gopher://{address}/1"),
        format!("ftp://{address}/a"),
        format!("wais://{address}/"),
        "about:blank".into(),
        "file:///etc/passwd".into(),
        "whois://example.com/".into(),
    ] {
        let mut client = Connection::open(shoal.address("forward"));
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
        assert_eq!(client.response("GET").status, 400, "{target}");
    }
    assert_eq!(origin.connections(), 0);
}

/// Pages that a script may read tell nothing that only the browser should know.
#[test]
fn own_pages_repeat_no_secrets() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).set("upstream.connect_timeout", "1s").start();
    drop(origin);
    for method in ["GET", "POST", "TRACE", "OPTIONS", "PURGE", "BREW"] {
        for max_forwards in ["0", "5"] {
            let request = Request::new(method, "/secret-path?token=SECRET")
                .field("Authorization", "Basic SECRET")
                .field("Proxy-Authorization", "Basic SECRET")
                .field("Cookie", "sid=SECRET")
                .field("X-Own", "SECRET")
                .field("Max-Forwards", max_forwards);
            let answer = shoal.ask(&request);
            let fields = answer.fields.0.iter().any(|(_, value)| value.contains("SECRET"));
            assert!(!fields && !answer.text().contains("SECRET"), "{method}: {}", answer.text());
        }
    }
}

/// What follows a CONNECT that is refused may be another's words: it is no request.
#[test]
fn words_behind_a_refused_connect_are_no_request() {
    let origin = naming_origin();
    let shoal = Setup::to(&origin).set("forward.connect_ports", vec![443_i64]).start();
    let authority = origin.address();
    let hidden = format!("GET http://{authority}/hidden HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let mut client = shoal.connect_forward();
    client.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n{hidden}"));
    client.response("GET").expect_status(403);
    assert!(client.closes());
    assert_eq!(origin.total(), 0);
}

/// What a client names in Connection ends here; not what we say of it.
#[test]
fn connection_takes_out_none_of_our_fields() {
    let origin = naming_origin();
    let shoal = Setup::to(&origin).start();
    let names = "x-forwarded-for, x-forwarded-host, x-forwarded-proto, via, cdn-loop, host, content-length, cache-control, age, date";
    shoal.ask(&Request::new("POST", "/a").field("Connection", names).body(b"body")).expect_status(200);
    let seen = origin.last("/a");
    for name in ["x-forwarded-for", "via", "cdn-loop", "host"] {
        assert!(seen.fields.has(name), "{name} is missing: {:?}", seen.fields);
    }
    assert_eq!(seen.body, b"body");
}

#[test]
fn odd_answers_of_origins_leave_the_node_sound() {
    let origin = Origin::start();
    let long = "x".repeat(60_000);
    let odd = [
        "HTTP/1.1 200\r\n".to_owned(),
        "HTTP/1.1 200 \r\n".into(),
        format!("HTTP/1.1 200 {}\r\n", &long[..4000]),
        "HTTP/1.1 200 \u{e9}\r\n".into(),
        "HTTP/1.1 200 OK\r\nVary: ,,,\r\n".into(),
        "HTTP/1.1 200 OK\r\nVary: \r\n".into(),
        "HTTP/1.1 200 OK\r\nVary: a b\r\n".into(),
        format!("HTTP/1.1 200 OK\r\nVary: {}\r\n", "a,".repeat(2000)),
        "HTTP/1.1 200 OK\r\nVary: Cookie, *\r\n".into(),
        "HTTP/1.1 200 OK\r\nDate: Mon, 99 Foo 99999 99:99:99 GMT\r\n".into(),
        "HTTP/1.1 200 OK\r\nExpires: -1\r\nAge: 99999999999999999999\r\n".into(),
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=\"\r\n".into(),
        format!("HTTP/1.1 200 OK\r\nCache-Control: {}\r\n", "private=\"".repeat(500)),
        format!("HTTP/1.1 200 OK\r\nX: {long}\r\n"),
        "HTTP/1.1 304 Not Modified\r\n".into(),
        "HTTP/1.1 206 Partial Content\r\n".into(),
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n".into(),
        "HTTP/1.1 000 x\r\n".into(),
        "HTTP/1.1 999 x\r\n".into(),
    ];
    for (number, head) in odd.iter().enumerate() {
        let fresh = if head.contains("Cache-Control") { "" } else { "Cache-Control: max-age=60\r\n" };
        origin.on(&format!("/{number}"), Answer::raw(format!("{head}{fresh}Content-Length: 1\r\n\r\nx")));
    }
    origin.on("/sound", Answer::fresh("sound", 60));
    let shoal = Setup::to(&origin).start();
    for (number, head) in odd.iter().enumerate() {
        for _ in 0..2 {
            let status = shoal.get(&format!("/{number}")).status;
            assert!((200..600).contains(&status), "{:.60}: {status}", head);
        }
    }
    shoal.get("/sound").expect_body("sound");
    shoal.get("/sound").expect_hit();
}
