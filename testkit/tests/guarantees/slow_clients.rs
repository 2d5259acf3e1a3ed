//! Many clients that hardly read: what their replies hold in RAM stays within `cache.ram` and a
//! small overhead for each.
//!
//! Every client asks for a large body and takes nothing while the memory is measured.
//! `SHOAL_SLOW_CLIENTS` sets their number; with thousands the process of the test needs as many
//! descriptors, which it takes where it may.

use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustls::{ClientConnection, StreamOwned};
use shoal_testkit::certificates::Authority;
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal, wait};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const RAM: u64 = 8 << 20;
const BODY: usize = 1 << 20;

/// Buffers of the process that have nothing to do with the number of clients, and what an allocator
/// keeps.
const SLACK: u64 = 16 << 20;

/// What a client costs outside `cache.ram`, at most: connection, task, the open object's head
/// and checksums, and a piece between disk and socket.
const STORED: u64 = 32 << 10;

/// What a client over TLS costs: keys, a buffer for what is read, and what is encrypted and waits
/// for the socket.
const SECURED: u64 = 84 << 10;

/// The same for a reply whose body is only passed on: its window, and a buffer of the connection to
/// the origin.
const PASSED: u64 = 288 << 10;

/// The same for a body that arrives and is written to the disk: its window, the batch that is
/// written, the block that gathers, and the buffer of the connection to the origin.
const ARRIVING: u64 = 448 << 10;

/// The same once it is stored: what is left is the piece before the socket and the block that was
/// written last.
const ARRIVED: u64 = 144 << 10;

fn clients() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    std::env::var("SHOAL_SLOW_CLIENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

fn shoal(origin: &Origin) -> Shoal {
    setup(origin).start()
}

fn setup(origin: &Origin) -> Setup {
    let setup = Setup::to(origin).set("cache.ram", "8 MiB").set("store.disk", "2 GiB");
    // Thousands take a while to come, and the first of them reads nothing meanwhile.
    let setup = setup.set("client.idle_timeout", "10 min");
    setup.set("upstream.connections_per_origin", 20_000).set("log.access", "")
}

/// Asks for `path(n)` on a connection of its own for each n, and reads the beginning of each
/// answer.
fn ask(shoal: &Shoal, count: usize, path: impl Fn(usize) -> String) -> Vec<TcpStream> {
    ask_over(|| connect(shoal.address("reverse")), count, path)
}

/// The same over connections that `open` makes.
fn ask_over<S: Read + Write>(open: impl Fn() -> S, count: usize, path: impl Fn(usize) -> String) -> Vec<S> {
    let mut streams: Vec<S> = (0..count)
        .map(|number| {
            let mut stream = open();
            stream.write_all(&Request::get(&path(number)).to_bytes("site.test")).expect("a request");
            stream
        })
        .collect();
    for stream in &mut streams {
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).expect("an answer");
        assert_eq!(&begin, b"HTTP/1.1 200");
    }
    streams
}

/// A connection whose buffer takes next to nothing, so that bytes wait in the process and not in
/// the kernel.
fn connect(address: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    sockopt::set_socket_recv_buffer_size(&socket, 4096).expect("a small buffer");
    rustix::net::connect(&socket, &address).expect("a connection");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    stream
}

/// The largest memory seen while the clients wait, and that at the end, which is waited for longer
/// on a machine that has not come down to `settled` bytes by then; then some of them read all of
/// `BODY` bytes.
fn measure<S: Read>(shoal: &Shoal, mut streams: Vec<S>, settled: u64) -> (u64, u64) {
    let mut samples = Vec::new();
    while samples.len() < SAMPLES
        || samples.len() < SAMPLES_MAX && samples.last().is_some_and(|last| *last > settled)
    {
        std::thread::sleep(Duration::from_millis(100));
        samples.push(shoal.resident_bytes());
    }
    let largest = samples.iter().max().copied().unwrap_or(0);
    for stream in streams.iter_mut().step_by(16) {
        let mut buffer = vec![0; 1 << 16];
        let mut read_bytes = 0;
        while read_bytes < BODY {
            let read = stream.read(&mut buffer).expect("the rest");
            assert!(read > 0, "cut after {read_bytes} bytes");
            read_bytes += read;
        }
    }
    (largest, samples.last().copied().unwrap_or(0))
}

/// Tenths of a second that the clients wait.
const SAMPLES: usize = 50;
/// The same at most.
const SAMPLES_MAX: usize = 600;

