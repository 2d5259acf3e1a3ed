//! Requests of pip and uv, and pages as indexes write them.

use super::*;
use crate::registries::testing::{below, converted, promised, rewritten, routed};
use crate::{Digest, Promise};

const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const PIP: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01";

fn mirror() -> Mirror {
    Mirror { external: "http://cache.test/pypi".into(), upstream: "https://index.example/simple".into() }
}

fn asked(path: &str, accept: &str) -> (String, Option<Form>) {
    match routed(&Pypi, &mirror(), "GET", path, accept) {
        Route::Fetch(Fetch { place: Place::Below(path), form_asked, .. }) => (path, form_asked),
        other => panic!("{other:?}"),
    }
}

#[test]
fn spellings_of_a_project_are_one_page() {
    for path in ["/simple/Zope.Interface/", "/simple/zope-interface", "/simple/zope__interface/"] {
        assert_eq!(asked(path, PIP), ("/zope-interface/".into(), Some(Form::PypiJson)));
    }
    assert_eq!(below(routed(&Pypi, &mirror(), "GET", "/simple/", PIP)).0, "/");
    for path in ["/", "/simple/a/b", "/simple/..", "/pypi/a/json"] {
        assert!(matches!(routed(&Pypi, &mirror(), "GET", path, PIP), Route::Refuse(404, _)), "{path}");
    }
}

#[test]
fn accept_and_query_choose_the_form() {
    for (accept, form) in [
        (PIP, Form::PypiJson),
        ("", Form::PypiHtml),
        ("*/*", Form::PypiHtml),
        ("text/html", Form::PypiHtml),
        ("application/vnd.pypi.simple.v1+json;q=0.1, text/html", Form::PypiHtml),
        ("application/vnd.pypi.simple.v1+json;q=0", Form::PypiHtml),
    ] {
        assert_eq!(asked("/simple/a/", accept).1, Some(form), "{accept}");
    }
    assert_eq!(asked("/simple/a/?format=application/vnd.pypi.simple.v1%2Bjson", "").1, Some(Form::PypiJson));
}

#[test]
fn files_are_promised_by_their_project() {
    let route = routed(&Pypi, &mirror(), "GET", "/files/files.example/p/a_b-1.0-py3-none-any.whl", "");
    let Route::Fetch(fetch) = route else { panic!("{route:?}") };
    assert_eq!(fetch.place, Place::Elsewhere("https://files.example/p/a_b-1.0-py3-none-any.whl".into()));
    assert_eq!(fetch.class, Class::File(PromiseSource::In(Place::Below("/a-b/".into()), Form::PypiJson)));
    for path in ["/files/", "/files/a@b/x", "/files/h/../x", "/filesx"] {
        assert!(matches!(routed(&Pypi, &mirror(), "GET", path, ""), Route::Refuse(404, _)), "{path}");
    }
}

fn document() -> String {
    format!(
        r#"{{"meta":{{"api-version":"1.1"}},"name":"a","files":[
 {{"filename":"a-1.tar.gz","url":"https://files.example/p/a-1.tar.gz?x=1","hashes":{{}},"yanked":"bad & old"}},
 {{"filename":"a-2-py3-none-any.whl","url":"../../p/a-2-py3-none-any.whl","hashes":{{"md5":"900150983cd24fb0d6963f7d28e17f72","sha256":"{SHA256}"}},
  "size":7,"upload-time":"2026-01-01T00:00:00.5Z","requires-python":">=3.8","core-metadata":{{"sha256":"{SHA256}"}},"yanked":false}}],
 "versions":["1","2"],"url":"https://untouched.example"}}"#
    )
}

#[test]
fn urls_become_relative_and_nothing_else_changes() {
    let made = document()
        .replace("https://files.example/p/a-1.tar.gz?x=1", "../../files/files.example/p/a-1.tar.gz")
        .replace("\"../../p/a-2", "\"../../files/index.example/p/a-2");
    assert_eq!(rewritten(&Pypi, &mirror(), Form::PypiJson, &document()), made);
}

#[test]
fn page_is_made_from_the_document() {
    let page = converted(&Pypi, &mirror(), (Form::PypiJson, Form::PypiHtml), &document());
    let first =
        r#"<a href="../../files/files.example/p/a-1.tar.gz" data-yanked="bad &amp; old">a-1.tar.gz</a><br>"#;
    let second = format!(
        "<a href=\"../../files/index.example/p/a-2-py3-none-any.whl#sha256={SHA256}\" data-requires-python=\"&gt;=3.8\" \
         data-core-metadata=\"sha256={SHA256}\" data-dist-info-metadata=\"sha256={SHA256}\">a-2-py3-none-any.whl</a><br>"
    );
    assert!(page.contains(first) && page.contains(&second), "{page}");
    // The page can be read again.
    assert!(rewritten(&Pypi, &mirror(), Form::PypiHtml, &page).contains("index.example/files/index.example"));
}

#[test]
fn json_promises_digest_size_and_time() {
    let place = |name: &str| Place::Elsewhere(format!("https://index.example/p/{name}"));
    let wheel = "a-2-py3-none-any.whl";
    let found = promised(&Pypi, &mirror(), Form::PypiJson, &place(wheel), &document()).0;
    let digest = Digest::from_named_hex(&format!("sha256:{SHA256}"));
    let whole = Promise {
        digest: digest.clone(),
        size: Some(7),
        published: Some(1_767_225_600),
        is_withdrawn: false,
    };
    assert_eq!(found, Some(whole.clone()));
    let metadata = place(&format!("{wheel}.metadata"));
    let found = promised(&Pypi, &mirror(), Form::PypiJson, &metadata, &document()).0;
    assert_eq!(found, Some(Promise { size: None, ..whole }));
    let old = Place::Elsewhere("https://files.example/p/a-1.tar.gz".into());
    let found = promised(&Pypi, &mirror(), Form::PypiJson, &old, &document()).0.expect("it is named");
    assert!(found.is_withdrawn && found.digest.is_none());
    assert_eq!(promised(&Pypi, &mirror(), Form::PypiJson, &place("a-3.zip"), &document()).0, None);
}

