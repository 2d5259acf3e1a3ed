//! A hit in RAM allocates nothing, however it is asked for and logged; what does allocate does so a
//! known number of times: a hit that is not sent at once, one that goes the ordinary way, a miss.
//!
//! The connection loop is driven over a stream in memory or over loopback ([`rig`]), so that every
//! allocation counted is the loop's, the exchange's or the log's. A connection allocates when it
//! begins; what a request more costs is the difference.

#[path = "hits/rig.rs"]
mod rig;

use allocation_counter::AllocationInfo;
use rig::Rig;
use shoal_settings::{Log, LogFormat};
use shoal_store::memory::LENT_MIN;

const BARE: &str = "GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n";

const BROWSER: &str = "GET /section/page.html?id=1 HTTP/1.1\r\nHost: www.example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.9\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nReferer: http://www.example.org/section/\r\nDNT: 1\r\n\
    Connection: keep-alive\r\nCookie: session=0123456789abcdef; theme=dark\r\n\r\n";

#[test]
fn a_hit_allocates_nothing() {
    check_free(SMALL, |rig, request, times| rig.ask(request.as_bytes(), times));
}

/// Nor on a connection that waits without a task.
#[test]
fn a_hit_of_who_waits_allocates_nothing() {
    check_free(SMALL, |rig, request, times| rig.ask_waiting(request.as_bytes(), times));
}

/// Nor do hits that are answered together, one full round of them and some.
#[test]
fn hits_that_call_together_allocate_nothing() {
    check_free(SMALL, |rig, request, times| rig.ask_together(request.as_bytes(), 20, times.div_ceil(20)));
}

/// Nor one of several variants.
#[test]
fn a_hit_that_varies_allocates_nothing() {
    let rig = Rig::start(unlogged(), (1024, VARIED));
    for ask in [
        |rig: &Rig, times| rig.ask(BROWSER.as_bytes(), times),
        |rig: &Rig, times| rig.ask_http2(BROWSER, times),
    ] {
        ask(&rig, 1);
        let (few, many) = counted(|times| ask(&rig, times));
        assert_eq!((many.count_total, many.bytes_total), (few.count_total, few.bytes_total));
    }
    assert_eq!((rig.metrics.misses.value(), rig.metrics.hits_memory.value()), (1, 2 * ASKED + 1));
}

/// Nor over HTTP/2, body or head or frames.
#[test]
fn a_hit_over_http2_allocates_nothing() {
    check_free(SMALL, Rig::ask_http2);
}

/// Nor a large one that the kernel takes whole, which is as good as always on a connection that is
/// used to them; but for what moves it into large pages. Over HTTP/2 it may still be being sent
/// when the request's bytes are gone.
#[test]
fn a_large_hit_allocates_a_known_number_of_times() {
    for log in logs(tempfile::tempdir().expect("a folder").path()) {
        // What holds the body, and a stream. For the log: the record, its URL and Cache-Status; its
        // Referer and its User-Agent.
        let known = if log.access == "none" { [7.0, 7.0] } else { [10.0, 12.0] };
        for body_bytes in [LENT_MIN, 100_000, 1 << 20] {
            let rig = Rig::start(log.clone(), (body_bytes, FRESH));
            for (request, known) in [BARE, BROWSER].into_iter().zip(known) {
                check_known(0.0, request, |times| rig.ask(request.as_bytes(), times));
                check_known(0.0, request, |times| rig.ask_waiting(request.as_bytes(), times));
                let known = if body_bytes > 128 << 10 { known } else { 0.0 };
                check_known(known, request, |times| rig.ask_http2(request, times));
            }
        }
    }
}

