//! RAM and disk stay below what is configured, in a burst too; connections and queues are bounded.

use shoal_testkit::disk::occupied;
use shoal_testkit::origin::Framing;
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Setup, Shoal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Calls `sample` again and again while `work` runs; gives the largest value seen.
fn highest<T>(sample: impl Fn() -> u64 + Send + 'static, work: impl FnOnce() -> T) -> (u64, T) {
    let (stop, largest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let sampler = {
        let (stop, largest) = (stop.clone(), largest.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                largest.fetch_max(sample(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
            largest.fetch_max(sample(), Ordering::Relaxed);
        })
    };
    let result = work();
    stop.store(true, Ordering::Relaxed);
    sampler.join().expect("a sampler does not panic");
    (largest.load(Ordering::Relaxed), result)
}

fn resident(shoal: &Shoal) -> impl Fn() -> u64 + Send + 'static {
    let pid = shoal.pid();
    move || shoal_testkit::shoal::resident_bytes(pid).unwrap_or(0)
}

fn burst(shoal: &Shoal, threads: usize, each: usize, size: usize) {
    let address = shoal.address("reverse");
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            std::thread::spawn(move || {
                let mut client = Connection::open(address);
                for number in 0..each {
                    let path = format!("/o/{thread}/{number}");
                    client.ask(&Request::get(&path), "site.test").expect_body(body(&path, size));
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().expect("every body was right"));
}

fn bodies(origin: &Origin, size: usize) {
    origin.on_request("/o/*", move |request| Answer::fresh(body(request.path(), size), 600));
}

#[test]
fn the_disk_limit_holds_in_a_burst() {
    const LIMIT: u64 = 8 << 20;
    for (architecture, size) in
        ["squid", "volume"].into_iter().flat_map(|name| [1_000, 50_000, 700_000].map(|size| (name, size)))
    {
        let origin = Origin::start();
        bodies(&origin, size);
        let setup = Setup::to(&origin).set("store.disk", "8 MiB").set("cache.ram", "4 MiB");
        let shoal = setup.set("store.architecture", architecture).set("store.admission", "always").start();
        let store = shoal.store();
        let each = (24_000_000 / 8 / size).min(300);
        let (largest, ()) = highest(move || occupied(&store), || burst(&shoal, 8, each, size));
        assert!(largest <= LIMIT, "{largest} bytes of blocks with objects of {size}");
        let space = shoal.status()["store"]["space"].clone();
        assert!(space["bytes"].as_u64().is_some_and(|bytes| bytes <= LIMIT && bytes > LIMIT / 4), "{space}");
        if size > 1_000 {
            assert!(shoal.status()["store"]["evictions"].as_u64().is_some_and(|count| count > 0));
        }
        assert_eq!(shoal.status()["store"]["corrupt"].as_u64(), Some(0));
    }
}

#[test]
fn the_ram_limit_holds_in_a_burst() {
    let origin = Origin::start();
    bodies(&origin, 200_000);
    let shoal = Setup::to(&origin).set("cache.ram", "8 MiB").set("store.disk", "16 MiB").start();
    let idle = shoal.resident_bytes();
    let (largest, ()) = highest(resident(&shoal), || burst(&shoal, 16, 20, 200_000));
    assert!(largest < idle + (8 << 20) + SLACK, "{largest} bytes resident, {idle} when idle");
    let ram = shoal.status()["ram"].clone();
    assert!(ram["bytes"].as_u64().is_some_and(|bytes| bytes <= 8 << 20), "{ram}");
}

/// Buffers of sockets and connections, and what an allocator keeps: not part of the cache's budget.
const SLACK: u64 = 24 << 20;

#[test]
fn bodies_of_all_sizes_that_come_and_go_leave_no_holes_in_ram() {
    const RAM: u64 = 16 << 20;
    let size = |path: &str| {
        let number: u64 = path.rsplit('/').next().and_then(|number| number.parse().ok()).expect("a number");
        200 + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize % (200 << (number % 9))
    };
    let origin = Origin::start();
    origin.on_request("/o/*", move |request| Answer::fresh(body(request.path(), size(request.path())), 600));
    let shoal = Setup::to(&origin).set("cache.ram", "16 MiB").start();
    let idle = shoal.resident_bytes();
    let address = shoal.address("reverse");
    let ask_all = move |thread: u64| {
        let mut client = Connection::open(address);
        for number in 0..1_000 {
            // Every fifth is asked for again and stays.
            let path = format!("/o/{}", if number % 5 == 0 { number % 100 } else { number * 4 + thread });
            client.ask(&Request::get(&path), "site.test").expect_body(body(&path, size(&path)));
        }
    };
    let (largest, ()) = highest(resident(&shoal), || {
        let threads: Vec<_> = (0..4).map(|thread| std::thread::spawn(move || ask_all(thread))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("every body was right"));
    });
    let ram = shoal.status()["ram"].clone();
    let count = |name: &str| ram[name].as_u64().expect("a number");
    assert!(count("evictions") > 500 && count("moved_bytes") > 0, "{ram}");
    assert!(count("bytes") > RAM * 9 / 10, "it is full: {ram}");
    let allowed = idle + RAM + RAM / 12 + FIXED;
    assert!(largest < allowed, "{largest} bytes resident of {allowed}, {idle} when idle");
}

/// What is resident beside `cache.ram` and a twelfth of it: buffers of connections, bodies on their
/// way, and what the allocator has free and gives back within a second.
const FIXED: u64 = 14 << 20;

#[test]
fn bodies_for_slow_clients_do_not_pile_up_in_ram() {
    let origin = Origin::start();
    let large = body("large", 12_000_000);
    let uncached = Answer::ok(large.clone()).field("Cache-Control", "no-store");
    origin.on("/uncached", uncached).on("/cached", Answer::fresh(large.clone(), 60));
    let shoal = Setup::to(&origin).set("cache.ram", "8 MiB").start();
    let idle = shoal.resident_bytes();
    let (largest, ()) = highest(resident(&shoal), || {
        let mut clients: Vec<_> = (0..12)
            .map(|number| {
                let mut client = shoal.connect();
                client.send(Request::get(["/uncached", "/cached"][number % 2]).to_bytes("site.test"));
                client
            })
            .collect();
        std::thread::sleep(Duration::from_millis(1500));
        clients.iter_mut().for_each(|client| {
            client.response("GET").expect_body(&large);
        });
    });
    assert!(largest < idle + (8 << 20) + SLACK, "{largest} bytes resident, {idle} when idle");
}

#[test]
fn an_endless_body_is_not_kept() {
    let origin = Origin::start();
    let mut endless = Answer::new(200).field("Cache-Control", "max-age=600").framed(Framing::Chunked);
    for _ in 0..100 {
        endless = endless.piece(vec![b'x'; 400_000]);
    }
    origin.on("/endless", endless);
    let shoal = Setup::to(&origin).set("cache.ram", "4 MiB").set("store.disk", "8 MiB").start();
    let store = shoal.store();
    let (largest, response) = highest(move || occupied(&store), || shoal.get("/endless"));
    assert_eq!(response.expect_status(200).body.len(), 40_000_000);
    assert!(largest <= 8 << 20, "{largest}");
    assert!(!shoal.get("/endless").hit());
}

#[test]
fn connections_beyond_the_limit_wait_their_turn() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let shoal = Setup::to(&origin).set("max_connections", 4).start();
    let mut held: Vec<_> = (0..4).map(|_| shoal.connect()).collect();
    for client in &mut held {
        client.ask(&Request::get("/a"), "site.test").expect_body("body");
    }
    let mut waiting = shoal.connect();
    waiting.send(Request::get("/a").to_bytes("site.test"));
    assert!(waiting.stays_silent(Duration::from_millis(300)), "a fifth connection was served");
    held.pop();
    waiting.response("GET").expect_body("body");
}

#[test]
fn connections_to_an_origin_are_bounded() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on("/*", Answer::ok("body").field("Cache-Control", "no-store").held_by(&gate));
    let shoal = Setup::to(&origin).set("upstream.connections_per_origin", 3).set("workers", 1).start();
    let mut clients: Vec<_> = (0..10)
        .map(|number| {
            let mut client = shoal.connect();
            client.send(Request::get(&format!("/{number}")).to_bytes("site.test"));
            client
        })
        .collect();
    std::thread::sleep(Duration::from_millis(400));
    assert!(origin.connections() <= 3, "{}", origin.connections());
    gate.open();
    for client in &mut clients {
        client.response("GET").expect_body("body");
    }
}

#[test]
fn a_client_that_never_reads_is_dropped() {
    let origin = Origin::start();
    origin.on("/large", Answer::fresh(body("large", 20_000_000), 60));
    let shoal = Setup::to(&origin).set("client.idle_timeout", "500ms").start();
    let mut client = shoal.connect();
    client.send(Request::get("/large").to_bytes("site.test"));
    let start = Instant::now();
    shoal_testkit::wait::until("the connection is given up", || shoal.metric("shoal_connections", "") == 0);
    assert!(start.elapsed() < Duration::from_secs(25));
}

/// A volume has no room for a body above a quarter of its size. It is told as it is: not stored.
#[test]
fn body_that_no_disk_has_room_for_is_told_as_not_stored() {
    let origin = Origin::start();
    for (path, bytes) in [("/large", 6_000_000), ("/small", 2_000_000)] {
        origin.on(path, Answer::fresh(body(path, bytes), 60));
    }
    let shoal = Setup::to(&origin).set("cache.ram", "8 MiB").set("store.disk", "16 MiB").start();
    for (path, asked) in [("/large", 2), ("/small", 1)] {
        let first = shoal.get(path);
        let told = first.field("cache-status").expect("what was done");
        assert_eq!(told.contains("stored"), path == "/small", "{path}: {told}");
        assert!(shoal.get(path).status == 200 && origin.count(path) == asked, "{path}");
    }
}
