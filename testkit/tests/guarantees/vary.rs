//! Vary: which stored response a request selects (RFC 9111 section 4.1).

use shoal_testkit::{Answer, Connection, Origin, Request, Resource, Setup, Shoal};

fn varying(origin: &Origin, path: &str, field: &'static str) {
    origin.on_request(path, move |request| {
        Answer::fresh(request.fields.joined(field), 60).field("Vary", field)
    });
}

fn with(path: &str, fields: &[(&str, &str)]) -> Request {
    fields.iter().fold(Request::get(path), |request, (name, value)| request.field(name, value))
}

/// RFC 9111 section 4.1: "the cache MUST NOT use that stored response without revalidation unless
/// all the presented request header fields nominated by that Vary field value match those fields in
/// the original request".
#[test]
fn each_of_many_variants_is_stored_and_selected_apart() {
    let origin = Origin::start();
    varying(&origin, "/v", "X-Variant");
    let shoal = Setup::to(&origin).start();
    let request = |number: usize| with("/v", &[("X-Variant", &format!("variant {number}"))]);
    for number in 0..64 {
        let answer = shoal.ask(&request(number));
        answer.expect_body(format!("variant {number}"));
        answer.expect_forwarded(if number == 0 { "uri-miss" } else { "vary-miss" });
    }
    for number in (0..64).rev() {
        shoal.ask(&request(number)).expect_body(format!("variant {number}")).expect_hit();
    }
    assert_eq!(origin.count("/v"), 64);
}

fn check_match(
    shoal: &Shoal,
    origin: &Origin,
    path: &str,
    stored: &[(&str, &str)],
    asked: &[(&str, &str)],
    hit: bool,
) {
    shoal.ask(&with(path, stored)).expect_status(200);
    assert_eq!(origin.count(path), 1);
    let answer = shoal.ask(&with(path, asked));
    assert_eq!(answer.hit(), hit, "stored for {stored:?}, asked with {asked:?}");
    assert_eq!(origin.count(path), if hit { 1 } else { 2 });
}

/// RFC 9111 section 4.1: fields match when they can be transformed into each other by "adding or
/// removing whitespace, where allowed in the header field's syntax", "combining multiple header
/// field lines with the same field name", "normalizing both header field values in a way that is
/// known to have identical semantics".
#[test]
fn fields_match_when_they_mean_the_same() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    type Pairs = &'static [(&'static str, &'static str)];
    let cases: [(&'static str, Pairs, Pairs, bool); 9] = [
        ("Accept-Language", &[("Accept-Language", "en, fr")], &[("accept-language", "en,fr")], true),
        (
            "Accept-Language",
            &[("Accept-Language", "en, fr")],
            &[("Accept-Language", "en"), ("Accept-Language", "fr")],
            true,
        ),
        ("Accept-Language", &[("Accept-Language", "en")], &[("Accept-Language", "fr")], false),
        ("Accept-Language", &[("Accept-Language", "en")], &[], false),
        ("Accept-Language", &[], &[], true),
        ("Accept-Language", &[], &[("Accept-Language", "")], false),
        ("X-A, X-B", &[("X-A", "1"), ("X-B", "2")], &[("X-B", "2"), ("X-A", "1")], true),
        ("X-A, X-B", &[("X-A", "1"), ("X-B", "2")], &[("X-A", "2"), ("X-B", "1")], false),
        ("x-unasked", &[("X-Other", "1")], &[("X-Other", "2")], true),
    ];
    for (number, (vary, stored, asked, hit)) in cases.into_iter().enumerate() {
        let path = format!("/match/{number}");
        varying(&origin, &path, vary);
        check_match(&shoal, &origin, &path, stored, asked, hit);
    }
}

/// RFC 9111 section 4.1: "A stored response with a Vary header field value containing a member "*"
/// always fails to match."
#[test]
fn vary_star_never_matches() {
    let origin = Origin::start();
    for (path, vary) in [("/star", "*"), ("/among", "Accept, *")] {
        origin.on(path, Answer::fresh("body", 60).field("Vary", vary));
        let shoal = Setup::to(&origin).start();
        shoal.get(path).expect_status(200);
        assert!(!shoal.get(path).hit(), "{vary}");
        assert_eq!(origin.count(path), 2);
    }
}

#[test]
fn several_vary_fields_are_one_list() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60).field("Vary", "X-A").field("Vary", "X-B"));
    let shoal = Setup::to(&origin).start();
    shoal.ask(&with("/a", &[("X-A", "1"), ("X-B", "1")])).expect_status(200);
    shoal.ask(&with("/a", &[("X-A", "1"), ("X-B", "1")])).expect_hit();
    assert!(!shoal.ask(&with("/a", &[("X-A", "1"), ("X-B", "2")])).hit());
}