#[test]
fn what_is_less_than_a_whole_hit_allocates_nothing() {
    for (method, field) in [
        ("GET", "If-None-Match: \"0\", \"1024-1\""),
        ("GET", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"),
        ("GET", "Range: bytes=100-199"),
        ("HEAD", "DNT: 1"),
    ] {
        let less = |request: &str| with(&request.replace("GET", method), field);
        check_free(&[1024], |rig, request, times| rig.ask(less(request).as_bytes(), times));
        check_free(&[1024], |rig, request, times| rig.ask_waiting(less(request).as_bytes(), times));
        check_free(&[1024], |rig, request, times| rig.ask_http2(&less(request), times));
    }
}

/// What few ask for goes the ordinary way.
#[test]
fn an_ordinary_hit_allocates_a_known_number_of_times() {
    check_ordinary(ORDINARY_ALLOCATIONS, |request| with(request, "Cache-Control: max-stale"));
    check_ordinary(ORDINARY_ALLOCATIONS, |request| {
        with(request, "Cache-Control: max-stale\r\nIf-None-Match: \"1024-1\"")
    });
}

/// A miss of what may not be stored allocates as little as it is known to: whoever adds to it
/// should know.
#[test]
fn a_miss_allocates_a_known_number_of_times() {
    let rig = Rig::start(unlogged(), (8192, "no-store"));
    for request in [BARE, BROWSER] {
        check_known(MISS_ALLOCATIONS, request, |times| rig.ask(request.as_bytes(), times));
    }
    assert_eq!(rig.metrics.misses.value(), 2 * ASKED);
}

/// The URL, the request on its way, its fields' places, the boxes that it and its fetch wait in,
/// the lines for the origin and the text that is sent, the account of its body, the response's
/// fields' places, the response as it is judged and its body, its lines for the client, the record
/// and what Cache-Status says in it; two for the client's share of the origin's connections, one
/// for the body that may have to give its connection up.
const MISS_ALLOCATIONS: f64 = 17.0;

/// Among them the URL, the request on its way and its fields' places, the record and what
/// Cache-Status says in it.
const ORDINARY_ALLOCATIONS: f64 = 11.0;

/// The same request with one field more.
fn with(request: &str, field: &str) -> String {
    request.replace("\r\n\r\n", &format!("\r\n{field}\r\n\r\n"))
}

/// With every log, hits by `ask` on these bodies cost a connection nothing.
fn check_free(sizes: &[usize], ask: impl Fn(&Rig, &str, u64) -> u64) {
    for log in logs(tempfile::tempdir().expect("a folder").path()) {
        for &body_bytes in sizes {
            let rig = Rig::start(log.clone(), (body_bytes, FRESH));
            for request in [BARE, BROWSER] {
                rig.ask(request.as_bytes(), 1);
                let (few, many) = counted(|times| ask(&rig, request, times));
                assert!(few.count_total > 0, "a connection allocates");
                assert_eq!(
                    (many.count_total, many.bytes_total),
                    (few.count_total, few.bytes_total),
                    "{log:?}, {body_bytes} bytes: {request}"
                );
            }
            assert_eq!(rig.metrics.misses.value(), 2);
            assert!(rig.metrics.hits_memory.value() >= 2 * ASKED);
            assert_eq!(rig.metrics.log_lines_dropped.value(), 0);
        }
    }
}

/// Hits that a request becomes by `asking` for something else cost so many.
fn check_ordinary(known: f64, asking: impl Fn(&str) -> String) {
    let rig = Rig::start(unlogged(), (1024, FRESH));
    for request in [BARE, BROWSER] {
        rig.ask(request.as_bytes(), 1);
        let request = asking(request);
        check_known(known, &request, |times| rig.ask(request.as_bytes(), times));
    }
    assert_eq!((rig.metrics.misses.value(), rig.metrics.hits_memory.value()), (2, 2 * ASKED));
}

/// A request by `ask` costs so many.
fn check_known(known: f64, request: &str, ask: impl Fn(u64) -> u64) {
    let (few, many) = counted(ask);
    let each = (many.count_total as f64 - few.count_total as f64) / (MANY - FEW) as f64;
    // Read buffers are made anew every now and then, when their pieces are still held; and what the
    // kernel takes at first may differ.
    assert!((known - 0.5..known + 0.5).contains(&each), "{each} and not {known}: {request}");
}

/// What few requests cost, and many, once the thread has what it keeps.
fn counted(ask: impl Fn(u64) -> u64) -> (AllocationInfo, AllocationInfo) {
    let measured = |times| {
        allocation_counter::measure(|| {
            ask(times);
        })
    };
    measured(FEW);
    (measured(FEW), measured(MANY))
}

/// None, and one of each format in this folder.
fn logs(folder: &std::path::Path) -> Vec<Log> {
    let access = folder.join("access.log").display().to_string();
    let formats = [LogFormat::Squid, LogFormat::Combined, LogFormat::Json];
    let logged = formats.map(|format| Log { access: access.clone(), format, ..Log::default() });
    [&[unlogged()], &logged[..]].concat()
}

fn unlogged() -> Log {
    Log { access: "none".into(), ..Log::default() }
}

const FRESH: &str = "max-age=86400";

/// With another field behind it.
const VARIED: &str = "max-age=86400\r\nVary: Accept-Encoding, Accept-Language, Cookie";

/// Without a body, with one that is copied behind the head, and with the longest that is copied.
const SMALL: &[usize] = &[0, 1024, LENT_MIN - 1];

const FEW: u64 = 20;

const MANY: u64 = 420;

/// Requests that [`counted`] sends.
const ASKED: u64 = 2 * FEW + MANY;
