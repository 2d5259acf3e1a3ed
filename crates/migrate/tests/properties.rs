//! Any text gives settings that pass the check, or an error; never a panic.

use proptest::prelude::*;
use shoal_migrate::{Error, Files, Peer, SourceText, migrate};
use shoal_settings::SettingsSource;

/// Every name is a file with this text.
struct Everywhere(String);

impl Files for Everywhere {
    fn read(&self, pattern: &str) -> Result<Vec<SourceText>, String> {
        match pattern.len() % 3 {
            0 if pattern == "/users" => Ok(vec![SourceText { name: pattern.into(), text: USERS.into() }]),
            0 => Err("there is no such file".into()),
            _ => Ok(vec![SourceText { name: pattern.into(), text: self.0.clone() }]),
        }
    }

    fn is_readable(&self, path: &str) -> bool {
        path.len().is_multiple_of(2)
    }
}

/// Users that Shoal can check.
const USERS: &str = include_str!("nginx/users");

const PEERS: [(Peer, &str); 4] = [
    (Peer::Squid, "squid.conf"),
    (Peer::Nginx, "nginx.conf"),
    (Peer::Varnish, "default.vcl"),
    (Peer::TrafficServer, "remap.config"),
];

fn check(peer: Peer, name: &str, text: &str, other: &str) {
    let file = SourceText { name: name.into(), text: text.into() };
    let Ok(made) = migrate(peer, file, &Everywhere(other.into())) else { return };
    let source = SettingsSource {
        file: "shoal.toml",
        text: &made.toml,
        overrides: Vec::new(),
        readable: &|_| Ok(()),
        further: &shoal_rules::mistakes,
    };
    let mistakes = source.read().err().unwrap_or_default();
    assert!(mistakes.is_empty(), "{peer}: {mistakes:?}\n{text}\n---\n{}", made.toml);
}

/// Words that the grammars know, with some that they do not.
const WORDS: &[&str] = &[
    "server",
    "{",
    "}",
    ";",
    "\n",
    "location",
    "/",
    "/a/",
    "~",
    "~*",
    "=",
    "^~",
    "(",
    ")",
    "if",
    "return",
    "403",
    "301",
    "proxy_pass",
    "http://10.0.0.2",
    "http://10.0.0.2/x/",
    "listen",
    "80",
    "443 ssl",
    "server_name",
    "a.example",
    "*",
    "_",
    "allow",
    "deny",
    "all",
    "10.0.0.0/8",
    "proxy_cache",
    "z",
    "proxy_cache_valid",
    "10m",
    "proxy_cache_key",
    "$uri",
    "$host",
    "$cookie_x",
    "proxy_no_cache",
    "include",
    "x",
    "acl",
    "src",
    "dstdomain",
    "http_access",
    "!a",
    "a",
    "http_port",
    "3128",
    "accel",
    "refresh_pattern",
    ".",
    "0",
    "20%",
    "4320",
    "-i",
    "url_regex",
    r"\.(a|b)$",
    "[",
    "(?=",
    "(((",
    "cache_peer",
    "originserver",
    "cache_dir",
    "ufs",
    "/c",
    "100",
    "vcl 4.1;",
    "backend",
    "b",
    ".host",
    "\"10.0.0.2\"",
    "sub",
    "vcl_recv",
    "vcl_backend_response",
    "set",
    "req.url",
    "req.http.Cookie",
    "req.http.host",
    "beresp.ttl",
    "120s",
    "unset",
    "pass",
    "synth",
    "&&",
    "||",
    "!",
    "client.ip",
    "else",
    "map",
    "http://a.example/",
    "redirect",
    "@action=deny",
    "@src_ip=10.0.0.1",
    "dest_domain=a",
    "action=never-cache",
    "\"",
    "'",
    "\\",
    "#",
    "\u{0}",
    "ü",
    "{\"",
    "\"}",
    "99999999999999999999",
    "CONFIG",
    "proxy.config.http.server_ports",
    "STRING",
    "- apply: in",
    "ip_addrs:",
    "methods: ALL",
    "limit_req_zone",
    "$binary_remote_addr",
    "zone=z:1m",
    "rate=1r/s",
    "limit_req",
    "zone=z",
    "burst=5",
    "limit_conn",
    "auth_basic",
    "auth_basic_user_file",
    "/users",
    "satisfy",
    "any",
    "ssl_verify_client",
    "on",
    "ssl_client_certificate",
    "/ca.pem",
    "error_page",
    "404",
    "proxy_set_header",
    "Host",
    "proxy_ssl_name",
    "proxy_redirect",
    "upstream",
    "max_conns=3",
    "auth_param basic program",
    "/x/ncsa_auth",
    "proxy_auth",
    "REQUIRED",
    "client_ip_max_connections",
    "max-conn=2",
    "login=a:b",
    ".max_connections",
    "bereq.http.host",
    "reverse_map",
    "proxy.config.http.negative_revalidating_list",
];

fn sentence() -> impl Strategy<Value = String> {
    proptest::collection::vec(0..WORDS.len(), 0..120)
        .prop_map(|words| words.into_iter().map(|at| WORDS[at]).collect::<Vec<_>>().join(" "))
}

/// Sound files that the cases below break.
const SOUND: [&str; 4] = [
    include_str!("squid/users.conf"),
    include_str!("nginx/users.conf"),
    include_str!("varnish/static_cookies.vcl"),
    include_str!("trafficserver/filters/remap.config"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_gives_settings_or_an_error(text in "\\PC{0,200}", other in "\\PC{0,80}") {
        for (peer, name) in PEERS {
            check(peer, name, &text, &other);
        }
    }

    #[test]
    fn any_words_give_settings_or_an_error(text in sentence(), other in sentence()) {
        for (peer, name) in PEERS {
            check(peer, name, &text, &other);
        }
    }

    #[test]
    fn broken_files_give_settings_or_an_error(cut in 0usize..2000, word in 0..WORDS.len(), length in 0usize..60) {
        for ((peer, name), sound) in PEERS.into_iter().zip(SOUND) {
            let mut text: String = sound.chars().take(cut).collect();
            text.push_str(WORDS[word]);
            text.extend(sound.chars().skip(cut.saturating_add(length)));
            check(peer, name, &text, sound);
        }
    }
}

#[test]
fn deep_nesting_and_endless_includes_are_errors() {
    let deep = [
        (Peer::Nginx, "a {".repeat(10_000)),
        (Peer::Varnish, format!("sub a {{ {}", "if (a) {".repeat(10_000))),
        (Peer::Varnish, format!("sub a {{ if ({}", "!".repeat(100_000))),
        (Peer::Varnish, format!("sub a {{ if ({}", "(".repeat(100_000))),
        (Peer::Nginx, "include xx;".to_owned()),
        (Peer::Squid, "include xx\n".to_owned()),
        (Peer::Varnish, "include \"xx\";".to_owned()),
    ];
    for (peer, text) in deep {
        let file = SourceText { name: "x".into(), text: text.clone() };
        let made = migrate(peer, file, &Everywhere(text));
        assert!(matches!(made, Err(Error::Limit(_))), "{peer}: {made:?}");
    }
}

#[test]
fn long_texts_are_errors() {
    let long = "http_port 3128\n".repeat(60_000);
    let file = SourceText { name: "squid.conf".into(), text: long };
    assert!(matches!(migrate(Peer::Squid, file, &Everywhere(String::new())), Err(Error::Limit(_))));
}
