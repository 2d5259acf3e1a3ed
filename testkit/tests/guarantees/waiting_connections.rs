//! Connections that wait for a request have no task, and are served hits where they wait, many at a
//! time. Nobody who speaks to Shoal can tell: every byte, the order of fields and the reason phrase
//! among them, is what the ordinary way sends, but for the clock.

use rustix::process::Signal;
use shoal_testkit::client::Exact;
use shoal_testkit::seeded::{Random, body};
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal, wait};

/// A token that changes nothing, but makes the request one that is not plain.
const ORDINARY: (&str, &str) = ("Connection", "keep-alive, x-nothing");

/// So many bytes that the kernel takes them at once, however a connection begins; what it does not
/// take needs a task.
const PATHS: [&str; 8] = ["/small", "/varied", "/empty", "/gone", "/moved", "/fields", "/copied", "/beside"];

fn start(origin: &Origin) -> Shoal {
    origin.on("/small", Answer::fresh("body", 6000).field("ETag", "\"s\""));
    let varied = Answer::fresh("varied", 6000).field("Vary", "Accept-Encoding");
    origin.on("/varied", varied.field("Vary", "Accept-Language"));
    origin.on("/empty", Answer::fresh("", 6000));
    origin.on("/gone", Answer { status: 404, ..Answer::fresh("gone", 6000) });
    origin.on("/moved", Answer { status: 301, ..Answer::fresh("moved", 6000) }.field("Location", "/small"));
    let fields = Answer::fresh(body("fields", 900), 6000).field("Z-Last", "1").field("A-First", "2");
    origin.on("/fields", fields.field("Z-Last", "3").field("Content-Type", "text/plain"));
    // The longest that are copied behind their head, and the shortest that are not.
    origin.on("/copied", Answer::fresh(body("copied", 12 << 10), 6000).field("X-A", "1"));
    origin.on("/beside", Answer::fresh(body("beside", (12 << 10) + 1), 6000).field("X-A", "2"));
    origin.on("/large", Answer::fresh(body("large", 300_000), 6000).field("X-A", "3"));
    Setup::to(origin).set("workers", 1).start()
}

/// What the ordinary way says, of everything that is stored.
fn ordinary(shoal: &Shoal, path: &str) -> Exact {
    let mut client = shoal.connect();
    let request = Request::get(path).field(ORDINARY.0, ORDINARY.1);
    client.ask_exactly(&request, "site.test");
    client.ask_exactly(&request, "site.test")
}

fn expect_waiting(shoal: &Shoal, count: usize) {
    wait::until("who waits", || shoal.waiting() == count);
}

#[test]
fn who_waits_is_told_what_the_ordinary_way_says() {
    let origin = Origin::start();
    let shoal = start(&origin);
    let mut client = shoal.connect();
    let expected = PATHS.map(|path| ordinary(&shoal, path));
    expect_waiting(&shoal, 1);
    let hits = shoal.responses("memory_hit");
    for _ in 0..3 {
        for (path, expected) in PATHS.iter().zip(&expected) {
            for fields in
                [&[][..], &[("User-Agent", "x"), ("Cookie", "a=b")], &[("Connection", "keep-alive")]]
            {
                let plain =
                    fields.iter().fold(Request::get(path), |plain, (name, value)| plain.field(name, value));
                client.ask_exactly(&plain, "Site.test:80").expect_like(expected.clone(), path);
                assert_eq!(shoal.waiting(), 1, "{path} is answered where its connection waits");
            }
        }
    }
    shoal.expect_responses("memory_hit", hits + 3 * 3 * PATHS.len() as u64);
    // Who asks for anything else has a task, which is seen.
    client.ask_exactly(&Request::get("/small").field(ORDINARY.0, ORDINARY.1), "site.test");
    assert_eq!(shoal.waiting(), 0);
}

#[test]
fn hits_that_call_together_are_alike() {
    let origin = Origin::start();
    let shoal = start(&origin);
    let expected = PATHS.map(|path| ordinary(&shoal, path));
    expect_waiting(&shoal, 0);
    let mut random = Random::new(7);
    // More than are asked after at once, and than are answered together.
    let mut clients: Vec<Connection> = (0..70).map(|_| shoal.connect()).collect();
    expect_waiting(&shoal, clients.len());
    for round in 0..6 {
        let mut asked = Vec::new();
        // While it stands still, all call.
        shoal.signal(Signal::STOP);
        for client in &mut clients {
            let row: Vec<usize> =
                (0..1 + random.below(4) / 3).map(|_| random.below(PATHS.len() as u64) as usize).collect();
            client.send(
                row.iter()
                    .flat_map(|path| Request::get(PATHS[*path]).to_bytes("site.test"))
                    .collect::<Vec<_>>(),
            );
            asked.push(row);
        }
        shoal.signal(Signal::CONT);
        for (number, (client, row)) in clients.iter_mut().zip(asked).enumerate() {
            for path in row {
                let what = format!("{} of client {number} in round {round}", PATHS[path]);
                client.exact("GET").expect_like(expected[path].clone(), &what);
            }
        }
        assert_eq!(shoal.waiting(), clients.len(), "all are answered where they wait");
    }
}

/// What the kernel takes of it at once is sent there, and the rest by a task.
#[test]
fn a_hit_that_is_begun_where_its_connection_waits_is_alike() {
    let origin = Origin::start();
    let shoal = start(&origin);
    let (large, small) = (ordinary(&shoal, "/large"), ordinary(&shoal, "/small"));
    expect_waiting(&shoal, 0);
    let mut clients: Vec<Connection> = (0..20).map(|_| shoal.connect()).collect();
    expect_waiting(&shoal, clients.len());
    shoal.signal(Signal::STOP);
    for (number, client) in clients.iter_mut().enumerate() {
        let path = if number % 2 == 0 { "/large" } else { "/small" };
        client.send(Request::get(path).to_bytes("site.test"));
    }
    shoal.signal(Signal::CONT);
    for (number, client) in clients.iter_mut().enumerate() {
        let expected = if number % 2 == 0 { &large } else { &small };
        client.exact("GET").expect_like(expected.clone(), &format!("client {number}"));
        client
            .ask_exactly(&Request::get("/small"), "site.test")
            .expect_like(small.clone(), "what comes behind it");
    }
}
