//! Range requests: answered from what is stored, whole or in parts (RFC 9110 section 14, RFC 9111
//! sections 3.3, 3.4).

use shoal_testkit::origin::Framing;
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Gate, Origin, Request, Resource, Response, Setup, Shoal};

const SIZE: usize = 10_000;

fn content() -> Vec<u8> {
    body("content", SIZE)
}

fn resource() -> Resource {
    Resource::new(content()).etag("\"v1\"").cache_control("max-age=600").field("Content-Type", "text/plain")
}

fn ranged(path: &str, range: &str) -> Request {
    Request::get(path).field("Range", range)
}

fn expect_part(response: &Response, first: usize, last: usize) {
    response.expect_status(206);
    let expected = format!("bytes {first}-{last}/{SIZE}");
    assert_eq!(response.field("content-range"), Some(expected.as_str()));
    assert!(response.body == content()[first..=last], "bytes {first}-{last} differ");
}

/// A Shoal that holds all of `/r`.
fn holding(origin: &Origin) -> Shoal {
    origin.serve("/r", resource());
    let shoal = Setup::to(origin).start();
    shoal.get("/r").expect_body(content());
    shoal
}

#[test]
fn a_stored_whole_answers_every_form_of_a_range() {
    let origin = Origin::start();
    let shoal = holding(&origin);
    for (range, first, last) in [
        ("bytes=0-0", 0, 0),
        ("bytes=100-199", 100, 199),
        ("bytes=9000-", 9000, SIZE - 1),
        ("bytes=-10", SIZE - 10, SIZE - 1),
        ("bytes=-20000", 0, SIZE - 1),
        ("bytes=9990-20000", 9990, SIZE - 1),
        ("BYTES=5-6", 5, 6),
    ] {
        let response = shoal.ask(&ranged("/r", range));
        expect_part(&response, first, last);
        response.expect_hit();
        assert_eq!(response.field("etag"), Some("\"v1\""), "{range}");
        assert_eq!(response.number("content-length"), Some((last - first + 1) as u64), "{range}");
    }
    assert_eq!(origin.count("/r"), 1);
}

/// RFC 9110 section 15.5.17: "A server that generates a 416 response to a byte-range request SHOULD
/// generate a Content-Range header field specifying the current length of the selected
/// representation".
#[test]
fn a_range_beyond_the_stored_whole_is_416() {
    let origin = Origin::start();
    let shoal = holding(&origin);
    for range in ["bytes=10000-", "bytes=20000-30000", "bytes=-0"] {
        let response = shoal.ask(&ranged("/r", range));
        assert_eq!(response.expect_status(416).field("content-range"), Some("bytes */10000"), "{range}");
        response.expect_hit();
    }
    assert_eq!(origin.count("/r"), 1);
}

/// RFC 9110 section 14.2: "A server MAY ignore the Range header field"; a unit it does not know it
/// MUST ignore, and "an invalid ranges-specifier" too; "A server MUST ignore a Range header field
/// received with a request method that is unrecognized or for which range handling is not defined."
#[test]
fn what_is_no_byte_range_is_answered_whole() {
    let origin = Origin::start();
    let shoal = holding(&origin);
    for range in ["items=0-5", "bytes=", "bytes=a-b", "bytes=5-2", "bytes=1-2-3", "bytes 0-5", "bytes=--5"] {
        let response = shoal.ask(&ranged("/r", range));
        response.expect_body(content()).expect_hit();
    }
    let head = shoal.ask(&Request::new("HEAD", "/r").field("Range", "bytes=0-5"));
    assert_eq!((head.expect_status(200).number("content-length"), head.body.len()), (Some(SIZE as u64), 0));
}

