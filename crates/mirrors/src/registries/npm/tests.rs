//! Requests of npm's clients, and documents as registries write them.

use super::*;
use crate::Digest;

fn mirror() -> Mirror {
    Mirror { external: "http://cache.test:8080/npm".into(), upstream: "https://npm.example".into() }
}

fn route(method: &str, path: &str, accept: &str) -> Route {
    let field = |name: &str| (name == "accept").then(|| accept.to_owned());
    Npm.route(&mirror(), &Question { method, path, query: None, field: &field })
}

fn place(route: Route) -> (String, Class) {
    match route {
        Route::Fetch(Fetch { place: Place::Below(path), class, .. }) => (path, class),
        other => panic!("{other:?}"),
    }
}

fn rewritten(document: &str) -> String {
    let mut whole = None;
    for piece in [1, 13, document.len()] {
        let (mut rewriter, mut output) = (Npm.rewriter(&mirror(), Form::NpmShort).expect("one"), Vec::new());
        for piece in document.as_bytes().chunks(piece) {
            rewriter.push(piece, &mut output).expect("sound");
        }
        rewriter.finish(&mut output).expect("whole");
        let made = String::from_utf8(output).expect("text");
        assert_eq!(*whole.get_or_insert_with(|| made.clone()), made, "pieces of {piece}");
    }
    whole.expect("three tries")
}

const SHORT: &str = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*";

#[test]
fn spellings_of_a_scope_are_one_key() {
    for path in ["/@a/b", "/@a%2fb", "/@a%2Fb/"] {
        assert_eq!(place(route("GET", path, SHORT)), ("/@a%2fb".into(), Class::Document(Form::NpmShort)));
    }
    for accept in ["", "*/*", "application/json", "application/vnd.npm.install-v1+json; q=0, */*"] {
        assert_eq!(place(route("GET", "/a", accept)), ("/a".into(), Class::Document(Form::NpmFull)));
    }
}

#[test]
fn tarballs_are_promised_by_documents() {
    let forms = [Form::NpmShort, Form::NpmFull].map(|form| (Place::Below("/@a%2fb".into()), form));
    let source = PromiseSource::InOneOf(forms.to_vec());
    let wanted = ("/@a/b/-/b-1.0.0.tgz".into(), Class::File(source));
    assert_eq!(place(route("GET", "/@a%2fb/-/b-1.0.0.tgz", "")), wanted);
    assert_eq!(place(route("HEAD", "/@a/b/-/b-1.0.0.tgz", "")), wanted);
}

#[test]
fn audits_pass_and_writes_are_refused() {
    for path in ["/-/npm/v1/security/advisories/bulk", "/-/npm/v1/security/audits/quick"] {
        assert_eq!(route("POST", path, ""), Route::Pass(Place::Below(path.into())));
    }
    assert!(matches!(route("PUT", "/a", ""), Route::Refuse(405, _)));
    assert!(matches!(route("GET", "/-/v1/search", ""), Route::Pass(_)));
    assert!(matches!(route("GET", "/-/npm/v1/keys", ""), Route::Fetch(_)));
    assert!(matches!(route("GET", "/..", ""), Route::Refuse(404, _)));
    for (path, claim) in [
        ("/-/npm/v1/attestations/a@1", RootClaim::OfKind),
        ("/a/-/a-1.tgz", RootClaim::OfKind),
        ("/a", RootClaim::None),
    ] {
        assert_eq!(Npm.root_claim("/npm", path), claim, "{path}");
    }
}

#[test]
fn tarball_urls_have_the_usual_shape() {
    for (origin, made) in [
        ("https://npm.example/a/-/a-01.0.0.tgz", "http://cache.test:8080/npm/a/-/a-01.0.0.tgz"),
        ("https://npm.example/@s/b/-/b-1.tgz", "http://cache.test:8080/npm/@s/b/-/b-1.tgz"),
        ("https://files.example/x/y/a-1.0.0.tgz?sig=1", "http://cache.test:8080/npm/a/-/a-1.0.0.tgz"),
        ("https://npm.example/download/a/1.0.0/abc", "http://cache.test:8080/npm/a/-/a-1.0.0.tgz"),
        ("https:\\/\\/npm.example\\/a\\/-\\/a-1.tgz", "http://cache.test:8080/npm/a/-/a-1.tgz"),
    ] {
        let document = |url: &str| {
            format!(
                r#"{{"name":"a", "versions":{{"1.0.0":{{"name":"a","dist":{{"tarball":"{url}","n": 1}}}}}},"x":"{origin}"}}"#
            )
        };
        assert_eq!(rewritten(&document(origin)), document(made));
    }
    let version = r#"{"name":"a","dist":{"attestations":{"url":"https://npm.example/-/npm/v1/attestations/a@1"},"tarball":"https://npm.example/a/-/a-1.tgz","signatures":[{"keyid":"k"}]}}"#;
    assert_eq!(rewritten(version), version.replace("https://npm.example", "http://cache.test:8080/npm"));
}

fn promised(document: &str, file: &str) -> (Option<crate::Promise>, Option<Place>) {
    let mut promises = Npm.promises(&mirror(), Form::NpmFull, &Place::Below(file.into())).expect("a tarball");
    document.as_bytes().chunks(7).for_each(|piece| promises.push(piece).expect("sound"));
    (promises.finish().expect("whole"), promises.place())
}

#[test]
fn promise_has_the_strongest_digest_and_the_time() {
    let sri =
        "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==";
    let sha1 = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
    let document = format!(
        r#"{{"name":"a","versions":{{
            "1.0.0":{{"dist":{{"shasum":"{sha1}","tarball":"https://npm.example/a/-/a-1.0.0.tgz"}}}},
            "2.0.0":{{"dist":{{"integrity":"{sri}","shasum":"{sha1}","tarball":"https://cdn.example/2"}}}}}},
            "time":{{"1.0.0":"2015-01-01T00:00:00Z","2.0.0":"2026-01-01T00:00:00.5Z"}}}}"#
    );
    let (first, place) = promised(&document, "/a/-/a-1.0.0.tgz");
    let first = first.expect("promised");
    assert_eq!(
        (first.digest, first.published),
        (Digest::from_named_hex(&format!("sha1:{sha1}")), Some(1_420_070_400))
    );
    assert_eq!(place, Some(Place::Below("/a/-/a-1.0.0.tgz".into())));
    let (second, place) = promised(&document, "/a/-/a-2.0.0.tgz");
    let second = second.expect("promised");
    assert_eq!((second.digest, second.published), (Digest::from_sri(sri), Some(1_767_225_600)));
    assert_eq!(place, Some(Place::Elsewhere("https://cdn.example/2".into())));
    assert_eq!(promised(&document, "/a/-/a-3.0.0.tgz"), (None, None));
}
