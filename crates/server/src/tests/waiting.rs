//! Tests of idle connections: they have no task, they move between idle and active, and clients see
//! no difference.

use super::client::Client;
use super::handler::Scripted;
use super::wait_until;
use crate::idle::{AT_ONCE, GUEST_WORK, HITS_TO_RETURN, TURN_WORK};
use crate::message;
use crate::metrics::Metrics;
use crate::{RunningServer, StreamServer, bind};
use parking_lot::Mutex;
use proptest::prelude::*;
use shoal_settings::{ClientLimits, Listen, Settings};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Server with one worker and countable tasks.
struct Counted {
    running: Option<RunningServer>,
    handler: Arc<Scripted>,
    metrics: Arc<Metrics>,
    worker: Handle,
    /// Number of tasks without any connection.
    own_tasks: usize,
}

impl Counted {
    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings { workers: 1, ..Settings::default() };
        settings.listen = vec![Listen::forward(([127, 0, 0, 1], 0).into())];
        change(&mut settings);
        let (metrics, worker) = (Arc::new(Metrics::default()), Arc::new(Mutex::new(None)));
        let handler = Arc::new(Scripted::default());
        let hook = {
            let worker = Arc::clone(&worker);
            move |_| *worker.lock() = Some(Handle::current())
        };
        let bound = bind(&settings).expect("loopback is there");
        let running = bound.start(Arc::clone(&handler), Arc::clone(&metrics), hook);
        wait_until("the worker", || worker.lock().is_some());
        let worker = worker.lock().clone().expect("it has begun");
        let running = Some(running.expect("threads start"));
        let mut server = Self { running, handler, metrics, worker, own_tasks: 0 };
        // An answered connection shows that every task of the server has begun.
        server.connect().get("/hit/1");
        wait_until("the connection's end", || server.metrics.connections_open.value() == 0);
        server.own_tasks = server.tasks();
        server
    }

    fn connect(&self) -> Client {
        Client::connect(self.running.as_ref().expect("not stopped").addresses()[0])
    }

    fn tasks(&self) -> usize {
        self.worker.metrics().num_alive_tasks()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop(Duration::ZERO);
        }
    }
}

#[test]
fn hits_need_no_task_other_requests_get_one() {
    let server = Counted::with(|_| {});
    let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/hit/3").text(), "hhh");
    }
    assert_eq!(server.tasks(), server.own_tasks);
    assert_eq!(clients[4].get("/memory/2").text(), "mm");
    assert_eq!(server.tasks(), server.own_tasks + 1);
    for hit in 0..HITS_TO_RETURN {
        assert_eq!(server.tasks(), server.own_tasks + 1, "before hit {hit}");
        assert_eq!(clients[4].get("/hit/1").text(), "h");
    }
    wait_until("its return", || server.tasks() == server.own_tasks);
    assert_eq!(clients[4].get("/hit/1").text(), "h");
    assert_eq!(server.metrics.connections_open.value(), 10);
    clients.truncate(3);
    wait_until("who has gone", || server.metrics.connections_open.value() == 3);
}

#[test]
fn silent_connection_is_closed_in_time() {
    let server = Counted::with(|settings| {
        settings.client.keep_alive = Duration::from_millis(300);
        settings.client.head_timeout = Duration::from_secs(3);
    });
    let start = Instant::now();
    let (mut silent, mut served) = (server.connect(), server.connect());
    served.get("/hit/1");
    assert_eq!(served.rest(), b"");
    let served_for = start.elapsed();
    assert_eq!(silent.rest(), b"");
    assert!(served_for >= Duration::from_millis(300), "{served_for:?}");
    assert!(served_for < Duration::from_millis(2900), "{served_for:?}");
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    // A connection that comes to an empty set is closed in time too.
    let mut late = server.connect();
    assert_eq!(late.rest(), b"");
}

