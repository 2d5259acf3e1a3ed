//! A cookie set for one client reaches no other.
//!
//! The origin does what an Express application with its session middleware does as its README has
//! it: each answer to a request without a cookie sets one, a 304 included.

use shoal_testkit::origin::Received;
use shoal_testkit::{Answer, Gate, Origin, Request, Response, Setup, Shoal};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// Each way in which an origin says, or leaves to be guessed, how long the page is fresh.
fn freshnesses() -> Vec<Vec<(&'static str, String)>> {
    let modified = httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(864_000));
    let control = |value: &str| vec![("Cache-Control", value.to_owned())];
    vec![
        control("public, max-age=0"),
        control("public, max-age=60"),
        control("max-age=60"),
        control("s-maxage=60"),
        control("no-cache"),
        control("max-age=0, stale-while-revalidate=60"),
        vec![("CDN-Cache-Control", "max-age=60".into())],
        vec![("Last-Modified", modified)],
        Vec::new(),
    ]
}

/// An origin of sessions: who has no cookie gets one of his own.
fn sessions(fields: &[(&'static str, String)]) -> impl Fn(&Received) -> Answer + Send + Sync + 'static {
    let (fields, begun) = (fields.to_vec(), Arc::new(AtomicUsize::new(0)));
    move |request| {
        let answer = match request.fields.first("if-none-match") {
            Some("W/\"page\"") => Answer::new(304),
            _ => Answer::ok("the page"),
        };
        let answer = fields.iter().fold(answer, |answer, (name, value)| answer.field(name, value));
        let answer = answer.field("ETag", "W/\"page\"");
        if request.fields.has("cookie") {
            return answer;
        }
        let session = begun.fetch_add(1, Ordering::SeqCst);
        answer.field("Set-Cookie", &format!("connect.sid={session}; Path=/; HttpOnly"))
    }
}

/// Visitors and members open the page in turn: nobody gets a session of another's, and members get
/// none.
fn hold_sessions_apart(open: impl Fn(Option<&str>) -> Response, what: &str) {
    let mut given = HashSet::new();
    for member in [None, Some("alice"), Some("bob"), None, Some("bob"), None, None, Some("alice")] {
        let page = open(member);
        page.expect_status(200).expect_body("the page");
        let cookies = page.fields.all("set-cookie");
        assert!(member.is_none() || cookies.is_empty(), "{what}: {member:?} got {cookies:?}");
        for cookie in cookies {
            assert!(given.insert(cookie.to_owned()), "{what}: {cookie} was given twice");
        }
    }
    assert!(!given.is_empty(), "{what}: the first visitor has a session");
}

fn open(shoal: &Shoal, member: Option<&str>) -> Response {
    let request = Request::get("/");
    shoal.ask(&match member {
        Some(member) => request.field("Cookie", &format!("connect.sid={member}")),
        None => request,
    })
}

#[test]
fn session_cookie_reaches_its_visitor_alone() {
    for fields in freshnesses() {
        let origin = Origin::start();
        origin.on_request("/", sessions(&fields));
        let shoal = Setup::to(&origin).start();
        hold_sessions_apart(|member| open(&shoal, member), &format!("{fields:?}"));
    }
}

#[test]
fn stripped_session_cookie_reaches_its_visitor_alone() {
    for fields in freshnesses() {
        let origin = Origin::start();
        origin.on_request("/", sessions(&fields));
        let shoal = Setup::to(&origin).set("cache.set_cookie", "strip").start();
        hold_sessions_apart(|member| open(&shoal, member), &format!("{fields:?}"));
    }
}

#[test]
fn session_cookie_stays_apart_in_forward_mode() {
    for fields in freshnesses() {
        let origin = Origin::start();
        origin.on_request("/", sessions(&fields));
        let shoal = Setup::to(&origin).start();
        let open = |member: Option<&str>| {
            let request = Request::get(&format!("{}/", origin.url()));
            shoal.ask_forward(&match member {
                Some(member) => request.field("Cookie", &format!("connect.sid={member}")),
                None => request,
            })
        };
        hold_sessions_apart(open, &format!("{fields:?}"));
    }
}

/// Of a page that was stored for a member, who was set no cookie.
#[test]
fn cookie_of_a_304_reaches_its_client_alone() {
    for (control, collapse) in [("max-age=0", true), ("max-age=0", false), ("no-cache", true)] {
        let origin = Origin::start();
        origin.on_request("/", sessions(&[("Cache-Control", control.into())]));
        let shoal = Setup::to(&origin).set("cache.collapse", collapse).start();
        open(&shoal, Some("alice")).expect_body("the page");
        let visitor = open(&shoal, None);
        assert_eq!(visitor.field("set-cookie"), Some("connect.sid=0; Path=/; HttpOnly"), "{control}");
        assert_eq!(origin.last("/").fields.first("if-none-match"), Some("W/\"page\""), "{control}");
        assert_eq!(open(&shoal, Some("bob")).field("set-cookie"), None, "{control}");
        hold_sessions_apart(|member| open(&shoal, member), control);
    }
}

/// The 304 makes what is stored fresh for longer; hits within that time are of the stored page,
/// without the cookie.
#[test]
fn cookie_of_a_304_is_not_merged_into_the_stored_page() {
    let origin = Origin::start();
    let first = Answer::fresh("the page", 0).field("ETag", "\"v\"");
    let again = Answer::new(304)
        .field("ETag", "\"v\"")
        .field("Cache-Control", "public, max-age=600")
        .field("Set-Cookie", "sid=a")
        .field("Set-Cookie2", "sid=a");
    origin.on_each("/", [first, again]);
    let mut shoal = Setup::to(&origin).start();
    shoal.get("/").expect_body("the page");
    assert_eq!(shoal.get("/").field("set-cookie"), Some("sid=a"));
    for _ in 0..2 {
        let hit = shoal.get("/");
        hit.expect_hit().expect_body("the page");
        assert_eq!((hit.field("set-cookie"), hit.field("set-cookie2")), (None, None));
        shoal.restart_and_find_all();
    }
}

#[test]
fn waiting_clients_do_not_share_a_cookie() {
    for strip in [false, true] {
        let origin = Origin::start();
        let gate = Gate::new();
        let begun = AtomicUsize::new(0);
        let held = gate.clone();
        origin.on_request("/", move |_| {
            let session = begun.fetch_add(1, Ordering::SeqCst);
            Answer::fresh("the page", 60).field("Set-Cookie", &format!("sid={session}")).held_by(&held)
        });
        let shoal = Setup::to(&origin).set("cache.set_cookie", if strip { "strip" } else { "pass" }).start();
        let cookies = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| shoal.get("/"))).collect();
            origin.wait_for("/", 1);
            gate.open();
            let pages = clients.into_iter().map(|client| client.join().expect("a client ends"));
            pages
                .filter_map(|page| page.expect_body("the page").field("set-cookie").map(str::to_owned))
                .collect::<Vec<_>>()
        });
        let apart: HashSet<&String> = cookies.iter().collect();
        assert_eq!(apart.len(), cookies.len(), "each got a cookie of his own: {cookies:?}");
        assert!(if strip { cookies.len() == 1 } else { cookies.len() == 4 }, "{cookies:?}");
    }
}

