//! Ten thousand clients at once, who get what is on disk, or, one in eight, what has to be fetched
//! and stored: RAM stays within `cache.ram` and a small overhead for each. A binary of its own,
//! since other tests would not get the CPU beside it.
//!
//! All have sent their requests before the first reads its answer. There are fewer where fewer
//! descriptors may be had; `SHOAL_MANY_CLIENTS` sets another number.

use rustix::process::{Resource, getrlimit, setrlimit};
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal, wait};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const RAM: u64 = 8 << 20;

/// What the volume holds of RAM, eight stripes that wait and one that is written and a MiB of
/// reads, its index, and what an allocator keeps.
const BESIDE: u64 = (9 << 20) + (1 << 20) + (16 << 20);

/// What a client costs outside of both, at most: connection, task and request, and a piece between
/// disk or origin and socket.
const EACH: u64 = 16 << 10;

/// Objects on disk: several times what RAM takes.
const OLD: usize = 2000;

/// As many as the process may have sockets for, with some descriptors for others.
fn clients() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let most =
        getrlimit(Resource::Nofile).current.map_or(10_000, |most| (most as usize).saturating_sub(1500));
    let wanted = std::env::var("SHOAL_MANY_CLIENTS").ok().and_then(|count| count.parse().ok());
    wanted.unwrap_or(10_000).min(most).max(1)
}

fn content(path: &str) -> Vec<u8> {
    let number: usize =
        path.rsplit('/').next().and_then(|word| word.parse().ok()).expect("objects are numbered");
    let length = 1000 + number * 7919 % 24_000;
    let mut content = format!("{path} ").repeat(length / path.len()).into_bytes();
    content.truncate(length);
    content
}

fn ask(stream: &mut TcpStream, path: &str) {
    stream
        .write_all(&Request::get(path).field("Connection", "close").to_bytes("site.test"))
        .expect("a request");
}

/// Reads the whole answer and says whether it was a hit.
fn read(stream: &mut TcpStream, path: &str) -> bool {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8_lossy(&answer[..end]);
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    assert!(answer[end..] == content(path), "{path}: {} bytes", answer.len() - end);
    head.contains(";hit")
}

fn path_of(number: usize) -> String {
    if number.is_multiple_of(8) { format!("/new/{number}") } else { format!("/old/{}", number % OLD) }
}

#[test]
fn cost_a_little_each_beside_the_configured_ram() {
    let count = clients();
    let origin = Origin::start();
    origin.on_request("/*", |request| Answer::fresh(content(request.path()), 86_400));
    let setup = Setup::to(&origin).set("cache.ram", "8 MiB").set("store.disk", "512 MiB");
    // The origin's sockets are this process's too.
    let setup = setup.set("client.idle_timeout", "2 min").set("upstream.connections_per_origin", 256);
    // Those who have to be fetched wait for one of these connections, of whom 1024 may.
    let setup = setup.set("upstream.connect_timeout", "1 min");
    let shoal = setup.set("log.access", "").start();
    let mut connection = shoal.connect();
    for number in 0..OLD {
        let path = format!("/old/{number}");
        connection.ask(&Request::get(&path), "site.test").expect_body(content(&path));
    }
    wait::until("every object is on disk", || {
        shoal.status()["store"]["space"]["objects"].as_u64() == Some(OLD as u64)
    });
    let idle = shoal.resident_bytes();
    let (largest, hits) = all_at_once(&shoal, count);
    let beside = largest.saturating_sub(idle + RAM);
    eprintln!(
        "{count} clients: {largest} bytes resident at most, {idle} before: {} a client",
        beside / count as u64
    );
    assert!(beside <= BESIDE + EACH * count as u64, "{beside} bytes beside cache.ram");
    assert!(hits >= count / 3, "{hits} hits on what was on disk");
    let ram = &shoal.status()["ram"];
    assert!(ram["bytes"].as_u64().is_some_and(|bytes| bytes <= RAM), "{ram}");
}

/// Says that it is over when it is dropped.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Has so many clients ask before one reads; gives the largest memory seen, and how many had hits.
fn all_at_once(shoal: &Shoal, count: usize) -> (u64, usize) {
    let (largest, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let hits = thread::scope(|scope| {
        // Also when one of them fails.
        let _end = Ending(&is_over);
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                largest.fetch_max(shoal.resident_bytes(), Relaxed);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let mut streams = Vec::with_capacity(count);
        for number in 0..count {
            let mut stream = TcpStream::connect(shoal.address("reverse")).expect("a connection");
            stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
            ask(&mut stream, &path_of(number));
            streams.push(stream);
        }
        let read_one = |(number, stream): (usize, &mut TcpStream)| read(stream, &path_of(number));
        streams.iter_mut().enumerate().map(read_one).filter(|hit| *hit).count()
    });
    (largest.load(Relaxed), hits)
}
