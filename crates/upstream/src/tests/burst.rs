//! Many requests at once from several threads: the limits hold, and no connection is left behind.

use super::*;
use std::thread;

/// Starts an origin on its own thread that closes each connection after `requests_per_connection`
/// requests.
fn origin(requests_per_connection: usize) -> RawOrigin {
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        runtime().block_on(async {
            let script = [Read, Say(OK)].repeat(requests_per_connection);
            sender.send(RawOrigin::start(vec![script]).await).expect("the test waits");
            std::future::pending::<()>().await;
        });
    });
    receiver.recv().expect("started")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Asks from `THREADS` threads with `TASKS` tasks each; every request must be answered. A failure
/// is reported after all threads: a thread that waits for another would hide it.
fn hammer(asker: &Arc<Asker>) {
    // A thread that ends also ends its connections, and the requests of others on them.
    let all_done = tokio::sync::Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                runtime().block_on(async {
                    let mut tasks = tokio::task::JoinSet::new();
                    for _ in 0..TASKS {
                        let asker = Arc::clone(asker);
                        tasks.spawn(async move {
                            for number in 0..REQUESTS {
                                assert_eq!(asker.get_whole(&format!("/{number}")).await, (200, "ok".into()));
                            }
                        });
                    }
                    let mut failed = None;
                    while let Some(ended) = tasks.join_next().await {
                        failed = failed.or(ended.err());
                    }
                    all_done.wait().await;
                    assert!(failed.is_none(), "{failed:?}");
                });
            });
        }
    });
}

fn asker(origin: &RawOrigin) -> Arc<Asker> {
    Arc::new(Asker::with(origin.address, Scheme::Http, |upstream| {
        upstream.connections_per_origin = 4;
        upstream.connect_timeout = Duration::from_secs(20);
        upstream.first_byte_timeout = Duration::from_secs(10);
    }))
}

#[test]
fn a_burst_opens_no_more_connections_than_allowed() {
    let origin = origin(THREADS * TASKS * REQUESTS);
    let asker = asker(&origin);
    hammer(&asker);
    assert_eq!(origin.requests().len(), THREADS * TASKS * REQUESTS);
    assert!(origin.connections() <= 4, "{} connections", origin.connections());
    assert_eq!(asker.metrics.upstream_retries.value(), 0, "no connection died with a request");
}

#[test]
fn an_origin_that_keeps_closing_answers_every_request() {
    let origin = origin(3);
    let asker = asker(&origin);
    hammer(&asker);
    assert!(origin.requests().len() >= THREADS * TASKS * REQUESTS);
    // All runtimes have ended, and with them their connections.
    assert_eq!(asker.metrics.upstream_connections.value(), 0);
    assert!(asker.upstreams.inner.pool.is_empty());
}

/// Each request meets connections of other threads that are just ending. A request queued behind
/// the end of a connection must not wait for an answer that never comes.
#[test]
fn requests_at_a_connections_end_are_not_lost() {
    let origin = origin(1);
    let asker = asker(&origin);
    for _ in 0..ROUNDS {
        hammer(&asker);
    }
    assert!(origin.requests().len() >= ROUNDS * THREADS * TASKS * REQUESTS);
}

const ROUNDS: usize = 8;
const THREADS: usize = 3;
const TASKS: usize = 20;
const REQUESTS: usize = 10;