/// A HEAD may freshen what is stored (RFC 9111 section 4.3.5); a 206 brings the head of the whole.
#[test]
fn cookies_of_head_and_parts_stay_apart() {
    let origin = Origin::start();
    origin.on_request("/", |request| {
        let answer = match (request.method.as_str(), request.fields.first("range")) {
            ("GET", Some(_)) => Answer::new(206).field("Content-Range", "bytes 0-2/8").piece("the"),
            _ => Answer::ok("the page"),
        };
        let answer = answer.field("Cache-Control", "public, max-age=60").field("ETag", "\"v\"");
        if request.fields.has("cookie") { answer } else { answer.field("Set-Cookie", "sid=1") }
    });
    for strip in ["pass", "strip"] {
        let shoal = Setup::to(&origin).set("cache.set_cookie", strip).start();
        let part = |request: Request| request.field("Range", "bytes=0-2");
        let member = |request: Request| request.field("Cookie", "sid=bob");
        assert_eq!(shoal.ask(&part(Request::get("/"))).expect_status(206).field("set-cookie"), Some("sid=1"));
        assert_eq!(shoal.ask(&part(member(Request::get("/")))).expect_status(206).field("set-cookie"), None);
        assert_eq!(shoal.ask(&member(Request::get("/"))).expect_status(200).field("set-cookie"), None);
        shoal.ask(&Request::new("HEAD", "/").field("Cache-Control", "no-cache")).expect_status(200);
        assert_eq!(shoal.ask(&member(Request::get("/"))).expect_status(200).field("set-cookie"), None);
    }
}

