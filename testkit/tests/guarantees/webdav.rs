//! WebDAV and applications that purge: COPY and MOVE write to the URL in Destination, and the
//! method PURGE removes a URL under both schemes.

use shoal_testkit::certificates::Authority;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal};

/// Has a fresh body at each path stored.
fn stored(origin: &Origin, shoal: &Shoal, paths: &[&str]) {
    for path in paths {
        origin.on(path, Answer::fresh(format!("body of {path}"), 600));
        shoal.get(path).expect_status(200);
        shoal.get(path).expect_hit();
    }
}

fn send(shoal: &Shoal, method: &str, path: &str, destination: &str) -> u16 {
    shoal.ask(&Request::new(method, path).field("Destination", destination)).status
}

/// RFC 4918, 9.9: a MOVE replaces what was at its Destination.
#[test]
fn moved_file_invalidates_its_destination() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    for (number, (method, destination, goes)) in [
        ("MOVE", "http://site.test/to", true),
        ("COPY", "http://site.test:80/to", true),
        ("MOVE", "/to", true),
        ("COPY", "to", true),
        ("MOVE", "http://other.test/to", false),
        ("MOVE", "https://site.test/to", false),
        ("PUT", "http://site.test/to", false),
        ("PROPFIND", "http://site.test/to", false),
    ]
    .iter()
    .enumerate()
    {
        let path = format!("/{number}");
        stored(&origin, &shoal, &["/to"]);
        origin.on(&path, Answer::new(204));
        assert_eq!(send(&shoal, method, &path, destination), 204);
        assert_eq!(shoal.get("/to").hit(), !goes, "{method} to {destination}");
    }
    stored(&origin, &shoal, &["/to"]);
    origin.on("/locked", Answer::new(423));
    assert_eq!(send(&shoal, "MOVE", "/locked", "http://site.test/to"), 423);
    shoal.get("/to").expect_hit();
}

/// A file that was moved away is gone at once.
#[test]
fn moved_file_is_invalidated_itself() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    stored(&origin, &shoal, &["/from"]);
    origin.on("/from", Answer::new(201));
    assert_eq!(send(&shoal, "MOVE", "/from", "http://site.test/to"), 201);
    origin.on("/from", Answer::new(404));
    shoal.get("/from").expect_status(404);
}

#[test]
fn destination_stays_where_the_origin_knows_it() {
    let origin = Origin::start();
    origin.on("/a", Answer::new(201));
    let shoal = Setup::to(&origin).start();
    for destination in ["http://site.test/b%20c?d", "/b", "http://other.test/b", "not a URL"] {
        assert_eq!(send(&shoal, "MOVE", "/a", destination), 201);
        assert_eq!(origin.last("/a").fields.first("destination"), Some(destination));
    }
}

#[test]
fn destination_is_a_path_behind_tls() {
    let origin = Origin::start();
    origin.on("/a", Answer::new(201));
    let authority = Authority::new();
    let setup = Setup::to(&origin);
    authority.issue(&["files.test"]).write(setup.folder(), "files");
    let at = |name: &str| setup.folder().join(name).display().to_string();
    let pair = format!("{{ certificate = '{}', key = '{}' }}", at("files.pem"), at("files.key"));
    let shoal = setup.listen("tls", &format!("mode = 'reverse'\ntls = [{pair}]")).start();
    for (destination, sent) in [
        ("https://files.test/b%20c?d", "/b%20c?d"),
        ("https://FILES.test:443/b", "/b"),
        ("http://files.test/b", "http://files.test/b"),
        ("https://other.test/b", "https://other.test/b"),
    ] {
        let mut client = Connection::open_tls(shoal.address("tls"), "files.test", authority.client(&[]));
        let request = Request::new("MOVE", "/a").field("Destination", destination);
        client.ask(&request, "files.test").expect_status(201);
        let last = origin.last("/a");
        assert_eq!(last.fields.joined("destination"), sent);
    }
    assert_eq!(origin.last("/a").fields.first("host"), Some("files.test"));
}

#[test]
fn destination_follows_the_upstreams_path() {
    let origin = Origin::start();
    origin.on("/share/x/a", Answer::new(201));
    let site = format!(
        "hosts = ['*']\npath_prefix = '/dav'\nupstreams = [{{ url = '{}/share' }}]\n\
         rule = [{{ upstream_strip = '/dav', upstream_add = '/x' }}]\n",
        origin.url()
    );
    let shoal = Setup::bare().listen("reverse", "mode = 'reverse'").site(&site).start();
    for (destination, sent) in [
        ("http://site.test/dav/b?c", "/share/x/b?c"),
        ("http://site.test/dav/../dav/./b", "/share/x/b"),
        // Some origins would read this as a path outside of the prefix.
        ("http://site.test/dav/..%2f..%2fb", "http://site.test/dav/..%2f..%2fb"),
    ] {
        assert_eq!(send(&shoal, "COPY", "/dav/a", destination), 201);
        assert_eq!(origin.last("/share/x/a").fields.joined("destination"), sent);
    }
}

#[test]
fn destination_names_the_upstreams_own_host() {
    let origin = Origin::start();
    origin.on("/a", Answer::new(201));
    let site =
        format!("hosts = ['*']\npreserve_host = false\nupstreams = [{{ url = '{}' }}]\n", origin.url());
    let shoal = Setup::bare().listen("reverse", "mode = 'reverse'").site(&site).start();
    assert_eq!(send(&shoal, "MOVE", "/a", "http://site.test/b"), 201);
    assert_eq!(origin.last("/a").fields.joined("destination"), "/b");
}

/// MediaWiki and others purge `http` URLs at a plain listener, while their readers come by https.
#[test]
fn purge_removes_a_url_under_both_schemes() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let authority = Authority::new();
    let setup = Setup::to(&origin);
    authority.issue(&["wiki.test"]).write(setup.folder(), "wiki");
    let at = |name: &str| setup.folder().join(name).display().to_string();
    let pair = format!("{{ certificate = '{}', key = '{}' }}", at("wiki.pem"), at("wiki.key"));
    let shoal = setup.listen("tls", &format!("mode = 'reverse'\ntls = [{pair}]")).start();
    let secure = |method: &str| {
        let mut client = Connection::open_tls(shoal.address("tls"), "wiki.test", authority.client(&[]));
        client.ask(&Request::new(method, "/a"), "wiki.test")
    };
    let plain = |method: &str| shoal.connect().ask(&Request::new(method, "/a"), "wiki.test");
    let ways: [&dyn Fn(&str) -> shoal_testkit::Response; 2] = [&plain, &secure];
    for purging in ways {
        for way in ways {
            way("GET").expect_body("body");
            way("GET").expect_hit();
        }
        purging("PURGE").expect_status(200);
        purging("PURGE").expect_status(404);
        for way in ways {
            assert!(!way("GET").hit(), "gone under both");
        }
    }
    assert_eq!(origin.count("/a"), 6, "two before each purge and after the last");
}
