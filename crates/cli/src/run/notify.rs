//! Reports the node's state to systemd: `Type=notify`, see sd_notify(3).
//!
//! The protocol is one datagram of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names: a
//! path, or `@name` for a socket in the abstract namespace.

use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// States for a service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    /// Ready without a store: only RAM serves.
    Degraded,
    Reloading,
    /// The process ends within this time.
    Stopping(Duration),
    /// Another process, with this id, is the main one.
    Replaced(u32),
}

/// Connection to the service manager, if there is one.
#[derive(Clone)]
pub struct Notifier(Option<String>);

impl Notifier {
    /// Returns the notifier of `NOTIFY_SOCKET`.
    pub fn from_environment() -> Self {
        Self(std::env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty()))
    }

    /// Returns `true` if there is a manager.
    pub fn has_manager(&self) -> bool {
        self.0.is_some()
    }

    /// Sends the state. If the manager does not listen, the node only logs a warning.
    pub fn send_state(&self, state: State) {
        let Some(name) = &self.0 else { return };
        if let Err(error) = send(name, &message(state)) {
            tracing::warn!(%error, socket = name, "cannot notify the service manager");
        }
    }
}

fn message(state: State) -> String {
    match state {
        State::Ready => "READY=1\nSTATUS=ready".into(),
        State::Degraded => "READY=1\nSTATUS=degraded: no store".into(),
        State::Reloading => {
            let now = clock_gettime(ClockId::Monotonic);
            format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1000)
        }
        // The manager then waits that long, also with a shorter TimeoutStopSec.
        State::Stopping(within) => format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}", within.as_micros()),
        State::Replaced(pid) => format!("MAINPID={pid}"),
    }
}

fn send(name: &str, message: &str) -> io::Result<()> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 200];
        let length = socket.recv(&mut bytes).expect("a datagram");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn both_kinds_of_socket_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify").display().to_string();
        let socket = UnixDatagram::bind(&path).expect("bound");
        let notifier = Notifier(Some(path));
        notifier.send_state(State::Ready);
        assert_eq!(received(&socket), "READY=1\nSTATUS=ready");
        notifier.send_state(State::Degraded);
        assert_eq!(received(&socket), "READY=1\nSTATUS=degraded: no store");
        notifier.send_state(State::Reloading);
        let text = received(&socket);
        let microseconds = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("both lines");
        assert!(microseconds.parse::<u64>().is_ok_and(|number| number > 0), "{text}");

        let name = format!("shoal-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("bound");
        let notifier = Notifier(Some(format!("@{name}")));
        notifier.send_state(State::Stopping(Duration::from_secs(40)));
        assert_eq!(received(&socket), "STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000");
        notifier.send_state(State::Replaced(17));
        assert_eq!(received(&socket), "MAINPID=17");
    }

    #[test]
    fn nobody_listening_is_no_failure() {
        Notifier(None).send_state(State::Ready);
        Notifier(Some("/absent/socket".into())).send_state(State::Ready);
    }
}
