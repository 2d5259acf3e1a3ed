//! Under a mixed load every complete answer is right: the whole of one version, or a part of one, and never a version
//! that was invalidated before the request was sent.
//!
//! Each URL has a version, which POST raises; its body follows from URL, variant and version. A client that has the
//! answer to its POST raises the URL's *floor*: from then on nobody may be served anything older. Readers ask for
//! wholes, parts, heads and conditions, leave in the middle, and the origin breaks off now and then.

use shoal_testkit::origin::{After, Framing, Received};
use shoal_testkit::seeded::{Random, body, seed};
use shoal_testkit::{Answer, Connection, Origin, Request, Resource, Response, Setup};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const URLS: usize = 16;

/// What origin and clients know of the URLs.
#[derive(Default)]
struct World {
    versions: [AtomicU64; URLS],
    floors: [AtomicU64; URLS],
    answers: AtomicU64,
    hits: AtomicU64,
}

fn content(url: usize, variant: &str, version: u64) -> Vec<u8> {
    let sizes = [0, 1, 900, 5_000, 20_000, 70_000, 150_000, 400_000];
    body(&format!("{url} {variant} {version}"), sizes[url % sizes.len()])
}

/// URLs of the upper half vary.
fn varies(url: usize) -> bool {
    url >= URLS / 2
}

fn etag(variant: &str, version: u64) -> String {
    format!("\"{variant}.{version}\"")
}

fn number(request: &Received) -> usize {
    request.path().trim_start_matches("/u/").parse().expect("URLs are numbered")
}

/// The origin's answer; `turn` draws how it is framed and whether it breaks off.
fn answer(world: &World, request: &Received, turn: u64) -> Answer {
    let url = number(request);
    if request.method == "POST" {
        let version = world.versions[url].fetch_add(1, Ordering::SeqCst) + 1;
        return Answer::new(200).field("X-Version", &version.to_string());
    }
    let version = world.versions[url].load(Ordering::SeqCst);
    let variant = if varies(url) { request.fields.joined("x-variant") } else { String::new() };
    let whole = content(url, &variant, version);
    let mut resource =
        Resource::new(whole.clone()).etag(&etag(&variant, version)).cache_control("max-age=600");
    if varies(url) {
        resource = resource.field("Vary", "X-Variant");
    }
    let answer = resource.answer(request);
    match turn % 16 {
        0 if answer.status == 200 && !whole.is_empty() => {
            let half = Answer { steps: Vec::new(), ..answer }.piece(&whole[..whole.len() / 2]);
            half.framed(Framing::Claimed(whole.len() as u64)).then(After::Reset)
        }
        1..4 if answer.status != 304 => answer.framed(Framing::Chunked),
        4 => answer.delay(Duration::from_millis(10)),
        _ => answer,
    }
}

#[test]
fn every_complete_answer_is_right() {
    let seed = seed(2_026);
    let world = Arc::new(World::default());
    let origin = Origin::start();
    let turns = AtomicU64::new(seed);
    let known = world.clone();
    origin.on_request("/u/*", move |request| {
        answer(&known, request, Random::new(turns.fetch_add(1, Ordering::SeqCst)).next_u64())
    });
    let small = Setup::to(&origin).set("cache.ram", "4 MiB").set("store.disk", "8 MiB");
    let shoal = small.set("cache.ram_object_max", "64 KiB").start();
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..6)
        .map(|client| {
            let (world, stop, address) = (world.clone(), stop.clone(), shoal.address("reverse"));
            std::thread::spawn(move || run(&world, &stop, address, Random::new(seed + 7 * client)))
        })
        .collect();
    std::thread::sleep(Duration::from_secs(5));
    stop.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("every answer was right"));
    let (answers, hits) = (world.answers.load(Ordering::SeqCst), world.hits.load(Ordering::SeqCst));
    assert!(answers > 100 && hits > answers / 10, "{hits} hits of {answers} answers");
    assert_eq!(shoal.status()["store"]["corrupt"].as_u64(), Some(0));
}

fn run(world: &World, stop: &AtomicBool, address: SocketAddr, mut random: Random) {
    while !stop.load(Ordering::SeqCst) {
        let url = random.below(URLS as u64) as usize;
        let floor = world.floors[url].load(Ordering::SeqCst);
        let request = draw(url, &mut random);
        let mut client = Connection::open(address);
        client.send(request.to_bytes("site.test"));
        if random.below(12) == 0 && request.method == "GET" {
            let _ = client.head();
            client.reset();
            continue;
        }
        let response = match client.try_response(&request.method) {
            Ok(response) => response,
            // cut before the head was sent: the origin broke off at once
            Err(why) if why.starts_with("closed") || why.starts_with("reset") => continue,
            Err(why) => panic!("{request:?}: {why}"),
        };
        if request.method == "POST" {
            if let Some(version) = response.number("x-version") {
                world.floors[url].fetch_max(version, Ordering::SeqCst);
            }
            continue;
        }
        check(url, floor, &request, &response);
        world.answers.fetch_add(1, Ordering::Relaxed);
        world.hits.fetch_add(u64::from(response.complete() && response.hit()), Ordering::Relaxed);
    }
}

fn draw(url: usize, random: &mut Random) -> Request {
    let path = format!("/u/{url}");
    let variant = ["a", "b"][random.below(2) as usize];
    let get = |method: &str| Request::new(method, &path).field("X-Variant", variant);
    match random.below(20) {
        0 => Request::new("POST", &path).body(b"next"),
        1 => get("HEAD"),
        2..4 => {
            get("GET").field("If-None-Match", &etag(if varies(url) { variant } else { "" }, random.below(40)))
        }
        4..8 => {
            let first = random.below(30_000);
            get("GET").field("Range", &format!("bytes={first}-{}", first + random.below(30_000)))
        }
        _ => get("GET"),
    }
}

/// An answer is an error of the proxy, visibly cut, or right.
fn check(url: usize, floor: u64, request: &Request, response: &Response) {
    if matches!(response.status, 502..=504) || !response.complete() {
        return;
    }
    let variant = if varies(url) { request.fields.joined("x-variant") } else { String::new() };
    if response.status == 416 {
        return;
    }
    let named =
        response.field("etag").unwrap_or_else(|| panic!("no ETag: {request:?} {:?}", response.fields));
    let (of, version) =
        named.trim_matches('"').split_once('.').expect("entity tags name variant and version");
    let version: u64 = version.parse().expect("entity tags end in a version");
    assert_eq!(of, variant, "another variant for {request:?}");
    assert!(version >= floor, "version {version} after {floor} was known, {request:?} {:?}", response.fields);
    let whole = content(url, &variant, version);
    match response.status {
        200 if request.method == "HEAD" => {
            assert!(response.number("content-length").is_none_or(|length| length == whole.len() as u64));
        }
        200 => assert!(
            response.body == whole,
            "{request:?} {:?}: {} bytes",
            response.fields,
            response.body.len()
        ),
        206 => {
            let range = response.field("content-range").unwrap_or_default();
            let span =
                range.strip_prefix("bytes ").and_then(|rest| rest.split('/').next()).unwrap_or_default();
            let (first, last) = span.split_once('-').expect("a part says which");
            let (first, last): (usize, usize) =
                (first.parse().expect("a number"), last.parse().expect("a number"));
            assert!(response.body == whole[first..=last], "{request:?} {:?}", response.fields);
        }
        304 => assert_eq!(request.fields.first("if-none-match"), Some(named), "304 for another tag"),
        other => panic!("{other} for {request:?}"),
    }
}
