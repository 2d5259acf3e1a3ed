//! Work on several things in parallel, on a thread for each as far as the system grants threads.
//!
//! A system that is short of memory or threads refuses new threads. The caller then does that work
//! itself, item by item: late, but done.

use std::thread::{Builder, Result, ScopedJoinHandle, scope};

/// Does the work for every item of `all`. Returns the results in the order of the items, with an
/// error for work that panicked on its thread.
pub(crate) fn run_parallel<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<Result<R>> {
    each_by(Builder::new, all, work)
}

fn each_by<T: Sync, R: Send>(
    builder: fn() -> Builder,
    all: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<Result<R>> {
    let work = &work;
    scope(|scope| {
        let begin = |one| builder().spawn_scoped(scope, move || work(one)).map_err(|_| one);
        let begun: Vec<std::result::Result<ScopedJoinHandle<'_, R>, &T>> = all.iter().map(begin).collect();
        let done = begun.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join(),
            Err(one) => Ok(work(one)),
        });
        done.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(builder: fn() -> Builder, is_elsewhere: bool) {
        let here = std::thread::current().id();
        let work = |number: &u32| (number * 2, std::thread::current().id() != here);
        let done = each_by(builder, &[1, 2, 3], work);
        let done: Vec<_> = done.into_iter().map(|one| one.expect("no panic")).collect();
        assert_eq!(done, [2, 4, 6].map(|number| (number, is_elsewhere)));
    }

    #[test]
    fn each_has_a_thread() {
        check(Builder::new, true);
    }

    #[test]
    fn without_threads_all_is_done_nevertheless() {
        // No machine has room for such a stack.
        check(|| Builder::new().stack_size(1 << 60), false);
    }
}
