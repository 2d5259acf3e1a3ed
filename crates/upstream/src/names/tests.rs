//! Tests of lookups with a scripted resolver: they are shared, bounded and divided, and silence is
//! cached.

use super::*;
use crate::resolve::Lookup;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// Resolver that answers names beginning with `good` and fails those with `bad`. It is silent on
/// others until `spoken` has permits.
struct Scripted {
    asked: AtomicUsize,
    spoken: Semaphore,
}

impl Resolve for Scripted {
    fn resolve<'a>(&'a self, host: &'a str) -> Lookup<'a> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if host.starts_with("bad") {
                return Err(io::Error::other("no such name"));
            }
            if !host.starts_with("good") {
                self.spoken.acquire().await.expect("never closed").forget();
            }
            Ok([IpAddr::from([192, 0, 2, 1])].into())
        })
    }
}

fn names() -> (Arc<Names>, Arc<Scripted>) {
    let scripted = Arc::new(Scripted { asked: AtomicUsize::new(0), spoken: Semaphore::new(0) });
    let resolver = Arc::clone(&scripted) as Arc<dyn Resolve>;
    (Names::new(resolver, PATIENCE, Arc::default()), scripted)
}

fn client(number: u8) -> Party {
    Some(SocketAddr::from(([198, 51, 100, number], 1)))
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

const PATIENCE: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn silent_names_of_one_client_leave_lookups_to_others() {
    let (names, _) = names();
    let silent = (0..200).map(|number| {
        let names = Arc::clone(&names);
        tokio::spawn(async move { names.find(&format!("silent{number}"), client(1), soon()).await })
    });
    let silent: Vec<_> = silent.collect();
    tokio::task::yield_now().await;
    let begun = Instant::now();
    for number in 0..20 {
        names.find(&format!("good{number}"), client(2), soon()).await.expect("an answer");
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "nobody waited");
    for lookup in silent {
        let outcome = lookup.await.expect("no panic");
        assert_eq!(outcome.expect_err("silence").0, Cause::DnsTimeout);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_for_one_name_share_a_lookup() {
    let (names, scripted) = names();
    let asking: Vec<_> = (0..100)
        .map(|number| {
            let names = Arc::clone(&names);
            tokio::spawn(async move { names.find("slow", client(number), soon()).await })
        })
        .collect();
    tokio::task::yield_now().await;
    scripted.spoken.add_permits(1);
    for asked in asking {
        assert!(asked.await.expect("no panic").is_ok());
    }
    assert_eq!(scripted.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_name_fails_at_once_the_next_time() {
    let (names, scripted) = names();
    assert!(names.find("slow", client(1), soon()).await.is_err());
    let begun = Instant::now();
    for _ in 0..10 {
        assert_eq!(names.find("slow", client(2), soon()).await.expect_err("silence").0, Cause::DnsTimeout);
    }
    assert_eq!((begun.elapsed(), scripted.asked.load(Ordering::Relaxed)), (Duration::ZERO, 1));
    scripted.spoken.add_permits(1);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(names.find("slow", client(2), soon()).await.is_ok(), "its server speaks again");
    assert_eq!(scripted.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn answers_and_failures_are_remembered_for_a_while() {
    let (names, scripted) = names();
    for (host, memory) in [("good", MEMORY), ("bad", FAILURE_MEMORY)] {
        let before = scripted.asked.load(Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(names.find(host, client(1), soon()).await.is_ok(), host == "good");
        }
        assert_eq!(scripted.asked.load(Ordering::Relaxed), before + 1, "{host}");
        tokio::time::sleep(memory).await;
        let _ = names.find(host, client(1), soon()).await;
        assert_eq!(scripted.asked.load(Ordering::Relaxed), before + 2, "{host}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_answer_stands_in_for_silence() {
    let (names, scripted) = names();
    scripted.spoken.add_permits(1);
    assert!(names.find("slow", client(1), soon()).await.is_ok());
    tokio::time::sleep(MEMORY).await;
    assert!(names.find("slow", client(1), soon()).await.is_ok(), "its server is silent by now");
    assert_eq!((scripted.asked.load(Ordering::Relaxed), names.metrics.lookups_stale.value()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn names_are_forgotten_when_there_are_too_many() {
    let (names, _) = names();
    for number in 0..NAMES_MAX + 10 {
        names.find(&format!("good{number}"), client(1), soon()).await.expect("an answer");
    }
    assert_eq!(names.known.lock().len(), NAMES_MAX);
}
