//! Panics: each is a fault of ours, and none may pass unseen, whatever thread or task it ends.

use super::node::Running;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;

/// Writes every panic to the error log.
pub fn report() {
    panic::set_hook(Box::new(log));
}

/// Writes every panic to the error log and counts it in the node's metrics.
pub fn report_and_count(running: Arc<Running>) {
    panic::set_hook(Box::new(move |info| {
        running.count_panic();
        log(info);
    }));
}

fn log(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let message = info.payload_as_str().unwrap_or("no message");
    // RUST_BACKTRACE decides whether it is captured
    let backtrace = Backtrace::capture();
    let backtrace = match backtrace.status() {
        BacktraceStatus::Captured => backtrace.to_string(),
        _ => "set RUST_BACKTRACE=1 for one".into(),
    };
    tracing::error!(thread = thread.name(), location, message, backtrace, "a thread or task panicked");
}
