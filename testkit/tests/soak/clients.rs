//! The clients: readers of three kinds, and those who invalidate.

use shoal_testkit::client::Ending;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::seeded::{Random, body};
use shoal_testkit::{Connection, Origin, Request, Response, Shoal, Versions};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// What clients and course share.
pub struct World {
    pub versions: Arc<Versions>,
    /// The origin's authority.
    origin: String,
    reverse: SocketAddr,
    forward: SocketAddr,
    admin: SocketAddr,
    stopping: AtomicBool,
    /// No session begins, so that all of what was stored can be on disk at once.
    pub resting: AtomicBool,
    /// Held for writing while the node is down, by those who could not go on otherwise for reading.
    pub up: RwLock<()>,
    /// Held for writing when what is invalidated might not be on disk yet, and the node is about to
    /// be killed.
    pub invalidating: RwLock<()>,
    pub seen: Seen,
}

/// What the clients saw.
#[derive(Debug, Default)]
pub struct Seen {
    pub answers: AtomicU64,
    pub hits: AtomicU64,
    pub of_http2: AtomicU64,
    pub forward: AtomicU64,
    pub invalidated: AtomicU64,
    pub passed: AtomicU64,
    pub left: AtomicU64,
}

impl World {
    pub fn new(versions: Arc<Versions>, origin: &Origin, shoal: &Shoal) -> Self {
        Self {
            versions,
            origin: origin.address().to_string(),
            reverse: shoal.address("reverse"),
            forward: shoal.address("forward"),
            admin: shoal.admin(),
            stopping: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            up: RwLock::default(),
            invalidating: RwLock::default(),
            seen: Seen::default(),
        }
    }

    pub fn stop(&self) {
        self.stopping.store(true, SeqCst);
    }

    /// `None` while the node is down.
    fn connect(&self, address: SocketAddr) -> Option<Connection> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Connection::over(Box::new(stream)))
    }
}

/// What a client does on one connection; again and again.
type Session = fn(&World, &mut Random);

const SESSIONS: [(&str, Session); 10] = [
    ("reader", read),
    ("reader", read),
    ("reader", read),
    ("reader", read),
    ("reader over HTTP/2", read_http2),
    ("reader over HTTP/2", read_http2),
    ("reader of the forward proxy", read_forward),
    ("reader of what is not stored", read_passed),
    ("invalidator", invalidate),
    ("purger", purge),
];

