//! Migrated settings: the new cache passes, keeps and refuses as the old one did.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use shoal_testkit::shoal::binary;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::process::Command;

/// A reverse proxy with the rules and sites that come out of this file for `origin`.
fn shoal(origin: &Origin, name: &str, text: &str) -> Shoal {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(name);
    let users = folder.path().join("users");
    std::fs::write(&users, USERS).expect("written");
    std::fs::write(&file, text.replace("USERS", &users.to_string_lossy())).expect("written");
    let output = Command::new(binary()).arg("migrate").arg(&file).output().expect("the binary runs");
    let made: toml::Table = String::from_utf8_lossy(&output.stdout).parse().expect("TOML");
    let mut setup = Setup::to(origin);
    for key in ["rule", "site"] {
        if let Some(value) = made.get(key) {
            setup = setup.set(key, value.clone());
        }
    }
    for (key, value) in made["cache"].as_table().expect("a table") {
        setup = setup.set(&format!("cache.{key}"), value.clone());
    }
    setup.start()
}

fn authority(origin: &Origin) -> String {
    origin.url().trim_start_matches("http://").trim_end_matches('/').to_owned()
}

fn with(path: &str, name: &str, value: &str) -> Request {
    Request::get(path).field(name, value)
}

#[test]
fn nginx_bypass_and_lifetimes_hold() {
    let origin = Origin::start();
    origin.on_request("/page", |request| Answer::ok(request.fields.joined("Cookie")));
    origin.on("/missing", Answer::new(404));
    origin.on("/modified", Answer::ok("x").field("Last-Modified", "Mon, 01 Jan 2001 00:00:00 GMT"));
    let text = format!(
        "http {{ proxy_cache_path /c keys_zone=z:1m; server {{ listen 80; location / {{ proxy_pass http://{};
         proxy_cache z; proxy_cache_valid 200 10m; proxy_cache_bypass $cookie_session;
         proxy_no_cache $cookie_session; }} location /off/ {{ proxy_pass http://{0}; }}
         location ~ /\\.git {{ deny all; }} }} }}",
        authority(&origin)
    );
    origin.on("/off/x", Answer::fresh("x", 60));
    let shoal = shoal(&origin, "nginx.conf", &text);
    shoal.get("/page").expect_body("");
    shoal.get("/page").expect_hit();
    // A reload is a hit, a session passes by and stores nothing.
    shoal.ask(&with("/page", "Cache-Control", "no-cache")).expect_hit();
    for _ in 0..2 {
        assert!(!shoal.ask(&with("/page", "Cookie", "session=1")).expect_body("session=1").hit());
    }
    shoal.get("/page").expect_hit().expect_body("");
    for path in ["/missing", "/off/x"] {
        shoal.get(path);
        assert!(!shoal.get(path).hit(), "{path}");
        assert_eq!(origin.count(path), 2, "{path}");
    }
    for path in ["/.git/config", "/%2egit/config", "//.git/"] {
        shoal.get(path).expect_status(403);
        assert_eq!(origin.count(path), 0, "{path}");
    }
}

#[test]
fn varnish_passes_cookies_and_keeps_two_minutes() {
    let origin = Origin::start();
    origin.on_request("/page", |request| Answer::ok(request.fields.joined("Cookie")));
    origin.on_request("/a.css", |request| Answer::ok(request.fields.joined("Cookie")));
    origin.on("/admin", Answer::fresh("x", 60));
    let (host, port) =
        authority(&origin).rsplit_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a port");
    let text = format!(
        "vcl 4.1; backend default {{ .host = \"{host}\"; .port = \"{port}\"; }}
         sub vcl_recv {{ if (req.url ~ \"^/admin\") {{ return (pass); }}
         if (req.url ~ \"\\.css$\") {{ unset req.http.Cookie; }}
         if (req.url ~ \"/secret\") {{ return (synth(404)); }} }}"
    );
    let shoal = shoal(&origin, "default.vcl", &text);
    shoal.get("/page").expect_body("");
    let ttl = shoal.get("/page").expect_hit().cache().number("ttl").expect("a time to live");
    assert!((100..=122).contains(&ttl), "{ttl}");
    for _ in 0..2 {
        assert!(!shoal.ask(&with("/page", "Cookie", "a=1")).expect_body("a=1").hit());
        shoal.get("/admin");
    }
    assert_eq!(origin.count("/admin"), 2);
    shoal.ask(&with("/a.css", "Cookie", "a=1")).expect_body("");
    shoal.ask(&with("/a.css", "Cookie", "a=2")).expect_hit();
    for path in ["/secret", "/x?a=/secret", "/%73ecret"] {
        shoal.get(path).expect_status(404);
    }
}

#[test]
fn traffic_server_needs_explicit_lifetimes() {
    let origin = Origin::start();
    origin.on("/silent", Answer::ok("x").field("Last-Modified", "Mon, 01 Jan 2001 00:00:00 GMT"));
    origin.on("/said", Answer::fresh("x", 60));
    origin.on("/img/a", Answer::fresh("moved", 60));
    let text = format!("map / http://{}/\n", authority(&origin));
    let shoal = shoal(&origin, "remap.config", &text);
    for path in ["/silent", "/said"] {
        shoal.get(path);
    }
    shoal.ask(&with("/said", "Cache-Control", "no-cache")).expect_hit();
    assert!(!shoal.get("/silent").hit());
}

/// The password is `open sesame`.
const USERS: &str = "ann:$sha256$pepper$1a62cb3bb3ecfcd0e49236c037d100f64ec07a1a3c5964db8d0bfb8a31a221fa\n";

#[test]
fn nginx_users_and_rates_hold() {
    let origin = Origin::start();
    origin.on_request("/*", |request| Answer::ok(request.fields.joined("Authorization")));
    let server = |inner: &str| {
        format!(
            "http {{ limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m; server {{ listen 80; {inner} }} }}"
        )
    };
    let upstream = format!("proxy_pass http://{}; proxy_set_header Host $host;", authority(&origin));
    let text = server(&format!(
        "auth_basic \"members\"; auth_basic_user_file USERS;
         location / {{ {upstream} }}
         location /open/ {{ auth_basic off; {upstream} }}
         location /near/ {{ satisfy any; allow 127.0.0.0/8; deny all; {upstream} }}
         location /far/ {{ satisfy any; allow 192.0.2.0/24; deny all; {upstream} }}
         location /both/ {{ allow 192.0.2.0/24; deny all; {upstream} }}
         location /closed/ {{ satisfy any; return 403; }}
         location /slow/ {{ auth_basic off; limit_req zone=z burst=1; {upstream} }}"
    ));
    let shoal = shoal(&origin, "nginx.conf", &text);
    let login = format!("Basic {}", STANDARD.encode("ann:open sesame"));
    for (path, alone, with_login) in [
        ("/a", 401, 200),
        ("/open/a", 200, 200),
        ("/near/a", 200, 200),
        ("/far/a", 401, 200),
        ("/both/a", 403, 403),
        ("/closed/a", 403, 403),
        ("//far/a", 401, 200),
    ] {
        assert_eq!(shoal.get(path).status, alone, "{path}");
        assert_eq!(shoal.ask(&with(path, "Authorization", &login)).status, with_login, "{path}");
    }
    // nginx sends the field on where it stores nothing.
    shoal.ask(&with("/a", "Authorization", &login)).expect_body(&login);
    for status in [200, 200, 429] {
        shoal.get("/slow/a").expect_status(status);
    }
}