/// RFC 9110 section 14.6: each part "MUST" carry its Content-Range, and the response none of its
/// own.
#[test]
fn several_ranges_come_as_parts() {
    let origin = Origin::start();
    let shoal = holding(&origin);
    let response = shoal.ask(&ranged("/r", "bytes=0-9, 500-519,-5"));
    response.expect_status(206).expect_hit();
    assert_eq!(response.field("content-range"), None);
    let kind = response.field("content-type").unwrap_or_default().to_string();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap_or_else(|| panic!("{kind}"));
    let parts = parts(&response.body, boundary.trim_matches('"'));
    let expected = [(0, 9), (500, 519), (SIZE - 5, SIZE - 1)];
    assert_eq!(parts.len(), expected.len());
    for ((fields, bytes), (first, last)) in parts.iter().zip(expected) {
        assert!(
            fields.to_lowercase().contains(&format!("content-range: bytes {first}-{last}/{SIZE}")),
            "{fields}"
        );
        assert!(fields.to_lowercase().contains("content-type: text/plain"), "{fields}");
        assert!(*bytes == content()[first..=last], "part {first}-{last}");
    }
    assert_eq!(origin.count("/r"), 1);
}

/// The parts of a multipart body: fields and bytes.
fn parts(body: &[u8], boundary: &str) -> Vec<(String, Vec<u8>)> {
    let find = |bytes: &[u8], mark: &[u8]| bytes.windows(mark.len()).position(|window| window == mark);
    let delimiter = format!("--{boundary}").into_bytes();
    let mut rest = &body[find(body, &delimiter).expect("a first boundary") + delimiter.len()..];
    let mut parts = Vec::new();
    while !rest.starts_with(b"--") {
        let end = find(rest, &[b"\r\n", &delimiter[..]].concat()).expect("a boundary after each part");
        let part = &rest[..end];
        let head = find(part, b"\r\n\r\n").expect("fields in each part");
        parts.push((String::from_utf8_lossy(&part[..head]).into_owned(), part[head + 4..].to_vec()));
        rest = &rest[end + 2 + delimiter.len()..];
    }
    parts
}

/// RFC 9110 section 14.2: "A server that supports range requests MAY ignore or reject a Range
/// header field that contains an invalid ranges-specifier, a ranges-specifier with more than two
/// overlapping ranges, or a set of many small ranges".
#[test]
fn many_overlapping_ranges_do_not_multiply_the_body() {
    let origin = Origin::start();
    let shoal = holding(&origin);
    for range in [format!("bytes=0-{}", ",0-".repeat(500)), format!("bytes=0-0{}", ",1-1,3-3".repeat(300))] {
        let response = shoal.ask(&ranged("/r", &range));
        assert!(response.body.len() <= 2 * SIZE, "{} bytes, status {}", response.body.len(), response.status);
        assert!(matches!(response.status, 200 | 206 | 416 | 400), "{}", response.status);
    }
}

/// RFC 9110 section 13.1.5: when the If-Range condition is false, "the recipient MUST ignore the
/// Range header field"; "A client MUST NOT generate an If-Range header field containing an entity
/// tag that is marked as weak", and a weak tag never compares equal strongly.
#[test]
fn if_range_decides_between_part_and_whole() {
    let origin = Origin::start();
    let modified = "Sat, 29 Oct 1994 19:43:31 GMT";
    origin.serve("/r", resource().last_modified(modified));
    let shoal = Setup::to(&origin).start();
    shoal.get("/r").expect_body(content());
    for (condition, status) in [
        ("\"v1\"", 206),
        ("\"v2\"", 200),
        ("W/\"v1\"", 200),
        (modified, 206),
        ("Sat, 29 Oct 1994 19:43:30 GMT", 200),
        ("Sat, 29 Oct 1994 19:43:32 GMT", 200),
        ("nonsense", 200),
    ] {
        let response = shoal.ask(&ranged("/r", "bytes=0-9").field("If-Range", condition));
        response.expect_status(status).expect_hit();
        assert_eq!(response.body.len(), if status == 206 { 10 } else { SIZE }, "{condition}");
    }
    assert_eq!(origin.count("/r"), 1);
}

