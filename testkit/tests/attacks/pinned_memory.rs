//! Clients that ask for much and take nothing: what others have in RAM stays there.

use crate::frames;
use rustix::net::{AddressFamily, SocketType, sockopt};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Setup, Shoal, wait};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How clients that take nothing ask.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Over HTTP/2, with streams that may be sent nothing.
    Window,
    /// The same of what has to be fetched first.
    Cold,
    /// The same with a field that the short way of a hit does not know.
    Ordinary,
    /// Over HTTP/2, with streams that may be sent everything, on connections that nobody reads.
    Unread,
    /// Over HTTP/1, on connections that nobody reads.
    Http1,
}

const WAYS: [Way; 5] = [Way::Window, Way::Cold, Way::Ordinary, Way::Unread, Way::Http1];

/// What the bodies that are asked for take of RAM, which has 16 MiB: two times all of it.
const LARGE: usize = 32;
const LARGE_BYTES: usize = 1 << 20;

/// What others ask for.
const SMALL: usize = 60;
const SMALL_BYTES: usize = 64 << 10;

fn origin() -> Origin {
    let origin = Origin::start();
    origin.on_request("/large/*", |request| Answer::fresh(body(request.path(), LARGE_BYTES), 600));
    origin.on_request("/small/*", |request| Answer::fresh(body(request.path(), SMALL_BYTES), 600));
    origin
}

fn setup(origin: &Origin) -> Setup {
    Setup::to(origin).set("cache.ram", "16 MiB").set("cache.ram_object_max", "2 MiB")
}

/// Where a client that takes nothing waits.
struct Waiting {
    number: usize,
    stream: TcpStream,
}

/// Has every large object asked for by a client that takes nothing of it.
fn ask_for_all(shoal: &Shoal, way: Way) -> Vec<Waiting> {
    (0..LARGE).map(|number| ask(shoal, way, number)).collect()
}

fn ask(shoal: &Shoal, way: Way, number: usize) -> Waiting {
    let path = format!("/large/{number}");
    if !matches!(way, Way::Cold) {
        shoal.get(&path).expect_body(body(&path, LARGE_BYTES));
    }
    let mut stream = connect(shoal);
    let request = match way {
        Way::Http1 => Request::get(&path).to_bytes("site.test"),
        Way::Unread => http2(&path, i32::MAX as u32, false),
        way => http2(&path, 0, matches!(way, Way::Ordinary)),
    };
    stream.write_all(&request).expect("a request");
    if matches!(way, Way::Http1) {
        assert!(stream.peek(&mut [0]).is_ok_and(|count| count > 0), "an answer");
    } else {
        let mut answer = Vec::new();
        while !answer.windows(12).any(|bytes| bytes == b"cache-status") {
            let mut bytes = [0; 64];
            let read = stream.read(&mut bytes).expect("an answer");
            assert!(read > 0, "{way:?}: the connection ended");
            answer.extend_from_slice(&bytes[..read]);
        }
    }
    Waiting { number, stream }
}

/// A connection whose buffer takes next to nothing, so that bytes wait in the process and not in
/// the kernel.
fn connect(shoal: &Shoal) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    sockopt::set_socket_recv_buffer_size(&socket, 4096).expect("a small buffer");
    rustix::net::connect(&socket, &shoal.address("reverse")).expect("a connection");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(wait::LIMIT)).expect("a limit");
    stream
}

/// The beginning of an HTTP/2 connection and one request, whose stream and connection may be sent
/// `window` bytes.
fn http2(path: &str, window: u32, is_ordinary: bool) -> Vec<u8> {
    // SETTINGS_INITIAL_WINDOW_SIZE
    let mut bytes = frames::preface(&[&[0, 4][..], &window.to_be_bytes()].concat());
    if window > 0 {
        bytes.extend(frames::frame(frames::WINDOW_UPDATE, 0, 0, &(window - 65_535).to_be_bytes()));
    }
    let others: &[_] = if is_ordinary { &[("cache-control", "max-stale=1")] } else { &[] };
    let block = frames::request("GET", path, others);
    bytes.extend(frames::frame(frames::HEADERS, frames::END_STREAM | frames::END_HEADERS, 1, &block));
    bytes
}

