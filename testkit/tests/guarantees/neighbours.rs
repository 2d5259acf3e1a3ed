//! Neighbours by ICP, HTCP and digests: scripted ones, good and bad. Squid itself is in
//! `squid_neighbours`.

mod digests;

use shoal_testkit::address::{free_port, fresh_ip};
use shoal_testkit::squid::NeighbourPorts;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal, wait};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A scripted neighbour that answers ICP as its closure says; its HTTP side is an [`Origin`].
struct Scripted {
    ports: NeighbourPorts,
    http: Origin,
    asked: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    fn start(answer: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let ports = NeighbourPorts::fresh();
        let socket = UdpSocket::bind((ports.ip, ports.icp)).expect("a free port");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket");
        let (asked, over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (counted, stopped) = (Arc::clone(&asked), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            let mut bytes = [0; 2048];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
                counted.fetch_add(1, Ordering::Relaxed);
                for datagram in answer(&bytes[..length]) {
                    socket.send_to(&datagram, from).expect("loopback takes it");
                }
            }
        });
        let http = Origin::start_at(ports.proxy());
        Self { ports, http, asked, over, thread: Some(thread) }
    }

    fn silent() -> Self {
        Self::start(|_| Vec::new())
    }

    fn settings(&self, more: &str) -> String {
        let NeighbourPorts { ip, http, icp, .. } = self.ports;
        format!("host = '{ip}'\nhttp_port = {http}\nicp_port = {icp}\n{more}")
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

const HIT: u8 = 2;
const MISS: u8 = 3;

/// The answer of this opcode to a query, by the bytes of RFC 2186.
fn icp_answer(query: &[u8], opcode: u8) -> Vec<u8> {
    let mut answer = query[..20].to_vec();
    answer.extend_from_slice(&query[24..]);
    answer[0] = opcode;
    let length = u16::try_from(answer.len()).expect("short");
    answer[2..4].copy_from_slice(&length.to_be_bytes());
    answer
}

fn icp_query(number: u32, url: &str) -> Vec<u8> {
    let length = u16::try_from(24 + url.len() + 1).expect("short");
    let mut query = vec![1, 2];
    query.extend(length.to_be_bytes());
    query.extend(number.to_be_bytes());
    query.extend([0; 16]);
    query.extend(url.as_bytes());
    query.push(0);
    query
}

fn htcp_message(opcode: u8, transaction: u32, url: &str) -> Vec<u8> {
    let mut data = vec![opcode << 4, 2];
    data.extend(transaction.to_be_bytes());
    if opcode == 4 {
        data.extend([0, 0]);
    }
    for text in ["GET", url, "1/1", ""] {
        data.extend(u16::try_from(text.len()).expect("short").to_be_bytes());
        data.extend(text.as_bytes());
    }
    let data_length = u16::try_from(data.len() + 2).expect("short");
    let mut message = (data_length + 6).to_be_bytes().to_vec();
    message.extend([0, 1]);
    message.extend(data_length.to_be_bytes());
    message.extend(data);
    message.extend([0, 2]);
    message
}

/// Sends a datagram and waits for the answer to it.
fn exchange(socket: &UdpSocket, to: SocketAddr, message: &[u8]) -> Option<Vec<u8>> {
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    socket.send_to(message, to).expect("loopback takes it");
    let mut bytes = [0; 2048];
    let (length, from) = socket.recv_from(&mut bytes).ok()?;
    assert_eq!(from, to, "Squid drops answers from elsewhere");
    Some(bytes[..length].to_vec())
}

fn get(shoal: &Shoal, url: &str) -> shoal_testkit::Response {
    shoal.ask_forward(&Request::get(url))
}

fn metric(shoal: &Shoal, name: &str) -> u64 {
    shoal.metric(&format!("shoal_neighbour_{name}"), "")
}

fn dropped(shoal: &Shoal, reason: &str) -> u64 {
    shoal.metric("shoal_neighbour_dropped_total", &format!("reason=\"{reason}\""))
}

#[test]
fn sibling_that_has_it_serves_it() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("from the origin", 60));
    let sibling = Scripted::start(|query| vec![icp_answer(query, HIT)]);
    sibling.http.on("http*", Answer::fresh("from the sibling", 60));
    let shoal = Setup::bare().neighbour(&sibling.settings("kind = 'sibling'")).start();
    let url = format!("{}/a", origin.url());
    get(&shoal, &url).expect_status(200).expect_body("from the sibling");
    let asked = &sibling.http.received()[0];
    assert_eq!(asked.target, url, "absolute form");
    assert!(asked.fields.joined("cache-control").contains("only-if-cached"), "{:?}", asked.fields);
    assert_eq!(origin.total(), 0);
    get(&shoal, &url).expect_body("from the sibling").expect_hit();
    assert_eq!(shoal.metric("shoal_neighbour_fetches_total", "kind=\"sibling\""), 1);
}

