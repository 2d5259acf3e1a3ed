//! A link in user space that delays, loses, doubles and reorders frames, for kernels without netem.
//!
//! ```text
//!   eth0 of the host ══ port ─► socket ─► outbound line ─► socket ─► uplink ══ bridge
//!                            ◄─ socket ◄─ inbound line  ◄─ socket ◄─
//! ```
//!
//! Frames are passed, not connections. Both ends keep their addresses, by which members of a
//! cluster know each other. TCP meets loss as it does on a wire. A proxy of connections does
//! neither.

mod checksum;
mod driver;
mod line;

pub use line::{Counts, Quality};

use super::names::Names;
use super::network;
use driver::Driver;
use line::Line;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A running link; without a quality set it passes everything on at once. The host's cable is whole
/// again when it is dropped.
pub struct Link {
    names: Names,
    host: usize,
    lines: Arc<[Mutex<Line>; 2]>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    switch: LinkSwitch,
}

/// Whether a host has a link.
#[derive(Clone, Default)]
pub(super) struct LinkSwitch(Arc<AtomicBool>);

impl Link {
    pub(super) fn start(names: Names, host: usize, seed: u64, switch: &LinkSwitch) -> Result<Self, String> {
        if switch.0.swap(true, SeqCst) {
            return Err(format!("host {host} has a link already"));
        }
        let lines = Arc::new([seed, !seed].map(|seed| Mutex::new(Line::new(seed))));
        let stopping = Arc::new(AtomicBool::new(false));
        // From here on a failure takes the cable away again.
        let mut link = Self { names, host, lines, stopping, thread: None, switch: switch.clone() };
        let driver = Driver::open(&network::part(names, host)?)?;
        let (lines, stopping) = (link.lines.clone(), link.stopping.clone());
        link.thread = Some(std::thread::spawn(move || driver.run(&lines, &stopping)));
        Ok(link)
    }

    /// Sets what happens to frames that the host sends.
    pub fn set_outbound(&self, quality: Quality) {
        self.line(OUTBOUND).set(quality);
    }

    /// Sets what happens to frames that the host receives.
    pub fn set_inbound(&self, quality: Quality) {
        self.line(INBOUND).set(quality);
    }

    /// Sets both directions.
    pub fn set(&self, quality: Quality) {
        self.set_outbound(quality);
        self.set_inbound(quality);
    }

    /// Counts of frames that the host sent.
    pub fn outbound(&self) -> Counts {
        self.line(OUTBOUND).counts()
    }

    /// Counts of frames for the host.
    pub fn inbound(&self) -> Counts {
        self.line(INBOUND).counts()
    }

    fn line(&self, direction: usize) -> MutexGuard<'_, Line> {
        self.lines[direction].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LinkSwitch {
    pub(super) fn is_on(&self) -> bool {
        self.0.load(SeqCst)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stopping.store(true, SeqCst);
        let _ = self.thread.take().map(JoinHandle::join);
        network::join(self.names, self.host);
        self.switch.0.store(false, SeqCst);
    }
}

const OUTBOUND: usize = 0;
const INBOUND: usize = 1;