/// RFC 9110, section 11.6.3: Authentication-Info "can be sent as a trailer field […] when the
/// authentication scheme explicitly allows this".
#[test]
fn personal_trailers_are_not_shared() {
    let origin = Origin::start();
    let gate = Gate::new();
    let answer = Answer::ok("the ")
        .field("Cache-Control", "max-age=60, private=\"x-token\"")
        .wait_for(&gate)
        .piece("page")
        .trailer("Set-Cookie", "sid=1")
        .trailer("Set-Cookie2", "sid=1")
        .trailer("Authentication-Info", "nextnonce=\"1\"")
        .trailer("X-Token", "1")
        .trailer("X-Sum", "4");
    origin.on("/", answer);
    let shoal = Setup::to(&origin).start();
    let request = Request::get("/").field("TE", "trailers").field("Connection", "TE");
    // Both have the head before the rest comes, so both take it as it arrives.
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let mut client = shoal.connect();
            client.send(request.to_bytes("site.test"));
            let head = client.head().expect("the head comes before the body");
            (client, head)
        })
        .collect();
    gate.open();
    for (mut client, head) in waiting {
        let page = client.whole("GET", head, Vec::new());
        page.expect_body("the page");
        assert_eq!(page.trailers.0, [("x-sum".to_owned(), "4".to_owned())]);
    }
    assert_eq!(origin.count("/"), 1);
}

/// What an authentication hands to one client: RFC 9110, section 11.6.3, and the tokens of RFC
/// 4559, for which the whole response stays apart.
#[test]
fn proof_of_authentication_is_not_shared() {
    let origin = Origin::start();
    let page = || {
        let page = Answer::ok("the page").field("Cache-Control", "public, max-age=60");
        page.field("Authentication-Info", "nextnonce=\"1\"")
    };
    origin.on("/digest", page());
    origin.on("/negotiate", page().field("WWW-Authenticate", "Negotiate oRQwEqADCgEA"));
    let shoal = Setup::to(&origin).start();
    for (path, token) in [("/digest", None), ("/negotiate", Some("Negotiate oRQwEqADCgEA"))] {
        let own = shoal.ask(&Request::get(path).field("Authorization", "Digest username=\"alice\""));
        assert_eq!(own.field("authentication-info"), Some("nextnonce=\"1\""));
        assert_eq!(own.field("www-authenticate"), token);
    }
    let others = shoal.get("/digest");
    others.expect_hit().expect_body("the page");
    assert_eq!((others.field("authentication-info"), others.field("www-authenticate")), (None, None));
    assert!(!shoal.get("/negotiate").hit());
}

#[test]
fn site_may_store_without_the_cookie() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("the page", 60).field("Set-Cookie", "sid=1"));
    let upstreams = format!("upstreams = [{{ url = '{}' }}]\n", origin.url());
    let shoal = Setup::to(&origin)
        .without_sites()
        .site(&format!("hosts = ['*']\n{upstreams}"))
        .site(&format!("hosts = ['*']\npath_prefix = '/strip/'\nset_cookie = 'strip'\n{upstreams}"))
        .start();
    for (path, asked) in [("/", 2), ("/strip/", 1)] {
        assert_eq!(shoal.get(path).field("set-cookie"), Some("sid=1"), "{path}");
        shoal.get(path).expect_body("the page");
        assert_eq!(origin.count(path), asked, "{path}");
    }
    assert_eq!(shoal.get("/strip/").expect_hit().field("set-cookie"), None);
}
