//! Work on a disk that may not answer: on threads of its own, waited for with a time limit.
//!
//! Work that is late goes on without its caller. The caller must begin such work once at a time, so
//! that threads do not pile up.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

/// Results of the work, and the number of threads that have not ended.
struct Outcomes<R> {
    done: Mutex<(Vec<Option<R>>, usize)>,
    changed: Condvar,
}

/// Counts work as over when dropped, even if the work panicked.
struct Over<R>(Arc<Outcomes<R>>);

impl<R> Drop for Over<R> {
    fn drop(&mut self) {
        self.0.done.lock().1 -= 1;
        self.0.changed.notify_all();
    }
}

/// Does each piece of `work` on a thread of its own, and waits for at most `limit` in all. Returns
/// the results in order; `None` for work that is not done yet, or has panicked.
pub fn all_within<R, F>(limit: Duration, name: &str, work: Vec<F>) -> Vec<Option<R>>
where
    R: Send + 'static,
    F: FnOnce() -> R + Send + 'static,
{
    let none = work.iter().map(|_| None).collect();
    let outcomes = Arc::new(Outcomes { done: Mutex::new((none, work.len())), changed: Condvar::new() });
    for (at, work) in work.into_iter().enumerate() {
        let over = Over(Arc::clone(&outcomes));
        begin(name, move || {
            let result = work();
            // A late result finds no place: the caller has taken the vector.
            if let Some(place) = over.0.done.lock().0.get_mut(at) {
                *place = Some(result);
            }
        });
    }
    let mut done = outcomes.done.lock();
    outcomes.changed.wait_while_for(&mut done, |(_, left)| *left > 0, limit);
    std::mem::take(&mut done.0)
}

/// Does one piece of work like [`all_within`].
pub fn within<R: Send + 'static>(
    limit: Duration,
    name: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> Option<R> {
    all_within(limit, name, vec![work]).pop().flatten()
}

/// Begins work on a thread. If the system grants no thread, the caller does it: late, but done.
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
    use std::sync::mpsc;

    #[test]
    fn work_in_time_is_returned_and_late_work_goes_on() {
        let (go, gate) = mpsc::channel::<()>();
        let (told, heard) = mpsc::channel();
        let late = move || {
            gate.recv().expect("it is let go");
            told.send("late").expect("somebody listens");
            1
        };
        let work: Vec<Box<dyn FnOnce() -> u32 + Send>> = vec![Box::new(late), Box::new(|| 2)];
        assert_eq!(all_within(Duration::from_secs(1), "test", work), [None, Some(2)]);
        go.send(()).expect("it waits");
        assert_eq!(heard.recv(), Ok("late"));
    }

    #[test]
    fn nobody_waits_for_longer_than_it_takes() {
        assert_eq!(within(Duration::from_secs(100_000), "test", || 3), Some(3));
        assert_eq!(within(Duration::MAX, "test", || 4), Some(4));
        assert_eq!(within(Duration::MAX, "test", || -> u32 { panic!("it is meant to") }), None);
    }
}
