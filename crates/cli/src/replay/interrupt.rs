//! Signals that stop a replay: it ends after the request under way, and what was measured is
//! printed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::signal::unix::{SignalKind, signal};

/// Whether INT or TERM has come.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes both signals over. A second one ends the process at once.
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

    /// Whether one has come.
    pub fn is_raised(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// What shells give a process that INT has ended.
const EXIT_AT_ONCE: i32 = 130;