#[test]
fn links_of_pages_become_relative() {
    let page = format!(
        "<!DOCTYPE html><html><body><h1>a</h1><abbr title=\"<a href='x'>\">\n\
         <A data-requires-python='&gt;=3' HREF = \"/p/a-1.zip?y#sha256={SHA256}\" data-yanked=\"\">a &lt; b</A>\n\
         <a href=https://files.example/a-2.zip>a-2.zip</a><a>none</a></body></html>"
    );
    let made = page
        .replace("/p/a-1.zip?y", "../../files/index.example/p/a-1.zip")
        .replace("https://files.example/a-2.zip", "../../files/files.example/a-2.zip");
    assert_eq!(rewritten(&Pypi, &mirror(), Form::PypiHtml, &page), made);
    let place = Place::Elsewhere("https://index.example/p/a-1.zip".into());
    let found = promised(&Pypi, &mirror(), Form::PypiHtml, &place, &page).0.expect("it is named");
    assert_eq!(found.digest, Digest::from_named_hex(&format!("sha256={SHA256}")));
    assert!(found.is_withdrawn);
}

#[test]
fn torn_pages_are_refused() {
    for (form, document) in [(Form::PypiHtml, "<a href=\"x"), (Form::PypiJson, "{\"files\":[")] {
        let mut rewriter = Pypi.rewriter(&mirror(), form).expect("one");
        let mut output = Vec::new();
        rewriter.push(document.as_bytes(), &mut output).expect("so far");
        assert!(rewriter.finish(&mut output).is_err(), "{document}");
    }
    let mut rewriter = Pypi.rewriter(&mirror(), Form::PypiHtml).expect("one");
    let endless = format!("<a href=\"{}", "x".repeat(100_000));
    assert!(rewriter.push(endless.as_bytes(), &mut Vec::new()).is_err());
}

#[test]
fn own_urls_of_the_index_have_a_path_below_the_mirror() {
    let mirror = Mirror {
        external: "https://index.example/simple".into(),
        upstream: "https://index.example/simple".into(),
    };
    for (rest, path) in [
        ("/a-b/", "/simple/a-b/"),
        ("/", "/simple/"),
        ("/a-b/?format=x", "/simple/a-b/?format=x"),
        ("/a/a-1.tar.gz", "/files/index.example/simple/a/a-1.tar.gz"),
    ] {
        assert_eq!(Pypi.path_of_place(&mirror, rest), path);
    }
    let file = |url| Pypi.path_of_file(&mirror, url);
    let wheel = "https://files.example/p/a_b-1.0-py3-none-any.whl";
    assert_eq!(file(wheel).as_deref(), Some("/files/files.example/p/a_b-1.0-py3-none-any.whl"));
    assert_eq!(file("https://index.example/pypi/a/json"), None);
    assert!(Pypi.rewriter(&mirror, Form::PypiJson).is_none(), "the index's own bytes");
    let json = r#"{"files":[{"filename":"a-1.zip","url":"../../p/a-1.zip","hashes":{"sha256":"00"}}]}"#;
    let html = converted(&Pypi, &mirror, (Form::PypiJson, Form::PypiHtml), json);
    assert!(html.contains("href=\"https://index.example/p/a-1.zip#sha256=00\""), "{html}");
}

/// A file's name, which its uploader chose, stays within its attribute.
#[test]
fn links_cannot_leave_their_attribute() {
    for quote in ["\"", "'"] {
        let link = "/p/a-1.0.zip#x&quot;&#39;&gt;&lt;a href=&quot;https://evil.example/b-1.0.zip";
        let page = format!("<a href={quote}{link}{quote}>a</a>");
        let made = rewritten(&Pypi, &mirror(), Form::PypiHtml, &page);
        assert_eq!(made.matches("<a ").count(), 1, "{made}");
        let inner = made.strip_prefix(&format!("<a href={quote}")).expect("the tag");
        let end = inner.find(['"', '\'']).expect("the end of the value");
        assert_eq!(&inner[end..], format!("{quote}>a</a>"), "{made}");
    }
}

#[test]
fn comments_are_no_tags() {
    let page = format!(
        "<!-- don't <a href=\"/p/a-1.0.zip#sha256={}\"> --><!--><!-- -- - -> -->\n\
         <a href=\"/p/a-1.0.zip#sha256={SHA256}\">a</a>",
        SHA256.replace("ba", "00")
    );
    let made = rewritten(&Pypi, &mirror(), Form::PypiHtml, &page);
    assert!(made.starts_with("<!-- don't <a href=\"/p/"), "{made}");
    assert!(
        made.ends_with(
            "<a href=\"../../files/index.example/p/a-1.0.zip#sha256=BA\">a</a>"
                .replace("BA", SHA256)
                .as_str()
        ),
        "{made}"
    );
    let place = Place::Elsewhere("https://index.example/p/a-1.0.zip".into());
    let found = promised(&Pypi, &mirror(), Form::PypiHtml, &place, &page).0.expect("named");
    assert_eq!(found.digest.expect("a digest").hex(), SHA256);
    let mut links = Pypi.rewriter(&mirror(), Form::PypiHtml).expect("a rewriter");
    links.push(b"<!-- never closed", &mut Vec::new()).expect("so far");
    assert!(links.finish(&mut Vec::new()).is_err());
}
