//! What happens to the node meanwhile: reloads, a disk that is taken out for a while, closes in
//! order, kills.

use crate::DISKS;
use crate::clients::World;
use crate::watch::Watch;
use rustix::process::Signal;
use shoal_testkit::seeded::Random;
use shoal_testkit::{Request, Shoal, wait};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Runs until the time is over. The last stretch is left alone, so that something of it can be
/// looked at.
pub fn run(shoal: &mut Shoal, world: &World, watch: &Watch, lasts: Duration, mut random: Random) {
    let end = Instant::now() + lasts;
    let mut told = Instant::now();
    while Instant::now() < end {
        let until = (Instant::now() + Duration::from_millis(500 + random.below(2500))).min(end);
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
            watch.look(shoal);
        }
        match random.below(8) {
            0..3 => shoal.signal(Signal::HUP),
            3 => end_and_restart(shoal, world, true),
            4 => end_and_restart(shoal, world, false),
            5 => {
                set_disk(shoal, false);
                std::thread::sleep(Duration::from_millis(random.below(1500)));
                set_disk(shoal, true);
            }
            _ => {}
        }
        if told.elapsed() > Duration::from_secs(30) {
            eprintln!(
                "{:?} left: {:?}; {watch:?}",
                end.saturating_duration_since(Instant::now()),
                world.seen
            );
            told = Instant::now();
        }
    }
}

/// Takes a disk out of service, or brings it back with what it had; but not with what was purged
/// meanwhile.
fn set_disk(shoal: &Shoal, online: bool) {
    let path = shoal.folder().join(DISKS[1].0);
    let body = format!(r#"{{"path": "{}", "online": {online}}}"#, path.display());
    let request =
        Request::new("POST", "/disk").field("Content-Type", "application/json").body(body.as_bytes());
    wait::until("the disk is free", || {
        let answer = shoal.ask_admin(&request);
        // Who reads slowly what was on it keeps it from coming back.
        let is_busy = answer.status == 422 && answer.text().contains("busy");
        assert!(is_busy || answer.text().contains("true"), "{body}: {} {}", answer.status, answer.text());
        !is_busy
    });
}

/// Ends the node, in order or not, and starts it again. What was invalidated need not have reached
/// the disk at once, so nothing is invalidated until the kill once all is written; clients of
/// HTTP/1 go on when it comes.
fn end_and_restart(shoal: &mut Shoal, world: &World, in_order: bool) {
    let settled = world.invalidating.write().expect("nobody panics with it");
    let down = world.up.write().expect("nobody panics with it");
    if in_order {
        shoal.signal(Signal::TERM);
        let status = shoal.wait_for_exit(Duration::from_secs(60));
        assert!(status.is_some_and(|status| status.success()), "a close in order ended with {status:?}");
    } else {
        world.resting.store(true, SeqCst);
        shoal.wait_until_written();
        world.resting.store(false, SeqCst);
        std::thread::sleep(Duration::from_millis(50));
        shoal.kill();
    }
    shoal.restart();
    drop((down, settled));
}