#[test]
fn a_stored_part_answers_itself_and_what_lies_within_it() {
    let origin = Origin::start();
    origin.serve("/r", resource());
    let shoal = Setup::to(&origin).start();
    expect_part(&shoal.ask(&ranged("/r", "bytes=1000-1999")), 1000, 1999);
    for (range, first, last) in [("bytes=1000-1999", 1000, 1999), ("bytes=1200-1300", 1200, 1300)] {
        let response = shoal.ask(&ranged("/r", range));
        expect_part(&response, first, last);
        response.expect_hit();
    }
    assert_eq!(origin.count("/r"), 1);
}

/// RFC 9111 section 3.4: "A cache MAY combine these responses into a single stored response, and
/// reuse that response to satisfy later requests, if they all share the same strong validator".
#[test]
fn stored_parts_are_combined() {
    let origin = Origin::start();
    origin.serve("/r", resource());
    let shoal = Setup::to(&origin).start();
    expect_part(&shoal.ask(&ranged("/r", "bytes=0-999")), 0, 999);
    expect_part(&shoal.ask(&ranged("/r", "bytes=1000-1999")), 1000, 1999);
    let across = shoal.ask(&ranged("/r", "bytes=900-1099"));
    expect_part(&across, 900, 1099);
    across.expect_hit();
    assert_eq!(origin.count("/r"), 2);
}

/// RFC 9111 section 3.3: "A cache MAY complete a stored incomplete response by making a subsequent
/// range request".
#[test]
fn a_whole_is_completed_by_asking_for_what_is_missing() {
    let origin = Origin::start();
    origin.serve("/r", resource());
    let shoal = Setup::to(&origin).start();
    expect_part(&shoal.ask(&ranged("/r", "bytes=0-3999")), 0, 3999);
    let whole = shoal.get("/r");
    whole.expect_body(content()).expect_forwarded("partial");
    let asked = origin.last("/r").fields;
    let range = asked.first("range").unwrap_or_default();
    assert!(matches!(range, "bytes=4000-" | "bytes=4000-9999"), "{range}");
    assert_eq!(asked.first("if-range"), Some("\"v1\""));
    shoal.get("/r").expect_body(content()).expect_hit();
    expect_part(&shoal.ask(&ranged("/r", "bytes=3990-4009")), 3990, 4009);
    assert_eq!(origin.count("/r"), 2);
}

/// Who fetches an object in pieces guards each with If-Match: a part of another version than it
/// names must not answer.
#[test]
fn a_stored_part_does_not_answer_for_the_version_that_if_match_names() {
    let origin = Origin::start();
    origin.serve("/r", resource());
    let shoal = Setup::to(&origin).start();
    expect_part(&shoal.ask(&ranged("/r", "bytes=0-3999")), 0, 3999);
    let second = body("changed", SIZE);
    origin.serve("/r", Resource::new(second.clone()).etag("\"v2\"").cache_control("max-age=600"));
    let guarded = shoal.ask(&ranged("/r", "bytes=0-9").field("If-Match", "\"v2\""));
    assert!(guarded.expect_status(206).body == second[..10], "bytes of another version than was named");
    assert_eq!(origin.last("/r").fields.first("if-match"), Some("\"v2\""));
    let cached =
        ranged("/r", "bytes=0-9").field("If-Match", "\"v1\"").field("Cache-Control", "only-if-cached");
    shoal.ask(&cached).expect_status(504);
    assert_eq!(origin.count("/r"), 2);
}