#[test]
fn proxy_only_is_not_stored() {
    let origin = Origin::start();
    let sibling = Scripted::start(|query| vec![icp_answer(query, HIT)]);
    sibling.http.on("http*", Answer::fresh("from the sibling", 60));
    let shoal = Setup::bare().neighbour(&sibling.settings("kind = 'sibling'\nproxy_only = true")).start();
    let url = format!("{}/a", origin.url());
    for count in 1..=3 {
        get(&shoal, &url).expect_body("from the sibling").expect_forwarded("uri-miss");
        assert_eq!(sibling.http.total(), count);
    }
}

#[test]
fn misses_and_special_requests_go_to_the_origin() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("from the origin", 60));
    let sibling = Scripted::start(|query| vec![icp_answer(query, MISS)]);
    let shoal = Setup::bare().neighbour(&sibling.settings("kind = 'sibling'")).start();
    get(&shoal, &format!("{}/a", origin.url())).expect_body("from the origin");
    assert_eq!((sibling.asked(), sibling.http.total()), (1, 0));
    for (field, value) in [
        ("Cache-Control", "no-cache"),
        ("Cache-Control", "max-age=0"),
        ("Authorization", "Basic YTpi"),
        ("Range", "bytes=0-1"),
        ("Via", "1.1 a, 1.1 b, 1.1 c, 1.1 d, 1.1 e, 1.1 f, 1.1 g, 1.1 h"),
    ] {
        let url = format!("{}/{field}{}", origin.url(), value.len());
        let answer = shoal.ask_forward(&Request::get(&url).field(field, value));
        assert!(matches!(answer.status, 200 | 206), "{field}: {value} gives {}", answer.status);
    }
    assert_eq!(sibling.asked(), 1, "none of these is a question for a sibling");
}

#[test]
fn silent_sibling_costs_less_and_less() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("from the origin", 60));
    let sibling = Scripted::silent();
    let shoal = Setup::bare()
        .set("neighbours.query_timeout", "100 ms")
        .neighbour(&sibling.settings("kind = 'sibling'"))
        .start();
    for number in 0..40 {
        get(&shoal, &format!("{}/{number}", origin.url())).expect_body("from the origin");
    }
    let asked = sibling.asked();
    assert!(asked < 20, "a silent neighbour is asked once a second: {asked} of 40");
    assert!(metric(&shoal, "silent_total") >= 8);
}

#[test]
fn lying_sibling_is_left_alone() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("from the origin", 60));
    let sibling = Scripted::start(|query| vec![icp_answer(query, HIT)]);
    sibling.http.on("http*", Answer::new(504));
    let shoal = Setup::bare().neighbour(&sibling.settings("kind = 'sibling'")).start();
    for number in 0..40 {
        get(&shoal, &format!("{}/{number}", origin.url())).expect_body("from the origin");
    }
    let asked = sibling.http.total();
    assert_eq!(asked, 16, "sixteen false hits in a row set it aside");
    assert_eq!(metric(&shoal, "false_hits_total"), 16);
}

