//! Request bodies of one connection that may hold bytes which the server has not read.
//!
//! QUIC lets the client send as much as the connection's window has room for. Each unread byte
//! takes room, so that a few bodies for slow origins stop all others. A client that cannot send is
//! not slow. The library tells neither the room nor the unread bytes, so the bodies are counted:
//! a body that waits for the client holds nothing, and any other may hold its stream's window.

use crate::http2::{CONNECTION_WINDOW, STREAM_WINDOW};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// Count of the bodies of one connection that may hold unread bytes.
#[derive(Clone, Default)]
pub(super) struct UnreadBodies(Arc<Mutex<Count>>);

#[derive(Default)]
struct Count {
    bodies: usize,
    /// Time at which the bodies last became too few to hold the whole window.
    room_since: Option<Instant>,
}

/// One body. It counts from its start until it waits for the client, and again once bytes come.
pub(super) struct UnreadBody {
    all: UnreadBodies,
    is_counted: bool,
}

/// Room in the connection's window, as the bodies that wait for the client see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// The client can send. With a time, it could not before.
    Since(Option<Instant>),
    /// Other bodies may hold the whole window.
    MayBeHeld,
}

impl UnreadBodies {
    /// Counts a new body.
    pub fn open(&self) -> UnreadBody {
        let mut body = UnreadBody { all: self.clone(), is_counted: false };
        body.is_unread();
        body
    }

    /// Returns the room that the counted bodies leave to the others.
    pub fn room(&self) -> Room {
        let count = self.0.lock();
        if count.bodies >= HOLDERS_MIN { Room::MayBeHeld } else { Room::Since(count.room_since) }
    }
}

impl UnreadBody {
    /// Returns `true` if everything that has come was read.
    pub fn is_waiting(&self) -> bool {
        !self.is_counted
    }

    /// Records that bytes have come, so that more may lie behind them.
    pub fn is_unread(&mut self) {
        if !std::mem::replace(&mut self.is_counted, true) {
            self.all.0.lock().bodies += 1;
        }
    }

    /// Records that everything that has come was read.
    pub fn is_read(&mut self, now: impl FnOnce() -> Instant) {
        if std::mem::replace(&mut self.is_counted, false) {
            let mut count = self.all.0.lock();
            assert!(count.bodies > 0, "a body is counted once");
            count.bodies -= 1;
            if count.bodies + 1 == HOLDERS_MIN {
                count.room_since = Some(now());
            }
        }
    }
}

impl Drop for UnreadBody {
    fn drop(&mut self) {
        self.is_read(Instant::now);
    }
}

/// Bodies that can hold the connection's window between them. Room of up to an eighth of it is not
/// announced yet; that is less than one body can hold.
const HOLDERS_MIN: usize = (CONNECTION_WINDOW / STREAM_WINDOW) as usize;

const _: () = {
    assert!(CONNECTION_WINDOW.is_multiple_of(STREAM_WINDOW));
    assert!(CONNECTION_WINDOW / 8 < STREAM_WINDOW);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_held_by_enough_unread_bodies() {
        let all = UnreadBodies::default();
        let mut few: Vec<UnreadBody> = (1..HOLDERS_MIN).map(|_| all.open()).collect();
        assert_eq!(all.room(), Room::Since(None));
        let mut last = all.open();
        assert_eq!(all.room(), Room::MayBeHeld);
        last.is_unread();
        let now = Instant::now();
        last.is_read(|| now);
        assert_eq!(all.room(), Room::Since(Some(now)));
        last.is_read(|| unreachable!("it was read before"));
        last.is_unread();
        assert_eq!(all.room(), Room::MayBeHeld);
        few.pop();
        assert!(matches!(all.room(), Room::Since(Some(since)) if since >= now));
        drop((few, last));
        assert_eq!(all.0.lock().bodies, 0);
    }
}