#[test]
fn parts_of_different_versions_are_never_mixed() {
    for second in [
        Resource::new(body("changed", SIZE)).etag("\"v2\"").cache_control("max-age=600"),
        Resource::new(body("changed", SIZE)).etag("\"v2\"").cache_control("max-age=600").without_ranges(),
    ] {
        let origin = Origin::start();
        origin.serve("/r", resource());
        let shoal = Setup::to(&origin).start();
        expect_part(&shoal.ask(&ranged("/r", "bytes=0-3999")), 0, 3999);
        origin.serve("/r", second);
        shoal.get("/r").expect_body(body("changed", SIZE));
        shoal.get("/r").expect_body(body("changed", SIZE));
        let part = shoal.ask(&ranged("/r", "bytes=0-9"));
        assert!(part.expect_status(206).body == body("changed", SIZE)[..10], "the old part is gone");
    }
}

/// An origin that ignores If-Range and sends a part of another version: what it sends must not be
/// joined.
#[test]
fn a_part_with_another_entity_tag_does_not_complete() {
    let origin = Origin::start();
    origin.serve("/r", resource());
    let shoal = Setup::to(&origin).start();
    expect_part(&shoal.ask(&ranged("/r", "bytes=0-3999")), 0, 3999);
    origin.on_request("/r", |request| {
        let changed = body("changed", SIZE);
        match request.fields.has("range") {
            true => Answer::new(206)
                .piece(&changed[4000..])
                .field("Content-Range", "bytes 4000-9999/10000")
                .field("ETag", "\"v2\""),
            false => Answer::fresh(changed, 600).field("ETag", "\"v2\""),
        }
    });
    let response = shoal.get("/r");
    let mixed = [&content()[..4000], &body("changed", SIZE)[4000..]].concat();
    assert!(response.body != mixed, "two versions were joined");
    assert!(!response.complete() || response.status >= 500 || response.body == body("changed", SIZE));
}

#[test]
fn parts_without_a_strong_validator_are_not_combined() {
    for resource in [
        Resource::new(content()).cache_control("max-age=600"),
        Resource::new(content()).cache_control("max-age=600").etag("W/\"v1\""),
    ] {
        let origin = Origin::start();
        origin.serve("/r", resource);
        let shoal = Setup::to(&origin).start();
        expect_part(&shoal.ask(&ranged("/r", "bytes=0-999")), 0, 999);
        expect_part(&shoal.ask(&ranged("/r", "bytes=1000-1999")), 1000, 1999);
        let across = shoal.ask(&ranged("/r", "bytes=900-1099"));
        expect_part(&across, 900, 1099);
        assert!(!across.hit());
    }
}

/// RFC 9111 section 3.3: "A cache MUST NOT use an incomplete response to answer requests unless the
/// response has been made complete, or the request is partial and specifies a range wholly within
/// the incomplete response."
#[test]
fn a_stored_part_never_answers_as_a_whole() {
    let origin = Origin::start();
    origin.serve("/r", resource().without_ranges());
    origin.on_each(
        "/p",
        [
            Answer::new(206)
                .piece(&content()[..100])
                .field("Content-Range", "bytes 0-99/10000")
                .field("Cache-Control", "max-age=600"),
            Answer::fresh(content(), 600),
        ],
    );
    let shoal = Setup::to(&origin).start();
    expect_part(&shoal.ask(&ranged("/p", "bytes=0-99")), 0, 99);
    shoal.get("/p").expect_body(content());
    assert_eq!(origin.count("/p"), 2);
}

/// What completes a stored part is asked for with a range that the client did not send: an answer
/// to it that cannot be used is not for the client.
#[test]
fn an_answer_to_the_completing_range_is_never_the_clients() {
    let part = || Answer::new(206).piece(&content()[4000..]).field("Content-Range", "bytes 4000-9999/10000");
    for unusable in [
        part().field("ETag", "\"v1\"").field("Cache-Control", "no-store"),
        Answer::new(416).field("Content-Range", "bytes */10000"),
    ] {
        let origin = Origin::start();
        origin.serve("/r", resource());
        let shoal = Setup::to(&origin).start();
        expect_part(&shoal.ask(&ranged("/r", "bytes=0-3999")), 0, 3999);
        origin.on_request("/r", move |request| match request.fields.has("range") {
            true => unusable.clone(),
            false => Answer::fresh(content(), 600),
        });
        shoal.get("/r").expect_status(200).expect_body(content());
    }
}