/// Answers with another number, for another URL, or cut short count nothing.
#[test]
fn forged_answers_have_no_effect() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("from the origin", 60));
    let sibling = Scripted::start(|query| {
        let mut wrong_number = icp_answer(query, HIT);
        wrong_number[4] ^= 1;
        let mut wrong_url = icp_answer(query, HIT);
        let last = wrong_url.len() - 2;
        wrong_url[last] ^= 1;
        let cut = icp_answer(query, HIT)[..15].to_vec();
        let mut version_3 = icp_answer(query, HIT);
        version_3[1] = 3;
        vec![wrong_number, wrong_url, cut, version_3, icp_answer(query, MISS)]
    });
    sibling.http.on("http*", Answer::fresh("from a liar", 60));
    let shoal = Setup::bare().neighbour(&sibling.settings("kind = 'sibling'")).start();
    for number in 0..5 {
        get(&shoal, &format!("{}/{number}", origin.url())).expect_body("from the origin");
    }
    assert_eq!(sibling.http.total(), 0);
    wait::until("all are counted", || dropped(&shoal, "unasked") == 10 && dropped(&shoal, "malformed") == 10);
}

#[test]
fn slow_sibling_is_waited_for_briefly() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("from the origin", 60));
    let sibling = Scripted::start(|query| vec![icp_answer(query, HIT)]);
    sibling.http.on("http*", Answer::fresh("late", 60).delay(Duration::from_secs(50)));
    let shoal = Setup::bare()
        .set("neighbours.sibling_timeout", "200 ms")
        .neighbour(&sibling.settings("kind = 'sibling'\nconnect_fail_limit = 2"))
        .start();
    let began = Instant::now();
    for number in 0..6 {
        get(&shoal, &format!("{}/{number}", origin.url())).expect_body("from the origin");
    }
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(sibling.http.total(), 2, "two failures set it aside");
}

#[test]
fn parents_are_asked_and_the_origin_when_they_fail() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("from the origin", 60));
    // A neighbour is not asked for its own clients: these parents have other addresses.
    let start = || Origin::start_at(free_port(fresh_ip()));
    let (first, second) = (start(), start());
    first.on("http*", Answer::new(502));
    second.on("http*", Answer::fresh("from a parent", 60));
    let parent = |parent: &Origin, name: &str| {
        let (ip, port) = (parent.address().ip(), parent.address().port());
        format!("host = '{ip}'\nkind = 'parent'\nhttp_port = {port}\nname = '{name}'")
    };
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "node:secret\n").expect("written");
    let credentials = format!("{}\ncredentials = '{}'", parent(&second, "b"), file.path().display());
    let shoal = Setup::bare().neighbour(&parent(&first, "a")).neighbour(&credentials).start();
    get(&shoal, &format!("{}/a", origin.url())).expect_body("from a parent");
    assert_eq!((first.total(), second.total(), origin.total()), (1, 1, 0));
    assert_eq!(second.received()[0].fields.joined("proxy-authorization"), "Basic bm9kZTpzZWNyZXQ=");
    let local = Origin::start();
    let own = Setup::bare().neighbour(&parent(&local, "c")).start();
    get(&own, &format!("{}/b", origin.url())).expect_body("from the origin");
    assert_eq!(local.total(), 0, "a client is no way to the origin for itself");
    let gone = shoal_testkit::address::closed_port();
    let settings = format!("host = '{}'\nkind = 'parent'\nhttp_port = {}", gone.ip(), gone.port());
    let own = Setup::bare().neighbour(&settings).start();
    get(&own, &format!("{}/c", origin.url())).expect_body("from the origin");
}

fn answering(setup: Setup, more: &[(&str, &str)]) -> (Shoal, NeighbourPorts) {
    let ports = NeighbourPorts::fresh();
    let mut setup = setup
        .set("neighbours.icp_listen", format!("{}:{}", ports.ip, ports.icp))
        .set("neighbours.htcp_listen", format!("{}:{}", ports.ip, ports.htcp))
        .set_list("neighbours.allow", &["127.0.0.1/32"]);
    for (key, value) in more {
        setup = setup.set(&format!("neighbours.{key}"), *value);
    }
    (setup.start(), ports)
}