/// The time of a pipelined request starts after a slow reply before it.
#[test]
fn a_slow_reply_takes_no_time_of_the_next_request() {
    let server = Counted::with(|_| {});
    let mut client = server.connect();
    client.send("GET /hit/30000000 HTTP/1.1\r\nHost: a\r\n\r\nGET /memory/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!((client.response().body.len(), client.response().body.len()), (30_000_000, 1));
    wait_until("both records", || server.handler.records.lock().len() == 3);
    let durations: Vec<_> = server.handler.records.lock().iter().map(|record| record.duration_us).collect();
    assert!(durations[1] > 1_900_000 && durations[2] < 1_000_000, "{durations:?}");
}

#[test]
fn an_end_behind_requests_is_seen() {
    let server = Counted::with(|_| {});
    for last in ["/hit/2", "/memory/2"] {
        let mut client = server.connect();
        client.send(format!("GET /hit/1 HTTP/1.1\r\nHost: a\r\n\r\nGET {last} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.finish();
        assert_eq!(client.response().text(), "h");
        assert_eq!(client.response().body.len(), 2);
        let start = Instant::now();
        assert_eq!(client.rest(), b"");
        assert!(start.elapsed() < Duration::from_secs(8), "not at the end of keep-alive");
    }
}

#[test]
fn request_before_the_drain_is_answered() {
    let mut server = Counted::with(|_| {});
    let (mut slow, mut other) = (server.connect(), server.connect());
    other.get("/hit/1");
    slow.send("GET /hit/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(Duration::from_millis(100));
    // The worker is busy, so both wait.
    other.send("GET /hit/2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let running = server.running.take().expect("running");
    running.drain(Duration::from_secs(20));
    let response = other.response();
    assert_eq!((response.text(), response.field("connection")), ("hh", Some("close")));
    running.join();
}

/// Clients are answered together, and the outcome of one does not affect the others.
#[test]
fn concurrent_requests_get_their_own_replies() {
    let server = Counted::with(|_| {});
    let mut slow = server.connect();
    let paths = ["/hit/1", "/hit/panic", "/hit/12000", "/memory/3", "/hit/30000", "/hit/0", "/hit/2"];
    // More clients than are answered together.
    let mut clients: Vec<_> = (0..70).map(|number| (server.connect(), paths[number % paths.len()])).collect();
    slow.get("/hit/1");
    slow.send("GET /hit/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(Duration::from_millis(100));
    for (client, path) in &mut clients {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    for (client, path) in &mut clients {
        match path.rsplit_once('/').and_then(|(_, bytes)| bytes.parse::<usize>().ok()) {
            Some(bytes) => assert_eq!(client.response().body.len(), bytes, "{path}"),
            None => assert_eq!(client.rest(), b""),
        }
    }
    let open = clients.len() - clients.iter().filter(|(_, path)| *path == "/hit/panic").count() + 1;
    wait_until("the end of those that it was about", || {
        server.metrics.connections_open.value() == open as u64
    });
}

/// Returns a client that has not read for long, and the number of its requests. Its last reply
/// waited for others, and a task sends the rest.
fn one_who_reads_late(server: &Counted) -> (Client, usize) {
    let mut client = server.connect();
    server.handler.begun.store(0, SeqCst);
    let mut asked = 0;
    while server.tasks() == server.own_tasks {
        client.send("GET /hit/10000 HTTP/1.1\r\nHost: a\r\n\r\n");
        asked += 1;
        // One request at a time: a reply before others is sent at once.
        let is_answered = || server.handler.begun.load(SeqCst) >= asked;
        wait_until("the answer or a task", || is_answered() || server.tasks() > server.own_tasks);
        assert!(asked < 10_000, "all is taken, and nobody reads");
    }
    (client, asked)
}

#[test]
fn batched_reply_without_room_is_sent_by_a_task() {
    let server = Counted::with(|_| {});
    let (mut client, asked) = one_who_reads_late(&server);
    (0..asked).for_each(|_| assert_eq!(client.response().body.len(), 10_000));
    (0..HITS_TO_RETURN).for_each(|_| assert_eq!(client.get("/hit/1").text(), "h"));
    wait_until("its return", || server.tasks() == server.own_tasks);
    assert_eq!(client.get("/hit/1").text(), "h");
    assert_eq!(server.metrics.responses_cut.value(), 0);
}

/// The reply counted as sent when it was built.
#[test]
fn batched_reply_counts_as_cut_after_close_or_stop() {
    let mut server = Counted::with(|_| {});
    drop(one_who_reads_late(&server));
    wait_until("the cut", || server.metrics.responses_cut.value() == 1);
    wait_until("the end of its task", || server.tasks() == server.own_tasks);
    let _client = one_who_reads_late(&server);
    assert_eq!(server.metrics.responses_cut.value(), 1);
    server.running.take().expect("running").stop(Duration::ZERO);
    assert_eq!(server.metrics.responses_cut.value(), 2);
}

/// Simulates a server stop in the same turn in which the connection got its task.
#[test]
fn reply_of_an_unstarted_task_counts_as_cut() {
    let (handler, metrics) = (Arc::new(Scripted::default()), Arc::new(Metrics::default()));
    let server = StreamServer::new(Arc::clone(&handler), Arc::clone(&metrics), &ClientLimits::default());
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("bound");
    let mut client = Client::connect(address);
    let near = listener.accept().expect("it connects").0;
    near.set_nonblocking(true).expect("a socket");
    socket2::SockRef::from(&near).set_send_buffer_size(4096).expect("a socket");
    // Without a reader, one of the replies fills the kernel's buffer.
    client.send("GET /hit/30000 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(200));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let peer = message::Client {
        address,
        local: address,
        listener: 0,
        tls: false,
        server_name: None,
        certificate: None,
        intercepted: None,
    };
    runtime.block_on(async {
        let begun = || handler.begun.load(SeqCst) > 0;
        tokio::select! {
            biased;
            () = server.serve_waiting(near, peer) => {}
            () = poll_fn(|_| if begun() { Poll::Ready(()) } else { Poll::Pending }) => {}
        }
    });
    drop(runtime);
    let records = handler.records.lock();
    let (cut, whole) = records.split_last().expect("a reply was begun");
    assert!(cut.aborted && !whole.iter().any(|record| record.aborted));
    assert_eq!((records.len(), metrics.responses_cut.value()), (handler.begun.load(SeqCst), 1));
    // If the kernel had no room for the cut reply, its head is still in the record.
    let heads = whole.len() as u64 + u64::from(cut.body_bytes > 0);
    let sent = heads * cut.head_bytes + whole.len() as u64 * 30_000 + cut.body_bytes;
    assert_eq!(client.rest().len() as u64, sent);
}

/// Tasks run in between, for any number of clients and requests at once.
#[test]
fn busy_clients_leave_other_tasks_their_turn() {
    let server = Counted::with(|_| {});
    let mut slow = server.connect();
    slow.get("/hit/1");
    let mut clients: Vec<_> = (0..128).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/hit/1").text(), "h"));
    slow.send("GET /hit/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the slow one", || server.handler.begun.load(SeqCst) == 131);
    // Counts the replies between two turns of this task.
    let (handler, most) = (Arc::clone(&server.handler), Arc::new(AtomicUsize::new(0)));
    let answers = Arc::clone(&most);
    let task = server.worker.spawn(async move {
        let mut before = 131;
        loop {
            let now = handler.begun.load(SeqCst);
            answers.fetch_max(now - before, SeqCst);
            before = now;
            tokio::task::yield_now().await;
        }
    });
    // The worker is busy meanwhile and finds all requests at once. No client asks for enough to get
    // a task.
    let asked = "GET /hit/1 HTTP/1.1\r\nHost:a\r\n\r\n".repeat(GUEST_WORK);
    clients.iter_mut().for_each(|client| client.send(&asked));
    for client in &mut clients {
        (0..GUEST_WORK).for_each(|_| assert_eq!(client.response().text(), "h"));
    }
    task.abort();
    wait_until("the end of all tasks but the slow one's", || server.tasks() == server.own_tasks + 1);
    // Last in one round and first in the next, the idle set has two turns between two of the
    // task's.
    let bound = 2 * (TURN_WORK + AT_ONCE * GUEST_WORK);
    let most = most.load(SeqCst);
    assert!(
        most > GUEST_WORK && most <= bound && bound < clients.len() * GUEST_WORK,
        "{most} answers without a pause"
    );
}

/// Otherwise other clients would wait.
#[test]
fn client_without_pauses_gets_a_task() {
    let server = Counted::with(|_| {});
    let client = server.connect();
    let [mut writing, mut reading] = [(); 2].map(|()| client.stream.try_clone().expect("another handle"));
    let requests = "GET /hit/1 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                if writing.write_all(requests.as_bytes()).is_err() {
                    break;
                }
            }
        });
        scope.spawn(|| while matches!(reading.read(&mut [0; 1 << 16]), Ok(1..)) {});
        wait_until("a task", || server.tasks() > server.own_tasks);
        assert_eq!(server.connect().get("/hit/2").text(), "hh");
        stop.store(true, Relaxed);
        client.stream.shutdown(Shutdown::Both).expect("still open");
    });
}

#[test]
fn panic_ends_only_its_own_connection() {
    let server = Counted::with(|_| {});
    let (mut waiting, mut panicking) = (server.connect(), server.connect());
    waiting.get("/hit/1");
    panicking.send("GET /hit/panic HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(panicking.rest(), b"");
    assert_eq!(waiting.get("/hit/2").text(), "hh");
    wait_until("its end", || server.metrics.connections_open.value() == 1);
    assert_eq!(server.tasks(), server.own_tasks);
}

/// Returns paths of hits of all sizes, and of requests that need a task.
fn path() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just("/hit/1"),
        2 => Just("/hit/12000"),
        2 => Just("/hit/30000"),
        1 => Just("/hit/70000"),
        1 => Just("/hit/700000"),
        1 => Just("/memory/5"),
        1 => Just("/frames/a,b,c"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn requests_are_answered_in_order_however_they_come(
        paths in prop::collection::vec(path(), 1..30),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        static SERVER: std::sync::LazyLock<Counted> = std::sync::LazyLock::new(|| Counted::with(|_| {}));
        let sent: String = paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\nX: {path}\r\n\r\n")).collect();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(sent.len())).collect();
        cuts.sort_unstable();
        cuts.push(sent.len());
        let mut client = SERVER.connect();
        let mut writing = client.stream.try_clone().expect("another handle");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut from = 0;
                for to in cuts {
                    writing.write_all(&sent.as_bytes()[from..to]).expect("the server reads");
                    from = to;
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
            for path in &paths {
                let body = client.response().body;
                let expected = match path.strip_prefix("/hit/") {
                    Some(bytes) => vec![b'h'; bytes.parse().expect("a number")],
                    None if path.starts_with("/memory") => b"mmmmm".to_vec(),
                    None => b"abc".to_vec(),
                };
                assert!(body == expected, "{path}: {} bytes", body.len());
            }
        });
    }
}
