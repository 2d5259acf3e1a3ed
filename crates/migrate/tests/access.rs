//! Refusals of VCL and of maps that a converter could lose: each is carried over, or all requests
//! are refused with a notice.

use shoal_migrate::{Error, Files, Migration, Peer, SourceText, migrate};

/// No files.
struct Nothing;

impl Files for Nothing {
    fn read(&self, _: &str) -> Result<Vec<SourceText>, String> {
        Ok(Vec::new())
    }

    fn is_readable(&self, _: &str) -> bool {
        true
    }
}

fn try_vcl(subs: &str) -> Result<Migration, Error> {
    let backend = "vcl 4.1;\nbackend default { .host = \"127.0.0.1\"; .port = \"9000\"; }\n";
    let lists =
        "acl inner { \"10.0.0.0\"/8; ! \"10.1.0.0\"/16; \"10.1.2.0\"/24; }\nacl named { \"a.test\"; }\n";
    let text = format!("{backend}{lists}{subs}");
    migrate(Peer::Varnish, SourceText { name: "default.vcl".into(), text }, &Nothing)
}

fn vcl(subs: &str) -> Migration {
    try_vcl(subs).unwrap_or_else(|error| panic!("{subs}: {error}"))
}

#[test]
fn refusals_that_speak_of_purges_stay() {
    let made =
        vcl("sub vcl_recv { if (req.url ~ \"^/adm\" || req.method == \"PURGE\") { return (synth(403)); } }");
    assert!(made.toml.contains("path_regex = \"^/adm\"\ndeny = 403"), "{}", made.toml);
    let made =
        vcl("sub vcl_recv { if (req.url ~ \"^/adm\" && req.method != \"PURGE\") { return (synth(403)); } }");
    assert!(made.toml.contains("path_regex = \"^/adm\"\ndeny = 403"), "{}", made.toml);
    let of_purges = "sub vcl_recv { if (req.method == \"PURGE\") { return (synth(405)); } }";
    assert!(!vcl(of_purges).toml.contains("deny"), "only purge_from may purge");
}

#[test]
fn refusals_without_an_equal_refuse_all() {
    for subs in [
        "sub vcl_recv { set req.http.X-In = \"no\"; if (client.ip ~ inner) { unset req.http.X-In; }\n\
         if (req.http.X-In == \"no\") { return (synth(403)); } }",
        "sub vcl_recv { if (client.ip ~ named) { return (synth(403)); } }",
        "sub vcl_deliver { if (req.url ~ \"^/s\") { return (synth(403)); } }",
        "sub vcl_miss { return (fail); }",
        "sub vcl_hash { if (req.http.X) { return (synth(401)); } }",
    ] {
        let made = vcl(subs);
        let denies_all = made.toml.contains("[[rule]]\n# default.vcl") || made.toml.contains("deny = 403");
        assert!(denies_all && !made.summary.notices.is_empty(), "{subs}:\n{}", made.toml);
    }
    let of_errors = "sub vcl_deliver { if (resp.status == 404) { return (synth(404)); } }";
    assert!(vcl(of_errors).summary.notices.is_empty(), "it answers an error");
}

#[test]
fn rewritten_urls_get_a_notice() {
    let made = vcl("sub vcl_recv { set req.url = regsub(req.url, \"^/v1\", \"\");\n\
         if (req.url ~ \"^/adm\") { return (synth(403)); } }");
    assert_eq!(made.summary.notices.len(), 1, "{:?}", made.summary.notices);
}

#[test]
fn exceptions_of_lists_are_taken_out() {
    let made = vcl("sub vcl_recv { if (client.ip !~ inner) { return (synth(403)); } }");
    let line = made.toml.lines().find(|line| line.starts_with("allow_clients")).expect("networks");
    assert!(line.contains("\"10.0.0.0/16\"") && line.contains("\"10.1.2.0/24\""), "{line}");
    assert!(!line.contains("\"10.0.0.0/8\"") && !line.contains("10.1.0.0/16"), "{line}");
}

#[test]
fn subroutines_in_a_circle_are_refused() {
    let mut subs = "sub vcl_recv { call a; } sub a { call b; call b; } sub b { call a; call a; }".to_owned();
    assert!(matches!(try_vcl(&subs), Err(Error::Limit(_))));
    subs = (0..60).map(|number| format!("sub s{number} {{ call s{}; }}\n", number + 1)).collect();
    subs += "sub vcl_recv { call s0; } sub s60 { return (synth(403)); }";
    assert!(matches!(try_vcl(&subs), Err(Error::Limit(_))), "a refusal lies too deep");
}

/// Checked with Traffic Server 9.2: a filter on `/adm` refuses `/administrator`, too.
#[test]
fn filters_of_maps_hold_for_longer_names() {
    let text = "map http://a.test/adm http://127.0.0.1:9000/adm @action=deny @src_ip=10.0.0.0/8\n\
                map http://a.test/ http://127.0.0.1:9000/\n";
    let source = SourceText { name: "remap.config".into(), text: text.into() };
    let made = migrate(Peer::TrafficServer, source, &Nothing).expect("the maps are read");
    let general = made.toml.split("[[site]]").next().expect("a part before the sites");
    assert!(
        general.contains("paths = [\"/adm*\"]") && general.contains("hosts = [\"a.test\"]"),
        "{}",
        made.toml
    );
}
