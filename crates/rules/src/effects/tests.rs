//! Requests and responses as rules change them.

use super::*;

fn lines(fields: &[(&str, &str)]) -> FieldLines {
    fields.iter().copied().collect()
}

fn shown(fields: &FieldLines) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.lines().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
}

const VALUES: Values<'_> = Values {
    scheme: "https",
    host: "a.test",
    path: "/x",
    query: "q=1",
    url: "https://a.test/x?q=1",
    client: "192.0.2.1",
    certificate: "CN=ann",
};

fn globs(texts: &[&str]) -> Arc<[Glob]> {
    texts.iter().map(|text| Glob::parse(text).expect("a pattern")).collect()
}

#[test]
fn accept_fields_are_folded() {
    let offers: Arc<[String]> = ["br".to_owned(), "gzip".to_owned()].into();
    let fold = RequestEffects { accept_encoding: Some(offers), ..RequestEffects::default() };
    for (said, asked) in [
        ("gzip, deflate, br", vec!["accept-encoding: br"]),
        ("gzip;q=0.8", vec!["accept-encoding: gzip"]),
        ("br;q=0, gzip", vec!["accept-encoding: gzip"]),
        ("br;q=0.0, deflate", vec![]),
        ("zstd", vec![]),
    ] {
        let edited = fold.edited_fields(&lines(&[("accept-encoding", said)]), &VALUES).expect("edited");
        assert_eq!(shown(&edited), asked, "{said}");
    }
    assert!(fold.edited_fields(&lines(&[]), &VALUES).is_none());
    let languages: Arc<[String]> = ["de".to_owned(), "en".to_owned()].into();
    let fold = RequestEffects { accept_language: Some(languages), ..RequestEffects::default() };
    let edited = fold.edited_fields(&lines(&[("accept-language", "en-GB,en;q=0.9,de-AT;q=0.1")]), &VALUES);
    assert_eq!(shown(&edited.expect("edited")), ["accept-language: de"]);
}

#[test]
fn cookies_that_do_not_count_go() {
    let keep = |names: &[&str]| RequestEffects { cookies: Some(globs(names)), ..RequestEffects::default() };
    let sent = lines(&[("cookie", "_ga=1; theme=dark"), ("x", "y"), ("cookie", "lang=de")]);
    let edited = |names: &[&str]| shown(&keep(names).edited_fields(&sent, &VALUES).expect("edited"));
    assert_eq!(edited(&["theme", "lang"]), ["cookie: lang=de; theme=dark", "x: y"]);
    assert_eq!(edited(&["none"]), ["x: y"]);
    assert_eq!(edited(&[]), ["x: y"]);
    assert_eq!(keep(&["lang"]).selecting().collect::<Vec<_>>(), [&COOKIE]);
    assert_eq!(keep(&[]).selecting().count(), 0);
}

#[test]
fn fields_are_set_added_and_removed() {
    let mut edits = FieldEdits::default();
    let value = |text: &str| Template::parse(text).expect("a template");
    edits.push(HeaderName::from_static("a"), FieldEdit::Set(value("$scheme://$host$path $$5")));
    edits.push(HeaderName::from_static("b"), FieldEdit::Add(value("$client")));
    edits.push(HeaderName::from_static("c"), FieldEdit::Remove);
    let edited = edits.apply(&lines(&[("a", "1"), ("b", "2"), ("c", "3"), ("a", "4")]), &VALUES);
    assert_eq!(shown(&edited.expect("edited")), ["b: 2", "a: https://a.test/x $5", "b: 192.0.2.1"]);
    assert!(Template::parse("$nothing").is_err() && Template::parse("a\r\nb: c").is_err());
}

#[test]
fn values_bring_no_control_characters() {
    let template = Template::parse("x$path").expect("a template");
    assert_eq!(template.fill(&Values { path: "/a\r\nb\u{85}", ..VALUES }), "x/ab");
}

#[test]
fn vary_loses_and_gains_names() {
    let ignore = |names: &[&'static str]| ResponseEffects {
        ignore_vary: Some(
            names.iter().map(|name| HeaderName::from_bytes(name.as_bytes()).expect("a name")).collect(),
        ),
        ..ResponseEffects::default()
    };
    let response = lines(&[("vary", "User-Agent, Accept-Encoding"), ("x", "y")]);
    let edited = ignore(&["user-agent"]).edited_fields(&response, &[], &VALUES).expect("edited");
    assert_eq!(shown(&edited), ["vary: Accept-Encoding", "x: y"]);
    let edited = ResponseEffects::default().edited_fields(&lines(&[("x", "y")]), &[COOKIE], &VALUES);
    assert_eq!(shown(&edited.expect("edited")), ["x: y", "vary: cookie"]);
    let edited = ignore(&["*"]).edited_fields(&response, &[], &VALUES).expect("edited");
    assert_eq!(shown(&edited), ["x: y"]);
}

#[test]
fn upstream_paths_are_moved() {
    let moved = |strip: &str, add: &str, path: &str| {
        let prefix = |text: &str| (!text.is_empty()).then(|| Arc::from(text));
        let effects = RequestEffects {
            upstream_strip: prefix(strip),
            upstream_add: prefix(add),
            ..RequestEffects::default()
        };
        effects.upstream_path(path)
    };
    for (strip, add, path, asked) in [
        ("/npm", "", "/npm/left-pad?x=1", "/left-pad?x=1"),
        ("/npm/", "/registry/", "/npm/left-pad", "/registry/left-pad"),
        ("/npm", "", "/npm", "/"),
        ("/npm", "", "/npm?x", "/?x"),
        ("/npm", "", "/npmx", "/npmx"),
        ("", "/simple", "/a", "/simple/a"),
        ("/npm", "/registry", "/npm/../npm/../npm/x", "/registry/x"),
        ("/npm", "/registry", "/%6epm/x?a=/../b", "/registry/x?a=/../b"),
    ] {
        assert_eq!(moved(strip, add, path).as_deref(), Some(asked), "{strip} {add} {path}");
    }
    assert_eq!(moved("", "", "/a"), None);
}

#[test]
fn certificates_have_a_variable() {
    let template = Template::parse("$client_certificate|$client|$client_x").expect("known names");
    assert_eq!(template.fill(&VALUES), "CN=ann|192.0.2.1|192.0.2.1_x");
    assert!(Template::parse("$client_certificate").expect("known").names_client());
}
