//! The order in which test programs run: two lanes, each program in the lane of its sort.

use super::program::Program;
use super::results::Results;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Runs all programs and prints each one's output when it ends. Programs of the testkit wait most
/// of their time and begin in the first lane, all others in the second. A lane that is empty helps
/// the other.
pub fn run_all(programs: Vec<Arc<Program>>) -> Vec<Results> {
    let total = programs.len();
    let (waiting, computing): (VecDeque<_>, VecDeque<_>) =
        programs.into_iter().partition(|program| program.waits());
    let queues = Mutex::new([waiting, computing]);
    let done = Mutex::new(Vec::with_capacity(total));
    let lane = |first: usize| {
        while let Some(program) = next(&queues, first) {
            let results = program.run(&[]);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push(results);
            let results = &done[done.len() - 1];
            let took = results.took.as_secs_f64();
            println!("\n==> {} ({}/{total}, {took:.1} s)\n{}", program.name, done.len(), results.output);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| lane(0));
        scope.spawn(|| lane(1));
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn next(queues: &Mutex<[VecDeque<Arc<Program>>; 2]>, first: usize) -> Option<Arc<Program>> {
    let mut queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
    queues[first].pop_front().or_else(|| queues[1 - first].pop_front())
}
