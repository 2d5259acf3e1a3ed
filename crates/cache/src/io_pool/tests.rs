//! Tests of the pool: order, limits, threads.

use super::*;
use std::sync::mpsc;

#[tokio::test]
async fn runs_jobs_and_refuses_when_full() {
    let pool = IoPool::new(1, 2).expect("threads start");
    let (release, gate) = mpsc::channel::<()>();
    let (entered, in_job) = mpsc::channel::<()>();
    let blocked = pool.submit(JobKind::READ, move || {
        let _ = entered.send(());
        gate.recv().is_ok()
    });
    in_job.recv().expect("the first job started");
    let first = pool.submit(JobKind::READ, || 1).expect("room for one");
    let second = pool.submit(JobKind::READ, || 2).expect("room for two");
    assert!(pool.submit(JobKind::READ, || 3).is_err(), "a third waiting job is refused");
    release.send(()).expect("the job waits");
    assert_eq!(blocked.expect("queued").await, Ok(true));
    assert_eq!((first.await, second.await), (Ok(1), Ok(2)));
    pool.close();
    assert!(pool.submit(JobKind::READ, || 4).is_err(), "a closed pool refuses");
}

#[tokio::test]
async fn threads_start_as_jobs_need_them() {
    let pool = IoPool::new(3, 8).expect("threads start");
    assert_eq!(pool.threads.lock().len(), 1);
    let (entered, in_job) = mpsc::channel::<()>();
    let gates: Vec<_> = (0..4)
        .map(|_| {
            let (release, gate) = mpsc::channel::<()>();
            let entered = entered.clone();
            let job = move || entered.send(()).is_ok() && gate.recv().is_ok();
            (release, pool.submit(JobKind::READ, job).expect("room"))
        })
        .collect();
    (0..3).for_each(|_| in_job.recv().expect("three jobs run at once"));
    assert_eq!((pool.threads.lock().len(), pool.waiting()), (3, 1), "no fourth thread");
    for (release, job) in gates {
        release.send(()).expect("the job waits");
        assert_eq!(job.await, Ok(true));
    }
    pool.close();
}

#[tokio::test(start_paused = true)]
async fn capacity_wait_ends_if_disk_hangs() {
    let pool = IoPool::new(1, 4).expect("threads start");
    let (release, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let jobs: Vec<_> = (0..4)
        .map(|_| {
            let gate = Arc::clone(&gate);
            pool.submit(JobKind::READ, move || gate.lock().recv().is_ok()).expect("room")
        })
        .collect();
    let began = tokio::time::Instant::now();
    pool.wait_for_capacity().await;
    let hung = began.elapsed();
    assert!((STUCK..CATCH_UP_MAX).contains(&hung), "{hung:?}");
    (0..4).for_each(|_| release.send(()).expect("jobs wait"));
    for job in jobs {
        assert_eq!(job.await, Ok(true));
    }
    let began = tokio::time::Instant::now();
    pool.wait_for_capacity().await;
    assert_eq!(began.elapsed(), Duration::ZERO, "an empty queue holds nobody up");
    pool.close();
}

#[tokio::test]
async fn a_panicking_job_is_a_refusal_and_the_pool_lives() {
    let pool = IoPool::new(1, 4).expect("threads start");
    let panicking = pool.submit(JobKind::READ, || -> u8 { panic!("expected in this test") });
    assert!(panicking.expect("queued").await.is_err());
    assert_eq!(pool.submit(JobKind::READ, || 7).expect("queued").await, Ok(7));
    pool.close();
}

#[tokio::test]
async fn waiting_reads_begin_in_disk_order() {
    let pool = IoPool::new(1, 100).expect("threads start");
    let (release, gate) = mpsc::channel::<()>();
    let blocked = pool.submit(JobKind::READ, move || gate.recv().is_ok()).expect("room");
    let order = Arc::new(Mutex::new(Vec::new()));
    let reads: Vec<_> = [70, 20, 90, 20, 40]
        .into_iter()
        .map(|at| {
            let order = Arc::clone(&order);
            pool.submit(JobKind::Read { at: Some(at) }, move || order.lock().push(at)).expect("room")
        })
        .collect();
    release.send(()).expect("the job waits");
    assert_eq!(blocked.await, Ok(true));
    for read in reads {
        read.await.expect("it is done");
    }
    assert_eq!(*order.lock(), [20, 20, 40, 70, 90]);
    pool.close();
}

#[tokio::test]
async fn reads_go_before_changes_but_not_for_ever() {
    let pool = IoPool::new(1, 1000).expect("threads start");
    let (release, gate) = mpsc::channel::<()>();
    let blocked = pool.submit(JobKind::READ, move || gate.recv().is_ok()).expect("room");
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().push(what)
    };
    let changes = [(); 3].map(|()| pool.submit(JobKind::Change, note("change")).expect("room"));
    let reads: Vec<_> = (0..200).map(|_| pool.submit(JobKind::READ, note("read")).expect("room")).collect();
    release.send(()).expect("the job waits");
    assert_eq!(blocked.await, Ok(true));
    for job in changes.into_iter().chain(reads) {
        job.await.expect("it is done");
    }
    let order = order.lock();
    let changes: Vec<_> = (0..203).filter(|at| order[*at] == "change").collect();
    assert!(changes[0] >= 10, "reads come first: {changes:?}");
    assert!(changes[2] <= 60, "others wait for some of them only: {changes:?}");
    pool.close();
}

#[tokio::test]
async fn unawaited_changes_begin_soon_and_in_order() {
    let pool = IoPool::new(4, 1000).expect("threads start");
    let begun = Instant::now();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |number: u32| {
        let order = Arc::clone(&order);
        move || order.lock().push(number)
    };
    let jobs: Vec<_> =
        (0..10).map(|number| pool.submit(JobKind::ChangeSoon, note(number)).expect("room")).collect();
    pool.submit(JobKind::READ, || ()).expect("room").await.expect("it is done");
    assert!(begun.elapsed() > SOON || order.lock().is_empty(), "a read does not wait for them");
    for job in jobs {
        job.await.expect("it is done");
    }
    assert!(begun.elapsed() >= SOON, "they were begun together");
    until_settled(&pool).await;
    assert_eq!(order.lock().len(), 10);
    let soon = pool.submit(JobKind::ChangeSoon, note(10)).expect("room");
    assert!(pool.is_changing(), "one has not been done");
    let now = pool.submit(JobKind::Change, note(11)).expect("room");
    assert!(soon.await.is_ok() && now.await.is_ok());
    assert_eq!(order.lock().iter().filter(|number| **number >= 10).count(), 2);
    pool.close();
}

/// Waits until all changes have been done.
async fn until_settled(pool: &IoPool) {
    let begun = Instant::now();
    while pool.is_changing() {
        assert!(begun.elapsed() < Duration::from_secs(10), "they are never done");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn close_finishes_many_unawaited_changes() {
    let pool = IoPool::new(2, 1000).expect("threads start");
    let done = Arc::new(AtomicU64::new(0));
    for _ in 0..900 {
        let done = Arc::clone(&done);
        pool.submit(JobKind::ChangeSoon, move || done.fetch_add(1, Relaxed)).expect("room");
    }
    pool.close();
    assert_eq!(done.load(Relaxed), 900);
}
