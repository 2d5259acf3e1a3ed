//! Tests of choosing among a site's upstreams as their health changes.

use super::*;

fn group(urls: &[&str]) -> UpstreamGroup {
    let server = |url: &&str| UpstreamServer::at(url);
    let site = Site {
        hosts: vec!["*".into()],
        path_prefix: "/".into(),
        upstreams: urls.iter().map(server).collect(),
        balance: Balance::RoundRobin,
        health: None,
        preserve_host: true,
        set_cookie: None,
        heuristic_fraction: None,
        heuristic_query: None,
        via: true,
        rule: Vec::new(),
        rewrite_location: None,
        ..Site::to("http://u")
    };
    UpstreamGroup::new(&site, 7).expect("the URLs are sound")
}

#[test]
fn failing_upstream_is_out_until_backoff_ends() {
    let group = group(&["http://a", "http://b"]);
    let now = Instant::now();
    for _ in 0..3 {
        group.failed(0, now, &"refused");
    }
    for _ in 0..4 {
        assert_eq!(group.choose(0, &[], now), Some(1));
    }
    let later = now + Duration::from_secs(2);
    let chosen: Vec<_> = (0..2).map(|_| group.choose(0, &[], later).unwrap()).collect();
    assert!(chosen.contains(&0), "asked again after the backoff: {chosen:?}");
    assert_eq!(group.members()[0].failures.value(), 3);
}

#[test]
fn when_all_are_out_one_is_asked_nevertheless() {
    let group = group(&["http://a", "http://b"]);
    let now = Instant::now();
    for index in [0, 1, 0, 1, 0, 1] {
        group.failed(index, now, &"refused");
    }
    let first = group.choose(0, &[], now).expect("fails open");
    let second = group.choose(0, &[first], now).expect("the other one");
    assert_ne!(first, second);
    assert_eq!(group.choose(0, &[first, second], now), None);
    let back = group.back_in(now).expect("all are in a backoff");
    assert!((Duration::from_millis(750)..=Duration::from_millis(1250)).contains(&back), "{back:?}");
    group.answered(0);
    assert_eq!(group.back_in(now), None);
}

#[test]
fn urls_are_checked() {
    for (url, h2c, shown) in [
        ("http://127.0.0.1:8000", false, Some("http://127.0.0.1:8000")),
        ("https://Example.org/", false, Some("https://example.org")),
        ("http://[::1]:81", true, Some("http://[::1]:81")),
        ("https://example.org", true, None),
        ("ftp://example.org", false, None),
        ("example.org:80", false, None),
        ("http://example.org/path/", false, Some("http://example.org/path")),
        ("http://example.org?x", false, None),
        ("http://user@example.org", false, None),
        ("http://:80", false, None),
        ("", false, None),
    ] {
        let read = member::parse(&UpstreamServer { h2c, ..UpstreamServer::at(url) });
        let read = read.ok().map(|(origin, changes)| format!("{origin}{}", changes.prefix));
        assert_eq!(read.as_deref(), shown, "{url}");
    }
}