/// RFC 9110 section 15.3.7.1: "the Content-Range header field […] describes what range of the
/// selected representation is enclosed". Chunks that add up to something else are no part that
/// anybody could use.
#[test]
fn a_part_of_another_length_than_its_content_range_is_cut_and_not_stored() {
    for pieces in [&["01234", "56789", "abcde"][..], &["01234", "567"]] {
        let origin = Origin::start();
        let part = Answer::new(206).framed(Framing::Chunked).field("ETag", "\"v1\"");
        let part = part.field("Content-Range", "bytes 0-9/100").field("Cache-Control", "max-age=600");
        origin.on("/p", pieces.iter().fold(part, |part, piece| part.piece(*piece)));
        let shoal = Setup::to(&origin).start();
        for _ in 0..2 {
            let response = shoal.ask(&ranged("/p", "bytes=0-9"));
            assert!(!response.complete(), "{pieces:?} became {}", response.text());
        }
        assert_eq!(origin.count("/p"), 2, "{pieces:?}");
    }
}

/// With RAM taken by others and no disk, a body is sent on as it comes. Ranges asked for against
/// its order must not wait for each other.
#[test]
fn ranges_against_the_order_of_an_arriving_body_are_sent() {
    let (origin, gate) = (Origin::start(), Gate::new());
    let large = body("/large", 1_040_000);
    let held = Answer::fresh(&large[..1_000_000], 60).wait_for(&gate).piece(&large[1_000_000..]);
    origin.on("/held/*", held);
    origin.on("/large", Answer::fresh(large.clone(), 60));
    let shoal = Setup::to(&origin).set("cache.ram", "4 MiB").set("store.directory", "").start();
    let others: Vec<_> = (0..6)
        .map(|number| {
            let mut client = shoal.connect();
            client.send(Request::get(&format!("/held/{number}")).to_bytes("site.test"));
            assert_eq!(client.head().map(|head| head.status), Ok(200));
            assert!(client.exactly(1_000_000).is_ok());
            client
        })
        .collect();
    let response = shoal.ask(&ranged("/large", "bytes=900000-900009,0-9"));
    response.expect_status(206);
    for bytes in [&large[900_000..900_010], &large[..10]] {
        assert!(response.body.windows(10).any(|window| window == bytes), "a range is missing");
    }
    gate.open();
    drop(others);
}

#[test]
fn an_origin_without_ranges_is_cached_whole() {
    let origin = Origin::start();
    origin.serve("/r", resource().without_ranges());
    let shoal = Setup::to(&origin).start();
    let first = shoal.ask(&ranged("/r", "bytes=10-19"));
    match first.status {
        200 => assert!(first.body == content()),
        _ => expect_part(&first, 10, 19),
    }
    let second = shoal.ask(&ranged("/r", "bytes=20-29"));
    expect_part(&second, 20, 29);
    // the part may have been sent before all of the rest had come; then the second shares the first
    // one's fetch
    let cache = second.cache();
    assert!(cache.is("hit") || cache.is("collapsed"), "{:?}", second.fields);
    assert_eq!(origin.count("/r"), 1);
}

#[test]
fn ranges_of_a_large_object_on_disk_are_exact() {
    let origin = Origin::start();
    let large = body("/large", 5_000_000);
    origin.serve("/large", Resource::new(large.clone()).etag("\"l\"").cache_control("max-age=600"));
    let shoal = Setup::to(&origin).set("cache.ram_object_max", "64 KiB").start();
    shoal.get("/large").expect_body(&large);
    for (first, last) in [(0, 0), (65_535, 65_536), (1_000_000, 2_500_000), (4_999_999, 4_999_999)] {
        let response = shoal.ask(&ranged("/large", &format!("bytes={first}-{last}")));
        assert!(response.expect_status(206).body == large[first..=last], "{first}-{last}");
    }
    assert_eq!(origin.count("/large"), 1);
}