#[test]
fn questions_are_answered_for_fresh_plain_responses() {
    let origin = Origin::start();
    origin
        .on("/fresh", Answer::fresh("body", 600))
        .on("/stale", Answer::ok("body").field("Cache-Control", "max-age=0").field("ETag", "\"1\""))
        .on("/vary", Answer::fresh("body", 600).field("Vary", "Accept"))
        .on("/error", Answer::new(404).field("Cache-Control", "max-age=600"));
    let (shoal, ports) = answering(Setup::bare(), &[]);
    for path in ["/fresh", "/stale", "/vary", "/error"] {
        get(&shoal, &format!("{}{path}", origin.url()));
    }
    let hits = shoal.responses("memory_hit");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    for (path, is_hit) in
        [("/fresh", true), ("/stale", false), ("/vary", false), ("/error", false), ("/none", false)]
    {
        let url = format!("{}{path}", origin.url());
        let query = icp_query(77, &url);
        let answer = exchange(&socket, (ports.ip, ports.icp).into(), &query).expect("an answer");
        assert_eq!(answer, icp_answer(&query, if is_hit { HIT } else { MISS }), "{path}");
        let ask = htcp_message(1, 99, &url);
        let answer = exchange(&socket, (ports.ip, ports.htcp).into(), &ask).expect("an answer");
        let expected =
            [0, 0x14, 0, 1, 0, 0x0e, 0x10 + u8::from(!is_hit), 1, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 2];
        assert_eq!(answer, expected, "{path}");
    }
    assert_eq!(shoal.responses("memory_hit"), hits, "a question is no request");
    assert_eq!(metric(&shoal, "hits_told_total"), 2);
}

#[test]
fn stored_on_disk_is_told_after_a_restart() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let (mut shoal, ports) = answering(Setup::bare().set("store.admission", "always"), &[]);
    let url = format!("{}/a", origin.url());
    get(&shoal, &url).expect_body("body");
    shoal.wait_until_written();
    shoal.restart_and_find_all();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let query = icp_query(1, &url);
    let answer = exchange(&socket, (ports.ip, ports.icp).into(), &query).expect("an answer");
    assert_eq!(answer[0], HIT);
}

#[test]
fn strangers_and_floods_get_nothing() {
    let (shoal, ports) = answering(Setup::bare().set("neighbours.queries_per_second", 15), &[]);
    let stranger = UdpSocket::bind((fresh_ip(), 0)).expect("a free port");
    let listed = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    listed.set_nonblocking(true).expect("a socket");
    stranger.set_nonblocking(true).expect("a socket");
    let query = icp_query(5, "http://a.test/");
    // In rounds, so that no datagram finds the socket's buffer full.
    for round in 1..=6 {
        for _ in 0..40 {
            for socket in [&stranger, &listed] {
                socket.send_to(&query, (ports.ip, ports.icp)).expect("loopback takes it");
            }
            stranger.send_to(&htcp_message(1, 5, "http://a.test/"), (ports.ip, ports.htcp)).expect("sent");
        }
        wait::until("all are counted", || {
            let answered = shoal.metric("shoal_neighbour_questions_total", "protocol=\"icp\"");
            dropped(&shoal, "address") == round * 80 && answered + dropped(&shoal, "rate") == round * 40
        });
    }
    assert!(dropped(&shoal, "rate") > 0);
    let mut bytes = [0; 100];
    assert!(stranger.recv_from(&mut bytes).is_err(), "no answer at all");
    for bad in [&b""[..], b"x", &query[..20], &[0xff; 1500]] {
        listed.send_to(bad, (ports.ip, ports.icp)).expect("loopback takes it");
        listed.send_to(bad, (ports.ip, ports.htcp)).expect("loopback takes it");
    }
    let origin = Origin::start();
    origin.on("/a", Answer::ok("body"));
    get(&shoal, &format!("{}/a", origin.url())).expect_body("body");
}

