//! Requests of cargo, and `config.json` as registries write it.

use super::*;
use crate::registries::testing::{below, promised, rewritten, routed};

const HEX: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn mirror() -> Mirror {
    Mirror { external: "http://cache.test/cargo".into(), upstream: "https://index.example".into() }
}

fn file(rest: &str) -> String {
    format!("/crates/{rest}/{HEX}/download")
}

#[test]
fn index_paths_follow_the_name() {
    for path in ["/config.json", "/1/a", "/2/ab", "/3/a/abc", "/se/rd/serde", "/a-/b_/a-b_c"] {
        let (place, class) = below(routed(&Cargo, &mirror(), "GET", path, ""));
        assert_eq!(place, path);
        assert!(matches!(class, Class::Document(_)));
    }
    for path in
        ["/", "/serde", "/se/rd/Serde", "/SE/rd/serde", "/1/ab", "/3/b/abc", "/se/rd/serde/", "/se/rd/ser.de"]
    {
        assert!(matches!(routed(&Cargo, &mirror(), "GET", path, ""), Route::Refuse(404, _)), "{path}");
    }
    assert!(matches!(routed(&Cargo, &mirror(), "PUT", "/api/v1/crates/new", ""), Route::Refuse(405, _)));
}

#[test]
fn crate_files_carry_their_digest() {
    let (_, class) = below(routed(&Cargo, &mirror(), "GET", &file("Foo_x/1.0.0-rc.1+a"), ""));
    assert_eq!(class, Class::File(PromiseSource::In(Place::Below("/config.json".into()), Form::CargoConfig)));
    for path in [file("a"), file("a/b/c"), file("../1"), file("a/1/x"), file("a/1").replace("ba78", "zz78")] {
        assert!(matches!(routed(&Cargo, &mirror(), "GET", &path, ""), Route::Refuse(404, _)), "{path}");
    }
    assert_eq!(Cargo.packages(&mirror(), &file("Serde_X/1.0.0")), ["serde-x"]);
    assert_eq!(Cargo.packages(&mirror(), "/se/rd/serde_x"), ["serde-x"]);
}

#[test]
fn downloads_lead_to_the_mirror() {
    let document =
        r#"{ "dl": "https://static.example/crates", "api": "https://index.example/api", "x": {"dl": 1}}"#;
    let own = "http://cache.test/cargo/crates/{crate}/{version}/{sha256-checksum}/download";
    let made = document.replace("https://static.example/crates", own);
    assert_eq!(rewritten(&Cargo, &mirror(), Form::CargoConfig, document), made);
}

#[test]
fn origin_place_follows_its_template() {
    let place = Place::Below(file("Serde/1.0.0+x"));
    for (template, url) in [
        ("https://static.example/crates", "https://static.example/crates/Serde/1.0.0%2Bx/download"),
        (
            "https://a.example/{crate}/{crate}-{version}.crate",
            "https://a.example/Serde/Serde-1.0.0%2Bx.crate",
        ),
        ("https://a.example/{prefix}/{lowerprefix}", "https://a.example/Se/rd/se/rd"),
        ("https://a.example/{sha256-checksum}", &format!("https://a.example/{HEX}")),
    ] {
        let document = format!(r#"{{"dl":"{template}"}}"#);
        let (promise, found) = promised(&Cargo, &mirror(), Form::CargoConfig, &place, &document);
        assert_eq!(
            promise.and_then(|promise| promise.digest).map(|digest| digest.hex()).as_deref(),
            Some(HEX)
        );
        assert_eq!(found, Some(Place::Elsewhere(url.to_owned())));
    }
    assert_eq!(promised(&Cargo, &mirror(), Form::CargoConfig, &place, "{}"), (None, None));
}

#[test]
fn index_lines_have_times() {
    let line = |version: &str, rest: &str| {
        format!(
            "{{\"name\":\"a\",\"vers\":\"{version}\",\"deps\":[],\"cksum\":\"{HEX}\",\"yanked\":false{rest}}}\n"
        )
    };
    let (old, undated) = (line("1.0.0", ",\"pubtime\":\"2026-01-01T00:00:00Z\""), line("1.0.1", ""));
    let document = format!("{old}{undated}not json\n");
    let mut survey = Cargo.survey(Form::CargoIndex).expect("one");
    survey.push(document.as_bytes()).expect("sound");
    let facts = survey.finish().expect("whole");
    let versions = [("1.0.0", Some(1_767_225_600)), ("1.0.1", None), ("", None)];
    assert_eq!(facts.versions, versions.map(|(version, time)| (version.to_owned(), time)));
    let kept = ["1.0.0".to_owned()].into_iter().collect();
    let (mut selection, _) = Cargo.selected(&mirror(), Form::CargoIndex, &facts, kept).expect("one");
    let mut output = Vec::new();
    selection.push(document.as_bytes(), &mut output).expect("sound");
    selection.finish(&mut output).expect("whole");
    assert_eq!(String::from_utf8(output).expect("text"), old);
    for (version, published) in [("1.0.0", Some(Some(1_767_225_600))), ("1.0.1", Some(None)), ("1.0.2", None)]
    {
        let place = Place::Below(file(&format!("a/{version}")));
        assert_eq!(Cargo.times_of(&place), [(Place::Below("/1/a".into()), Form::CargoIndex)]);
        let found = promised(&Cargo, &mirror(), Form::CargoIndex, &place, &document).0;
        assert_eq!(found.map(|promise| promise.published), published, "{version}");
    }
    // A file of another digest is not the index's.
    let other = Place::Below(file("a/1.0.0").replace("ba78", "aa78"));
    assert_eq!(promised(&Cargo, &mirror(), Form::CargoIndex, &other, &document).0, None);
}