/// What nobody can tell the meaning of is not obeyed, from the origin as little as from the cache.
#[test]
fn several_range_lines_ask_for_the_whole_on_a_miss_as_on_a_hit() {
    let origin = Origin::start();
    origin.serve("/r", resource());
    let shoal = Setup::to(&origin).start();
    let request = ranged("/r", "bytes=0-9").field("Range", "bytes=20-29");
    shoal.ask(&request).expect_status(200).expect_body(content());
    assert_eq!(origin.last("/r").fields.all("range"), [""; 0]);
    shoal.ask(&request).expect_status(200).expect_body(content()).expect_hit();
}

/// The whole that an origin sends in place of a missing stretch, with what is for the client alone
/// who asked.
#[test]
fn a_whole_in_place_of_a_gap_has_the_fields_of_the_client_who_asked() {
    let origin = Origin::start();
    let part = Answer::new(206)
        .field("ETag", "\"v1\"")
        .field("Cache-Control", "max-age=600")
        .field("Content-Range", "bytes 0-9/20")
        .piece("0123456789");
    let whole = Answer::fresh("abcdefghijklmnopqrst", 600)
        .field("ETag", "\"v2\"")
        .field("Cache-Control", "private=\"Set-Cookie\"")
        .field("Set-Cookie", "id=1");
    origin.on_each("/r", [part, whole]);
    let shoal = Setup::to(&origin).start();
    shoal.ask(&ranged("/r", "bytes=0-9")).expect_status(206);
    let own = shoal.get("/r");
    own.expect_status(200).expect_body("abcdefghijklmnopqrst");
    assert_eq!(own.field("set-cookie"), Some("id=1"));
    assert_eq!(origin.last("/r").fields.first("range"), Some("bytes=10-19"));
    let others = shoal.get("/r");
    others.expect_body("abcdefghijklmnopqrst").expect_hit();
    assert_eq!(others.field("set-cookie"), None);
}

/// Of a URL whose responses are not stored the client's own conditions go along; a field that is no
/// list, as If-Range, must not stand twice (RFC 9110 section 5.3), and there are origins that
/// refuse such a request.
#[test]
fn an_if_range_reaches_the_origin_once() {
    let origin = Origin::start();
    origin.serve("/r", Resource::new(content()).etag("\"v1\"").cache_control("no-store"));
    let shoal = Setup::to(&origin).start();
    shoal.get("/r").expect_body(content());
    let request = ranged("/r", "bytes=0-9").field("If-Range", "\"v1\"");
    expect_part(&shoal.ask(&request), 0, 9);
    assert_eq!(origin.last("/r").fields.all("if-range"), ["\"v1\""]);
    shoal.ask(&Request::get("/r").field("If-Range", "\"v1\"")).expect_body(content());
    assert!(!origin.last("/r").fields.has("if-range"), "without a Range it means nothing");
}

/// RFC 9110 section 15.3.7: in a 206 to an If-Range "the sender SHOULD NOT generate other
/// representation header fields beyond those required"; RFC 9111 section 3.4 has the cache keep
/// those that it had.
#[test]
fn a_part_that_says_little_leaves_what_others_said() {
    let origin = Origin::start();
    origin.on_request("/r", |request| {
        let mut answer = resource().answer(request);
        if request.fields.has("if-range") {
            answer.fields.0.retain(|(name, _)| name != "Content-Type");
        }
        answer
    });
    let shoal = Setup::to(&origin).start();
    expect_part(&shoal.ask(&ranged("/r", "bytes=0-3999")), 0, 3999);
    for _ in 0..2 {
        let whole = shoal.get("/r");
        assert_eq!(whole.expect_body(content()).field("content-type"), Some("text/plain"));
    }
    assert_eq!(origin.count("/r"), 2);
}
