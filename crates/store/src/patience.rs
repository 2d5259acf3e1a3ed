//! Work that may take a disk that does not answer: on threads of its own, and waited for only so long.
//!
//! What is not done in time goes on alone. A caller sees to it that it is begun once at a time, lest such threads pile up.

use parking_lot::Mutex;
use std::sync::{Arc, mpsc};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Does all of these, each on a thread of its own, and waits for so long in all. Gives what became of each, in their order; `None` where it
/// is not done yet, or has panicked.
pub fn all_within<R, F>(limit: Duration, name: &str, work: Vec<F>) -> Vec<Option<R>>
where
    R: Send + 'static,
    F: FnOnce() -> R + Send + 'static,
{
    let count = work.len();
    let (told, heard) = mpsc::channel();
    for (at, work) in work.into_iter().enumerate() {
        let told = told.clone();
        // Nobody listens any more to what comes late.
        begin(name, move || drop(told.send((at, work()))));
    }
    drop(told);
    let end = Instant::now().checked_add(limit);
    let mut done: Vec<Option<R>> = (0..count).map(|_| None).collect();
    // Until the last has been heard of, or has gone without a word.
    while let Ok((at, result)) = match end {
        Some(end) => heard.recv_timeout(end.saturating_duration_since(Instant::now())).map_err(drop),
        None => heard.recv().map_err(drop),
    } {
        done[at] = Some(result);
    }
    done
}

/// The same for one.
pub fn within<R: Send + 'static>(
    limit: Duration,
    name: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> Option<R> {
    all_within(limit, name, vec![work]).pop().flatten()
}

/// Begins work on a thread. Where none can be had it is done here: later, but done.
fn begin(name: &str, work: impl FnOnce() + Send + 'static) {
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().take();
    let theirs = Arc::clone(&work);
    let run = move || {
        if let Some(work) = take(&theirs) {
            work();
        }
    };
    if Builder::new().name(name.into()).spawn(run).is_err()
        && let Some(work) = take(&work)
    {
        work();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_in_time_is_given_and_the_rest_goes_on_alone() {
        let (go, gate) = mpsc::channel::<()>();
        let (told, heard) = mpsc::channel();
        let late = move || {
            gate.recv().expect("it is let go");
            told.send("late").expect("somebody listens");
            1
        };
        let work: Vec<Box<dyn FnOnce() -> u32 + Send>> = vec![Box::new(late), Box::new(|| 2)];
        assert_eq!(all_within(Duration::from_millis(50), "test", work), [None, Some(2)]);
        go.send(()).expect("it waits");
        assert_eq!(heard.recv(), Ok("late"));
    }

    #[test]
    fn nobody_waits_for_longer_than_it_takes() {
        let begun = Instant::now();
        assert_eq!(within(Duration::from_secs(600), "test", || 3), Some(3));
        assert_eq!(within(Duration::MAX, "test", || 4), Some(4));
        assert_eq!(within(Duration::from_secs(600), "test", || -> u32 { panic!("it is meant to") }), None);
        assert!(begun.elapsed() < Duration::from_secs(300));
    }
}
