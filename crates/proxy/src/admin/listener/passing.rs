//! Hand-over of the admin listener to another process, and back.

use super::{AdminListener, CHANGES};
use shoal_handover::{SocketName, SocketUse};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

impl AdminListener {
    /// Returns a handle of the socket with its name, for another process.
    ///
    /// # Errors
    ///
    /// If descriptors have run out.
    pub fn offer(&self) -> io::Result<(SocketName, OwnedFd)> {
        let (asked, bound) = (self.place.asked.clone(), self.place.address.to_string());
        Ok((SocketName { used_for: Some(SocketUse::Admin), asked, bound }, self.offer.try_clone()?))
    }

    /// Accepts no connection and begins no change until [`Self::resume`]. Waits for the changes
    /// under way, for at most `limit`. Returns `false` if some last longer; nothing is paused then.
    pub fn pause(&self, limit: Duration) -> bool {
        self.is_paused.send_replace(true);
        let end = Instant::now() + limit;
        loop {
            if let Ok(permits) = self.changes.try_acquire_many(CHANGES as u32) {
                permits.forget();
                return true;
            }
            if Instant::now() >= end {
                self.is_paused.send_replace(false);
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Goes on after [`Self::pause`].
    pub fn resume(&self) {
        debug_assert_eq!(self.changes.available_permits(), 0, "a listener that is not paused");
        self.changes.add_permits(CHANGES);
        debug_assert!(!self.changes.is_closed(), "another process has the listener");
        self.is_paused.send_replace(false);
    }

    /// Leaves the socket to the other process: changes that wait are refused, and the file of a
    /// Unix socket stays.
    pub fn leave(&self) {
        self.place.is_ours.store(false, SeqCst);
        self.is_paused.send_replace(true);
        self.changes.close();
    }

    /// Takes over the file of a Unix socket.
    pub fn own(&self) {
        self.place.is_ours.store(true, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AdminAccess, BoundAdmin, ControlCalls};
    use super::*;
    use crate::admin::Control;
    use crate::admin::tests::Scripted;
    use bytes::Bytes;
    use http::{Request, StatusCode};
    use shoal_handover::InheritedSockets;
    use shoal_settings::AdminAddress;
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    fn health(path: &Path) -> io::Result<String> {
        use std::io::{Read, Write};
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_millis(300)))?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn unix_socket_passes_to_another_listener() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.sock");
        let address = AdminAddress::Unix(path.clone());
        let control = || Arc::new(Scripted::default()) as Arc<dyn Control>;
        let access = || AdminAccess::new(&shoal_settings::Admin::default()).expect("sound");
        let old = BoundAdmin::bind(&address).expect("bound").start(control(), access()).expect("started");
        assert!(health(&path).expect("an answer").contains("200 OK"));
        assert!(old.pause(Duration::from_secs(1)), "nothing changes");
        assert!(health(&path).is_err(), "connections wait");
        let pass = || {
            let mut inherited = InheritedSockets::default();
            let (name, socket) = old.offer().expect("a handle");
            inherited.add(name, socket);
            BoundAdmin::take_or_bind(&address, &mut inherited).expect("taken")
        };
        drop(pass());
        assert!(path.exists(), "the file is still the old listener's");
        old.resume();
        assert!(health(&path).expect("an answer").contains("200 OK"));
        assert!(old.pause(Duration::from_secs(1)), "nothing changes");
        let new = pass().start(control(), access()).expect("started");
        old.leave();
        new.own();
        drop(old);
        assert!(path.exists(), "the file is the new listener's");
        assert!(health(&path).expect("an answer").contains("200 OK"));
        drop(new);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn changes_are_refused_after_a_hand_over() {
        let changes = Arc::new(Semaphore::new(1));
        let control = Arc::new(Scripted::default());
        let calls =
            ControlCalls { control, changes: Arc::clone(&changes), lists: Arc::new(Semaphore::new(1)) };
        changes.close();
        let head = |method: &str| {
            let request = Request::builder().method(method).uri("/healthz").body(()).expect("a request");
            request.into_parts().0
        };
        let refused = calls.clone().answer(head("POST"), Bytes::new()).await;
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(calls.answer(head("GET"), Bytes::new()).await.status, StatusCode::OK);
    }
}
