//! Logging of panics. Each panic is a defect of Shoal, and none may go unnoticed in any thread or
//! task.

use super::node::RunningNode;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;

/// Writes every panic to the error log.
pub fn report() {
    panic::set_hook(Box::new(log));
}

/// Writes every panic to the error log and counts it in the node's metrics.
pub fn report_and_count(running: Arc<RunningNode>) {
    panic::set_hook(Box::new(move |info| {
        running.count_panic();
        log(info);
    }));
}

fn log(info: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let message = info.payload_as_str().unwrap_or("no message");
    // RUST_BACKTRACE decides whether a backtrace is captured.
    let backtrace = Backtrace::capture();
    let backtrace = match backtrace.status() {
        BacktraceStatus::Captured => backtrace.to_string(),
        _ => "set RUST_BACKTRACE=1 for one".into(),
    };
    tracing::error!(thread = thread.name(), location, message, backtrace, "a thread or task panicked");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Write};
    use std::sync::{Mutex, PoisonError};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_is_logged_with_its_thread_and_place() {
        let page = Page::default();
        let writer = page.clone();
        let subscriber =
            tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        let worker = || {
            tracing::subscriber::with_default(subscriber, || {
                report();
                let _ = panic::catch_unwind(|| panic!("a fault of {}", "ours"));
            });
        };
        let thread = std::thread::Builder::new().name("worker-7".into()).spawn(worker).expect("started");
        thread.join().expect("the panic was caught");
        let _ = panic::take_hook();
        let bytes = page.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = String::from_utf8(bytes).expect("UTF-8");
        for part in ["ERROR", "worker-7", "panics.rs:", "a fault of ours"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
