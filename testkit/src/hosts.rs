//! Hosts for a cluster under test: 2 to 16 network namespaces with addresses of their own, in which
//! real processes run, whose cables are cut, slowed and healed, and who have limits of their own.
//!
//! ```text
//!   the test, origins, clients ── bridge ─┬─ host 0: processes, control groups
//!                                         ├─ host 1
//!                                         └─ [link: delay, loss, order] ─ host 2
//! ```
//!
//! Where namespaces are not to be had, hosts are loopback addresses: processes start and reach each
//! other, and what needs a cable is an error that a test turns into a skip. Everything is removed
//! on drop; what a killed test leaves, the next start removes.

mod claim;
mod ground;
mod groups;
mod host;
pub mod link;
mod names;
mod network;
mod tools;

pub use claim::sweep;
pub use ground::Hosts;
pub use host::Host;
pub use link::{Link, Quality};
pub use names::HOSTS_MAX;

use rustix::process::{Pid, Signal};

/// Ends a process of a host at once.
fn end(process: u32) {
    signal(process, Signal::KILL);
}

/// Sends a signal to a process, which may have ended.
fn signal(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}
