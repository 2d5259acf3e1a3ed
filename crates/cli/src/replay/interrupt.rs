//! Signals that stop a replay. The replay ends after the request under way, and the measurements so
//! far are printed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::signal::unix::{SignalKind, signal};

/// Flag that is set once INT or TERM arrives.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Handles both signals. A second signal ends the process at once.
    pub fn watch() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let context = runtime.enter();
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        drop(context);
        let raised = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&raised);
        let wait = move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    if flag.swap(true, Relaxed) {
                        std::process::exit(EXIT_AT_ONCE);
                    }
                }
            });
        };
        std::thread::Builder::new().name("shoal-signals".into()).spawn(wait)?;
        Ok(Self(raised))
    }

    /// Returns `true` if a signal has arrived.
    pub fn is_raised(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Exit code that shells give a process ended by INT.
const EXIT_AT_ONCE: i32 = 130;
