//! Nothing blocks a core: whoever asks for a hit in RAM is answered before those that ask for much,
//! however much they ask for at once.
//!
//! With one worker there is one order in which answers are made, and the access log tells it. The
//! process is stopped, everybody asks, and it goes on: it finds all requests there at the same
//! moment, those that take long ahead of the others. So what is looked at is the order of answers,
//! which does not depend on how fast or how busy the machine is.

use rustix::process::Signal;
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal, wait};

/// Clients with one small hit each, who ask last.
const SMALL: usize = 40;

fn get(path: &str) -> Vec<u8> {
    Request::get(path).to_bytes("site.test")
}

/// One worker, with something small in RAM, and what is too large for RAM on disk.
fn start(origin: &Origin) -> Shoal {
    origin.on("/small", Answer::fresh("small", 600)).on("/block", Answer::fresh("block", 600));
    let setup = Setup::to(origin).set("workers", 1).set("cache.ram", "32 MiB");
    let setup = setup
        .set("cache.ram_object_max", "4 KiB")
        .set("store.disk", "128 MiB")
        .set("store.neighbourhood_percent", 0);
    let shoal = setup.set("store.admission", "always").start();
    shoal.get("/small").expect_status(200);
    shoal.get("/block").expect_status(200);
    shoal
}

/// Connections that have been accepted, and were answered once: after a GET they wait among all
/// others, after a HEAD they have a task.
fn connect(shoal: &Shoal, method: &str, count: usize) -> Vec<Connection> {
    let ready = |_| {
        let mut client = shoal.connect();
        client.ask(&Request::new(method, "/small"), "site.test").expect_hit();
        client
    };
    (0..count).map(ready).collect()
}

/// Has everybody ask while the process stands still: `heavy` clients for what `asks` says, and then
/// the small ones. Gives the paths of the log's lines from then on, in the order of answers, once
/// those of all `answers` are there.
fn order(shoal: &Shoal, heavy: usize, asks: impl Fn(usize) -> Vec<u8>, answers: usize) -> Vec<String> {
    let mut heavy = connect(shoal, "HEAD", heavy);
    let mut small = connect(shoal, "GET", SMALL);
    let before = shoal.metric("shoal_requests_total", "") as usize;
    shoal.access_log(before);
    shoal.signal(Signal::STOP);
    heavy.iter_mut().enumerate().for_each(|(number, client)| client.send(asks(number)));
    small.iter_mut().for_each(|client| client.send(get("/small")));
    shoal.signal(Signal::CONT);
    let readers: Vec<_> = heavy
        .into_iter()
        .map(|mut client| {
            client.limit(wait::LIMIT);
            // Until the process ends, or nothing comes any more.
            std::thread::spawn(move || while client.try_response("GET").is_ok() {})
        })
        .collect();
    for client in &mut small {
        client.response("GET").expect_body("small").expect_hit();
    }
    let lines = shoal.access_log(before + answers + SMALL).split_off(before);
    drop(readers);
    lines.iter().map(|line| path(line)).collect()
}

fn path(line: &str) -> String {
    let url =
        line.split("\"url\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a line has its URL");
    url.trim_start_matches("http://site.test").into()
}

/// How many others were answered before the last of the small hits.
fn others_before_the_last_small(order: &[String]) -> usize {
    let last = order.iter().rposition(|path| path == "/small").expect("they were answered");
    order[..last].iter().filter(|path| *path != "/small").count()
}

/// Each has its turn, and a turn is much less than what one asks for.
#[test]
fn by_clients_that_ask_for_two_thousand_things_at_once() {
    const PIPELINERS: usize = 4;
    const REQUESTS: usize = 2000;
    let origin = Origin::start();
    let shoal = start(&origin);
    let order = order(&shoal, PIPELINERS, |_| get("/block").repeat(REQUESTS), PIPELINERS * REQUESTS);
    assert_eq!(order.iter().filter(|path| *path == "/block").count(), PIPELINERS * REQUESTS);
    let before = others_before_the_last_small(&order);
    eprintln!("{before} of {} came before the last small hit", PIPELINERS * REQUESTS);
    assert!(before <= PIPELINERS * REQUESTS / 8, "{before} answers came before the last small hit");
}

/// What comes from the disk is read by others, and the worker goes on meanwhile.
#[test]
fn by_reads_from_the_disk() {
    const READERS: usize = 24;
    const READS: usize = 20;
    let origin = Origin::start();
    origin.on("/disk/*", Answer::fresh(body("disk", 6 << 10), 600));
    let shoal = start(&origin);
    let disk = |number: usize| format!("/disk/{number}");
    for number in 0..READERS * READS {
        shoal.get(&disk(number)).expect_status(200);
    }
    wait::until("all are on disk", || (0..READERS * READS).all(|number| shoal.get(&disk(number)).hit()));
    shoal.wait_until_written();
    let asks = |client: usize| (0..READS).flat_map(|number| get(&disk(client * READS + number))).collect();
    let before = shoal.responses("hit");
    let order = order(&shoal, READERS, asks, READERS * READS);
    assert_eq!(shoal.responses("hit") - before, (READERS * READS) as u64);
    let before = others_before_the_last_small(&order);
    eprintln!("{before} of {} came before the last small hit", READERS * READS);
    assert!(before <= READERS * READS / 4, "{before} answers from the disk came before the last small hit");
}