pub fn start(world: &Arc<World>, seed: u64) -> Vec<JoinHandle<()>> {
    let client = |(name, session): (&str, Session), seed| {
        let (world, mut random) = (Arc::clone(world), Random::new(seed));
        let run = move || {
            while !world.stopping.load(SeqCst) {
                match world.resting.load(SeqCst) {
                    true => pause(),
                    false => session(&world, &mut random),
                }
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(run).expect("a thread")
    };
    SESSIONS.into_iter().zip((seed..).step_by(101)).map(|(session, seed)| client(session, seed)).collect()
}

/// A connection on which some requests at once are sent several times; some leave in the middle,
/// and some read slowly.
fn read(world: &World, random: &mut Random) {
    let Some(mut client) = world.connect(world.reverse) else { return pause() };
    for _ in 0..1 + random.below(8) {
        let asked: Vec<_> = (0..1 + random.below(5)).map(|_| draw(world, random)).collect();
        let bytes = asked.iter().flat_map(|(_, _, request)| request.to_bytes("site.test"));
        client.send(bytes.collect::<Vec<_>>());
        match random.below(40) {
            0 => {
                let _ = client.head();
                world.seen.left.fetch_add(1, SeqCst);
                return client.reset();
            }
            1 => {
                world.seen.left.fetch_add(1, SeqCst);
                return;
            }
            2 => std::thread::sleep(Duration::from_millis(random.below(100))),
            _ => {}
        }
        for (url, floor, request) in asked {
            let Some(response) = answer(&mut client, &request.method) else { return };
            world.versions.check(url, floor, &request, &response);
            if !response.complete() {
                return;
            }
            world.seen.answers.fetch_add(1, SeqCst);
            world.seen.hits.fetch_add(u64::from(response.hit()), SeqCst);
        }
    }
}

/// Streams at once on one connection. The node is not ended meanwhile.
fn read_http2(world: &World, random: &mut Random) {
    let _up = world.up.read().expect("nobody panics with it");
    let mut client = H2Connection::open(world.reverse);
    for _ in 0..1 + random.below(6) {
        let asked: Vec<_> = (0..1 + random.below(12)).map(|_| draw(world, random)).collect();
        let requests: Vec<_> = asked.iter().map(|(_, _, request)| request.clone()).collect();
        let responses = client.ask_all(&requests, "site.test");
        for ((url, floor, request), response) in asked.iter().zip(&responses) {
            if response.complete() {
                world.versions.check(*url, *floor, request, response);
                world.seen.of_http2.fetch_add(1, SeqCst);
            }
        }
        if responses.iter().any(|response| !response.complete()) {
            return;
        }
    }
}

/// What the forward proxy has is not what the site's clients get, and is invalidated by nobody
/// here: any version is right.
fn read_forward(world: &World, random: &mut Random) {
    let Some(mut client) = world.connect(world.forward) else { return pause() };
    for _ in 0..1 + random.below(8) {
        let (url, _, mut request) = draw(world, random);
        request.target = format!("http://{}{}", world.origin, request.target);
        client.send(request.to_bytes(&world.origin));
        let Some(response) = answer(&mut client, &request.method) else { return };
        world.versions.check(url, 0, &request, &response);
        if !response.complete() {
            return;
        }
        world.seen.forward.fetch_add(1, SeqCst);
    }
}

/// What may not be stored, asked for and sent with bodies.
fn read_passed(world: &World, random: &mut Random) {
    let Some(mut client) = world.connect(world.reverse) else { return pause() };
    for _ in 0..1 + random.below(20) {
        let path = format!("/n/{}", random.below(1000));
        let request = match random.below(4) {
            0 => Request::new("POST", &path).body(&body(&path, random.below(200_000) as usize)),
            _ => Request::get(&path),
        };
        client.send(request.to_bytes("site.test"));
        let Some(response) = answer(&mut client, &request.method) else { return };
        if !response.complete() || matches!(response.status, 502..=504) {
            return;
        }
        assert!(response.status == 200 && response.body == passed(&path), "{request:?}: {response:?}");
        world.seen.passed.fetch_add(1, SeqCst);
    }
}

/// The body of what may not be stored.
pub fn passed(path: &str) -> Vec<u8> {
    let number: usize = path.trim_start_matches("/n/").parse().expect("numbered");
    body(path, number * 37)
}

/// POST to what is cached, which invalidates it once it is answered.
fn invalidate(world: &World, random: &mut Random) {
    std::thread::sleep(Duration::from_millis(random.below(20)));
    let _may = world.invalidating.read().expect("nobody panics with it");
    let Some(mut client) = world.connect(world.reverse) else { return pause() };
    let url = world.versions.url(random);
    client.send(Request::new("POST", &format!("/u/{url}")).body(b"next").to_bytes("site.test"));
    let Some(response) = answer(&mut client, "POST") else { return };
    if let Some(version) = response.number("x-version") {
        world.versions.raise_floor(url, version);
        world.seen.invalidated.fetch_add(1, SeqCst);
    }
}

/// What changed at the origin is purged, by method or by the admin listener.
fn purge(world: &World, random: &mut Random) {
    std::thread::sleep(Duration::from_millis(random.below(40)));
    let _may = world.invalidating.read().expect("nobody panics with it");
    let url = world.versions.url(random);
    let version = world.versions.change(url);
    let (address, host, request) = match random.below(2) {
        0 => (world.reverse, "site.test", Request::new("PURGE", &format!("/u/{url}"))),
        _ => {
            let what = format!(r#"{{"url": "http://site.test/u/{url}"}}"#);
            let purge = Request::new("POST", "/purge").field("Content-Type", "application/json");
            (world.admin, "localhost", purge.body(what.as_bytes()))
        }
    };
    let Some(mut client) = world.connect(address) else { return pause() };
    client.send(request.to_bytes(host));
    let Some(response) = answer(&mut client, &request.method) else { return };
    let known = matches!(response.status, 200 | 404 | 500 | 503);
    assert!(known, "{request:?}: {} {}", response.status, response.text());
    // 404: nothing was stored. What was arriving may not be served after that either. 500: a disk
    // is out, and comes back before the node is started anew: until then the purge holds.
    if response.status != 503 {
        world.versions.raise_floor(url, version);
        world.seen.invalidated.fetch_add(1, SeqCst);
    }
}

/// A URL, the oldest version that may be served of it, and a request for it.
fn draw(world: &World, random: &mut Random) -> (usize, u64, Request) {
    // Few are asked for often.
    let url = (0..3).map(|_| world.versions.url(random)).min().expect("three of them");
    let floor = world.versions.floor(url);
    (url, floor, world.versions.draw(url, random))
}

/// `None` where the origin broke off before the head, or the node was ended. Who waits for its
/// answer for too long has been forgotten.
fn answer(client: &mut Connection, method: &str) -> Option<Response> {
    let answered = client.try_response(method);
    let ended = match &answered {
        Ok(Response { ending: Ending::Cut(why), .. }) | Err(why) => why.as_str(),
        Ok(_) => "",
    };
    assert!(!ended.contains("silent"), "{method}: {ended}");
    answered.ok()
}

fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}