fn check(what: &str, shoal: &Shoal, (idle, resident): (u64, u64), (count, each): (usize, u64)) {
    let beside = resident.saturating_sub(idle + RAM);
    let of_each = beside / count as u64;
    eprintln!("{what}: {count} clients, {resident} bytes resident, {idle} when idle: {of_each} a client");
    assert!(beside <= SLACK + each * count as u64, "{what}: {beside} bytes beside cache.ram");
    let ram = &shoal.status()["ram"];
    assert!(ram["bytes"].as_u64().is_some_and(|bytes| bytes <= RAM), "{ram}");
}

#[test]
fn of_bodies_on_disk() {
    let count = clients();
    let origin = Origin::start();
    origin.on("/o/*", Answer::fresh(body("large", 2 * BODY), 600));
    let shoal = shoal(&origin);
    for number in 0..20 {
        let path = format!("/o/{number}");
        shoal.get(&path).expect_status(200);
        shoal.get(&path).expect_hit();
    }
    let idle = shoal.resident_bytes();
    let streams = ask(&shoal, count, |number| format!("/o/{}", number % 20));
    let (largest, _) = measure(&shoal, streams, u64::MAX);
    assert_eq!(origin.count("/o/0"), 1);
    check("on disk", &shoal, (idle, largest), (count, STORED));
}

/// Clients that ask at once for what RAM would keep do not each read all of it into RAM.
#[test]
fn of_bodies_on_disk_that_ram_would_keep() {
    let count = clients();
    let origin = Origin::start();
    origin.on("/o", Answer::fresh(body("large", 5 * BODY), 600));
    let shoal = setup(&origin).set("cache.ram_object_max", "6 MiB").start();
    shoal.get("/o").expect_status(200);
    shoal.wait_until_written();
    let idle = shoal.resident_bytes();
    let streams = ask(&shoal, count, |_| "/o".into());
    let (largest, _) = measure(&shoal, streams, u64::MAX);
    assert_eq!(origin.total(), 1);
    check("on disk, for RAM", &shoal, (idle, largest), (count, STORED));
}

#[test]
fn of_bodies_in_ram_over_tls() {
    let count = clients();
    let (origin, authority) = (Origin::start(), Authority::new());
    // More than the kernel takes of it.
    origin.on("/o", Answer::fresh(body("large", 5 * BODY), 600));
    let setup = setup(&origin).set("cache.ram_object_max", "6 MiB");
    authority.issue(&["site.test"]).write(setup.folder(), "site.test");
    let file = |suffix: &str| setup.folder().join(format!("site.test.{suffix}")).display().to_string();
    let pair = format!("{{ certificate = '{}', key = '{}' }}", file("pem"), file("key"));
    let shoal = setup.listen("tls", &format!("mode = 'reverse'\ntls = [{pair}]")).start();
    let (address, config) = (shoal.address("tls"), authority.client(&["http/1.1"]));
    let open = || {
        let name = "site.test".try_into().expect("a host name");
        let session = ClientConnection::new(config.clone(), name).expect("a client configuration that fits");
        StreamOwned::new(session, connect(address))
    };
    let mut client = Connection::open_tls(address, "site.test", config.clone());
    for _ in 0..3 {
        client.ask(&Request::get("/o"), "site.test").expect_status(200);
    }
    let idle = shoal.resident_bytes();
    let streams = ask_over(open, count, |_| "/o".into());
    let (largest, _) = measure(&shoal, streams, u64::MAX);
    assert_eq!(origin.total(), 1);
    check("in RAM, over TLS", &shoal, (idle, largest), (count, SECURED));
}

#[test]
fn of_bodies_that_are_stored_meanwhile() {
    let count = clients().min(1000);
    let origin = Origin::start();
    origin.on("/o/*", Answer::fresh(body("small", BODY), 600));
    let shoal = shoal(&origin);
    let idle = shoal.resident_bytes();
    let streams = ask(&shoal, count, |number| format!("/o/{number}"));
    let settled = idle + RAM + SLACK + ARRIVED * count as u64;
    let (largest, last) = measure(&shoal, streams, settled);
    check("arriving", &shoal, (idle, largest), (count, ARRIVING));
    check("arrived", &shoal, (idle, last), (count, ARRIVED));
}

#[test]
fn of_bodies_that_are_not_stored() {
    let count = clients().min(1000);
    let origin = Origin::start();
    origin.on("/o/*", Answer::ok(body("passed", 4 * BODY)).field("Cache-Control", "no-store"));
    let shoal = shoal(&origin);
    let idle = shoal.resident_bytes();
    let streams = ask(&shoal, count, |number| format!("/o/{number}"));
    let (largest, _) = measure(&shoal, streams, u64::MAX);
    check("passed on", &shoal, (idle, largest), (count, PASSED));
}
