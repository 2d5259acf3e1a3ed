//! Waiting for something to become true, with a limit.

use std::time::{Duration, Instant};

/// The limit of every wait that does not name its own: long, since the machine may have other work,
/// and only a test that fails waits for it.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Polls `condition` until it holds; panics naming `what` when it does not within [`LIMIT`].
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    assert!(within(LIMIT, condition), "not within {LIMIT:?}: {what}");
}

/// Polls `condition` until it holds or `limit` has passed; says whether it held.
pub fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ends a process: asked by TERM, so that it ends its own children too, and killed if that takes
/// longer than [`LIMIT`].
pub fn end(process: &mut std::process::Child) {
    let id = rustix::process::Pid::from_child(process);
    let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    if !within(LIMIT, || matches!(process.try_wait(), Ok(Some(_)))) {
        let _ = process.kill();
        let _ = process.wait();
    }
}