#[test]
fn responses_of_one_url_may_vary_by_different_fields() {
    let origin = Origin::start();
    origin.on_request("/a", |request| match request.fields.first("x-kind") {
        Some("plain") => Answer::fresh("plain", 60).field("Vary", "X-Kind"),
        _ => Answer::fresh(request.fields.joined("x-user"), 60).field("Vary", "X-Kind, X-User"),
    });
    let shoal = Setup::to(&origin).start();
    let plain = with("/a", &[("X-Kind", "plain"), ("X-User", "ann")]);
    let ann = with("/a", &[("X-Kind", "own"), ("X-User", "ann")]);
    let bob = with("/a", &[("X-Kind", "own"), ("X-User", "bob")]);
    for (request, body) in [(&plain, "plain"), (&ann, "ann"), (&bob, "bob")] {
        shoal.ask(request).expect_body(body);
    }
    for (request, body) in [(&plain, "plain"), (&ann, "ann"), (&bob, "bob")] {
        shoal.ask(request).expect_body(body).expect_hit();
    }
    assert_eq!(origin.count("/a"), 3);
}

#[test]
fn a_variant_is_validated_with_its_own_entity_tag() {
    let origin = Origin::start();
    origin.on_request("/a", |request| {
        let variant = request.fields.joined("x-v");
        let resource = Resource::new(variant.clone()).etag(&format!("\"{variant}\"")).field("Vary", "X-V");
        resource.cache_control("max-age=1").field("Age", "10").answer(request)
    });
    let shoal = Setup::to(&origin).start();
    for variant in ["a", "b"] {
        shoal.ask(&with("/a", &[("X-V", variant)])).expect_body(variant);
    }
    for variant in ["a", "b"] {
        shoal.ask(&with("/a", &[("X-V", variant)])).expect_body(variant).expect_forwarded("stale");
        let asked = origin.last("/a").fields.joined("if-none-match");
        assert!(asked.contains(&format!("\"{variant}\"")), "{asked}");
    }
    shoal.expect_responses("refresh_unmodified", 2);
}

#[test]
fn variants_survive_a_restart() {
    let origin = Origin::start();
    varying(&origin, "/v", "X-V");
    let mut shoal = Setup::to(&origin).start();
    for variant in ["a", "b", "c"] {
        shoal.ask(&with("/v", &[("X-V", variant)])).expect_body(variant);
    }
    shoal_testkit::wait::until("the variants are on disk", || {
        shoal.status()["store"]["space"]["objects"].as_u64() >= Some(4)
    });
    shoal.restart_and_find_all();
    for variant in ["a", "b", "c"] {
        shoal.ask(&with("/v", &[("X-V", variant)])).expect_body(variant).expect_hit();
    }
    assert_eq!(origin.count("/v"), 3);
}

/// RFC 9110 section 7.6.1: what Connection names goes no further than here. The origin has not
/// chosen by it, so that nobody else's variant is chosen by it either.
#[test]
fn a_field_that_connection_takes_out_selects_nothing() {
    let origin = Origin::start();
    varying(&origin, "/v", "X-V");
    let shoal = Setup::to(&origin).start();
    shoal.ask(&with("/v", &[("Connection", "X-V"), ("X-V", "one")])).expect_body("");
    shoal.ask(&with("/v", &[("X-V", "one")])).expect_body("one");
    shoal.ask(&with("/v", &[])).expect_body("").expect_hit();
    assert_eq!(origin.count("/v"), 2);
}

/// A 304 may bring a Vary that the stored response had not: then section 4.1 holds for that.
#[test]
fn a_vary_that_a_validation_brings_is_heeded() {
    let origin = Origin::start();
    origin.on_request("/v", |request| {
        let variant = request.fields.joined("x-v");
        let resource = Resource::new(variant.clone()).etag("\"v\"").cache_control("max-age=60");
        match variant.is_empty() {
            true => resource.field("Age", "100").answer(request),
            false => resource.field("Vary", "X-V").answer(request),
        }
    });
    let shoal = Setup::to(&origin).start();
    shoal.get("/v").expect_status(200);
    let one = with("/v", &[("X-V", "one")]);
    shoal.ask(&one).expect_status(200).expect_forwarded("stale");
    assert!(origin.last("/v").fields.has("if-none-match"), "it was validated");
    shoal.ask(&with("/v", &[("X-V", "two")])).expect_body("two");
    shoal.ask(&one).expect_body("one");
}

/// The origin chose by the address that this proxy told it.
#[test]
fn what_varies_by_the_clients_address_is_one_clients() {
    let origin = Origin::start();
    varying(&origin, "/v", "X-Forwarded-For");
    let proxied = "mode = 'reverse'\nproxy_protocol_from = ['127.0.0.0/8']";
    let shoal = Setup::to(&origin).listen("proxied", proxied).start();
    let ask = |client: &str| {
        let mut connection = Connection::open(shoal.address("proxied"));
        connection.send(format!("PROXY TCP4 {client} 192.0.2.1 4000 80\r\n"));
        connection.ask(&Request::get("/v"), "site.test")
    };
    for client in ["192.0.2.7", "192.0.2.8"] {
        ask(client).expect_body(client);
        ask(client).expect_body(client).expect_hit();
    }
    assert_eq!(origin.count("/v"), 2);
}