#[test]
fn urls_are_removed_for_those_who_may() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let url = format!("{}/a", origin.url());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let (shoal, ports) = answering(Setup::bare(), &[]);
    get(&shoal, &url).expect_body("body");
    let clear = htcp_message(4, 7, &url);
    let code = |ports: NeighbourPorts| {
        exchange(&socket, (ports.ip, ports.htcp).into(), &clear).expect("an answer")[6]
    };
    assert_eq!(code(ports), 0x41, "kept: nobody may");
    get(&shoal, &url).expect_hit();
    assert_eq!(dropped(&shoal, "clear"), 1);
    let setup = Setup::bare().set_list("neighbours.allow_clear", &["127.0.0.1/32"]);
    let (shoal, ports) = answering(setup, &[]);
    get(&shoal, &url).expect_body("body");
    assert_eq!(code(ports), 0x40, "gone");
    get(&shoal, &url).expect_forwarded("uri-miss");
    get(&shoal, &url).expect_hit();
    assert_eq!((code(ports), code(ports)), (0x40, 0x42), "and then it is not there");
}

#[test]
fn unsigned_removals_are_refused_where_there_is_a_key() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "shoal 0123456789abcdef\n").expect("written");
    let path = file.path().to_string_lossy().into_owned();
    let setup = Setup::bare().set_list("neighbours.allow_clear", &["127.0.0.1/32"]);
    let (shoal, ports) = answering(setup, &[("htcp_key_file", &path)]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let answer = exchange(&socket, (ports.ip, ports.htcp).into(), &htcp_message(4, 7, "http://a.test/"));
    assert_eq!(answer.map(|answer| (answer[6], answer[7])), Some((0x40, 3)), "a signature is needed");
    assert_eq!(dropped(&shoal, "signature"), 1);
}

/// Two Shoals with one key: the purge of the one reaches the other by signed CLR.
#[test]
fn purges_are_told_to_neighbours_with_a_signature() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "shoal 0123456789abcdef\n").expect("written");
    let key = file.path().to_string_lossy().into_owned();
    let setup = Setup::bare()
        .set_list("neighbours.allow", &["127.0.0.0/8"])
        .set_list("neighbours.allow_clear", &["127.0.0.0/8"]);
    let ports = NeighbourPorts::fresh();
    let other = setup
        .set("neighbours.htcp_listen", format!("{}:{}", ports.ip, ports.htcp))
        .set("neighbours.htcp_key_file", key.as_str())
        .start();
    let own = NeighbourPorts::fresh();
    let forward = other.address("forward");
    let shoal = Setup::bare()
        .set("neighbours.htcp_listen", format!("{}:{}", own.ip, own.htcp))
        .set("neighbours.htcp_key_file", key.as_str())
        .neighbour(&format!(
            "host = '{}'\nkind = 'sibling'\nhttp_port = {}\nhtcp_port = {}\nhtcp_signed = true\nhtcp_clear = true",
            ports.ip,
            forward.port(),
            ports.htcp
        ))
        .start();
    let url = format!("{}/a", origin.url());
    get(&other, &url).expect_body("body");
    shoal.ask_admin(&Request::new("POST", &format!("/purge?url={url}"))).expect_status(200);
    wait::until("the other has removed it", || metric(&other, "clears_total") == 1);
    wait::until("and asks the origin again", || !get(&other, &url).hit());
    assert_eq!(dropped(&other, "signature"), 0);
}

#[test]
fn listed_neighbours_get_504_never_403() {
    let origin = Origin::start();
    let setup = Setup::bare().set_list("forward.deny_destinations", &["denied.test"]);
    let (shoal, _) = answering(setup, &[]);
    let only = |url: &str| {
        shoal.ask_forward(&Request::get(url).field("Cache-Control", "max-age=259200, only-if-cached"))
    };
    only(&format!("{}/a", origin.url())).expect_status(504);
    only("http://denied.test/").expect_status(504);
    shoal.ask_forward(&Request::get("http://denied.test/")).expect_status(403);
    assert_eq!(origin.total(), 0);
}
