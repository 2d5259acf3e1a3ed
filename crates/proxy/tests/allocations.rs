//! A hit in RAM allocates nothing, however it is asked for and logged.
//!
//! The connection loop is driven over a stream in memory ([`rig`]), so that every allocation counted is the loop's,
//! the exchange's or the log's. A connection allocates when it begins; what a request more costs is the difference.

#[path = "hits/rig.rs"]
mod rig;

use allocation_counter::AllocationInfo;
use rig::Rig;
use shoal_settings::{Log, LogFormat};

const BARE: &str = "GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n";

const BROWSER: &str = "GET /section/page.html?id=1 HTTP/1.1\r\nHost: www.example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.9\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nReferer: http://www.example.org/section/\r\nDNT: 1\r\n\
    Connection: keep-alive\r\nCookie: session=0123456789abcdef; theme=dark\r\n\r\n";

fn counted(rig: &Rig, request: &str, times: u64) -> AllocationInfo {
    allocation_counter::measure(|| {
        rig.ask(request.as_bytes(), times);
    })
}

#[test]
fn a_hit_allocates_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("access.log").display().to_string();
    let logs = [
        ("none", LogFormat::Squid),
        (&*file, LogFormat::Squid),
        (&*file, LogFormat::Combined),
        (&*file, LogFormat::Json),
    ];
    for (access, format) in logs {
        for body_bytes in [0, 1024, 100_000] {
            let rig = Rig::start(
                Log { access: access.into(), format, ..Log::default() },
                (body_bytes, "max-age=86400"),
            );
            for request in [BARE, BROWSER] {
                rig.ask(request.as_bytes(), 1);
                // The thread's own memory is there after the first hits.
                rig.ask(request.as_bytes(), 10);
                let (few, many) = (counted(&rig, request, 10), counted(&rig, request, 1010));
                assert!(few.count_total > 0, "a connection allocates");
                assert_eq!(
                    (many.count_total, many.bytes_total),
                    (few.count_total, few.bytes_total),
                    "{access} {format:?} {body_bytes} bytes: {request}"
                );
            }
            assert_eq!(rig.metrics.misses.value(), 2);
            assert_eq!(rig.metrics.hits_memory.value(), 2 * (10 + 10 + 1010));
            assert_eq!(rig.metrics.log_lines_dropped.value(), 0);
        }
    }
}

/// Nor on a connection that waits without a task.
#[test]
fn a_hit_of_who_waits_allocates_nothing() {
    for body_bytes in [0, 1024, 100_000] {
        let rig = Rig::start(Log { access: "none".into(), ..Log::default() }, (body_bytes, "max-age=86400"));
        for request in [BARE, BROWSER] {
            rig.ask(request.as_bytes(), 1);
            rig.ask_waiting(request.as_bytes(), 10);
            let counted = |times| {
                allocation_counter::measure(|| {
                    rig.ask_waiting(request.as_bytes(), times);
                })
            };
            let (few, many) = (counted(10), counted(1010));
            assert!(few.count_total > 0, "a connection allocates");
            assert_eq!(many.count_total, few.count_total, "{body_bytes} bytes: {request}");
        }
        assert_eq!(rig.metrics.misses.value(), 2);
        assert_eq!(rig.metrics.hits_memory.value(), 2 * (10 + 10 + 1010));
    }
}

/// Nor over HTTP/2, body or head or frames.
#[test]
fn a_hit_over_http2_allocates_nothing() {
    for body_bytes in [0, 1024, 100_000] {
        let rig = Rig::start(Log { access: "none".into(), ..Log::default() }, (body_bytes, "max-age=86400"));
        for request in [BARE, BROWSER] {
            rig.ask_http2(request, 1);
            rig.ask_http2(request, 10);
            let counted = |times| {
                allocation_counter::measure(|| {
                    rig.ask_http2(request, times);
                })
            };
            let (few, many) = (counted(10), counted(1010));
            assert!(few.count_total > 0, "a connection allocates");
            assert_eq!(
                (many.count_total, many.bytes_total),
                (few.count_total, few.bytes_total),
                "{body_bytes} bytes: {request}"
            );
        }
        assert_eq!(rig.metrics.misses.value(), 2);
        assert_eq!(rig.metrics.hits_memory.value(), 2 * (10 + 10 + 1010));
    }
}

/// A miss of what may not be stored allocates as little as it is known to: whoever adds to it should know.
#[test]
fn a_miss_allocates_a_known_number_of_times() {
    let rig = Rig::start(Log { access: "none".into(), ..Log::default() }, (8192, "no-store"));
    for request in [BARE, BROWSER] {
        rig.ask(request.as_bytes(), 10);
        let (few, many) = (counted(&rig, request, 10), counted(&rig, request, 1010));
        let each = (many.count_total - few.count_total) as f64 / 1000.0;
        // Read buffers are made anew every now and then, when their pieces are still held.
        assert!((MISS_ALLOCATIONS..MISS_ALLOCATIONS + 0.5).contains(&each), "{each} a miss: {request}");
    }
    assert_eq!(rig.metrics.misses.value(), 2 * (10 + 10 + 1010));
}

/// The URL, the request on its way, its fields' places, the boxes that it and its fetch wait in, the lines for the origin and the
/// text that is sent, the account of its body, the response's fields' places, the response as it is judged and its body, its
/// lines for the client, the record and what Cache-Status says in it.
const MISS_ALLOCATIONS: f64 = 14.0;

#[test]
fn the_ordinary_way_is_seen_to_allocate() {
    let rig = Rig::start(Log { access: "none".into(), ..Log::default() }, (1024, "max-age=86400"));
    let ordinary = BARE.replace("\r\n\r\n", "\r\nConnection: keep-alive, x-nothing\r\n\r\n");
    rig.ask(ordinary.as_bytes(), 10);
    let (few, many) = (counted(&rig, &ordinary, 10), counted(&rig, &ordinary, 110));
    assert!(many.count_total >= few.count_total + 100, "{} after {}", many.count_total, few.count_total);
}