/// How many of the small objects are in RAM once they have been asked for often enough to stay
/// there.
fn hits(shoal: &Shoal) -> usize {
    let ask = |number: usize| {
        let path = format!("/small/{number}");
        let response = shoal.get(&path);
        response.expect_body(body(&path, SMALL_BYTES));
        response.hit()
    };
    (0..2 * SMALL).for_each(|number| _ = ask(number % SMALL));
    (0..SMALL).filter(|number| ask(*number)).count()
}

#[test]
fn clients_that_take_nothing_leave_ram_to_others() {
    let seen = WAYS.map(|way| {
        let origin = origin();
        // Only RAM keeps anything.
        let shoal = setup(&origin).set("store.directory", "").start();
        assert_eq!(hits(&shoal), SMALL);
        let waiting = ask_for_all(&shoal, way);
        let hits = hits(&shoal);
        drop(waiting);
        (way, hits)
    });
    // Which of so many objects are worth least the policy may judge otherwise for one or two.
    assert!(seen.iter().all(|(_, hits)| *hits >= SMALL * 9 / 10), "{seen:?} of {SMALL}");
}

/// What they asked for comes to them nevertheless, once they take it: it is on disk, too.
#[test]
fn clients_that_took_nothing_get_all_of_it() {
    for way in WAYS {
        let origin = origin();
        let shoal = setup(&origin).set("store.disk", "256 MiB").set("store.admission", "always").start();
        let waiting = ask_for_all(&shoal, way);
        shoal.wait_until_written();
        hits(&shoal);
        for Waiting { number, mut stream } in waiting {
            let path = format!("/large/{number}");
            match way {
                Way::Http1 => {
                    let mut rest = Connection::over(Box::new(stream));
                    rest.limit(Duration::from_secs(30));
                    rest.head().expect("the head");
                    let taken = rest.exactly(LARGE_BYTES).expect("all of it");
                    assert!(taken == body(&path, LARGE_BYTES), "{way:?} {path}");
                }
                way => {
                    if !matches!(way, Way::Unread) {
                        let more = (LARGE_BYTES as u32).to_be_bytes();
                        let update = |id| frames::frame(frames::WINDOW_UPDATE, 0, id, &more);
                        stream.write_all(&[update(0), update(1)].concat()).expect("the windows");
                    }
                    let mut taken = Vec::new();
                    while taken.len() < LARGE_BYTES {
                        let mut bytes = vec![0; 1 << 16];
                        let read = stream.read(&mut bytes).expect("the rest");
                        assert!(read > 0, "{way:?} {path}: cut after {}", taken.len());
                        taken.extend_from_slice(&bytes[..read]);
                    }
                }
            }
        }
    }
}

/// Bodies whose origin never ends them, such as one that is the attacker's own, have their share of
/// RAM likewise.
#[test]
fn bodies_that_do_not_end_leave_ram_to_others() {
    let (origin, gate) = (origin(), Gate::new());
    let held = gate.clone();
    origin.on_request("/endless/*", move |_| {
        Answer::fresh(vec![b'x'; LARGE_BYTES - 1], 600).wait_for(&held).piece("y")
    });
    let shoal = setup(&origin).set("store.directory", "").start();
    assert_eq!(hits(&shoal), SMALL);
    let clients: Vec<_> = (0..LARGE)
        .map(|number| {
            let mut client = shoal.connect();
            client.send(Request::get(&format!("/endless/{number}")).to_bytes("site.test"));
            assert_eq!(client.head().map(|head| head.status), Ok(200));
            // All of it is there but for its end, which does not come.
            client.exactly(LARGE_BYTES - 1).expect("what there is");
            client
        })
        .collect();
    assert!(hits(&shoal) >= SMALL * 9 / 10, "{}", shoal.status()["ram"]);
    gate.open();
    drop(clients);
}
