//! Client's end of the connection: sends a script's bytes and takes the server's, in pieces and
//! with pauses.

use super::answers::Answers;
use crate::drain::Drain;
use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Player of a script, which records both directions.
pub(super) trait Player: Send + Unpin + 'static {
    /// Returns the current manner of reading and writing.
    fn manner(&self) -> Manner;

    /// Returns the next step; `None` after the last.
    fn next(&mut self) -> Option<Next>;

    /// Returns bytes sent outside the script, such as answers to pings.
    fn owed(&mut self) -> Vec<u8>;

    /// Returns the last bytes, which make everything end. Returns `None` if the client waits for
    /// nothing.
    fn last_words(&mut self) -> Option<Vec<u8>>;

    /// Returns `true` if the server must still act. Panics if that lasts for `turns` without a
    /// byte, or when the server has ended its half.
    fn is_owed(&self, turns: u32, is_shut: bool) -> bool;

    /// Records bytes that the server has read.
    fn said(&mut self, bytes: &[u8]);

    /// Checks bytes that the server has sent.
    fn heard(&mut self, bytes: &[u8]);

    /// Records that the server has ended its half or the whole connection by itself.
    fn shut(&mut self);

    /// Checks the record after the connection's end.
    fn check(&self);

    /// `true` if the client finally closes the connection instead of only its half.
    const LEAVES: bool;
}

/// Manner of reading and writing.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    /// Bytes read, and bytes written, per call.
    piece_said: usize,
    piece_taken: usize,
    /// Each write's flush waits once.
    has_slow_flushes: bool,
    /// Turns given to other tasks after each step.
    pause: u32,
}

/// Next step of a script.
pub(super) enum Next {
    /// Send these bytes.
    Say(Vec<u8>),
    /// Send nothing for `silent` turns, and take nothing for `deaf` turns.
    Rest { silent: u32, deaf: u32 },
    /// Release one waiting reply.
    Release,
    /// Tell the server to stop.
    Drain,
}

/// Stream given to the server.
pub(super) struct Peer<P>(pub Arc<Mutex<Side<P>>>);

/// Client's state of that stream.
pub(super) struct Side<P> {
    player: P,
    answers: Arc<Answers>,
    drain: Drain,
    /// Bytes to be sent, and the number of bytes sent.
    words: Vec<u8>,
    said: usize,
    /// Remaining turns without sending, and without taking bytes.
    silent: u32,
    deaf: u32,
    /// The next flush waits.
    flush_waits: bool,
    phase: Phase,
    is_shut: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// The script is being played.
    Script,
    /// All bytes were sent; the last `turns` turns have brought nothing.
    Waiting { turns: u32 },
    /// The client has ended its half.
    Ended,
}

impl Manner {
    /// Decodes a manner from a byte.
    pub fn new(byte: u8) -> Self {
        Self {
            piece_said: PIECES[usize::from(byte & 3)],
            piece_taken: PIECES[usize::from(byte >> 2 & 3)],
            pause: u32::from(byte >> 4 & 3),
            has_slow_flushes: byte & 0x40 != 0,
        }
    }
}

impl<P: Player> Side<P> {
    /// Creates a client that follows `player`.
    pub fn new(player: P, answers: Arc<Answers>, drain: Drain) -> Self {
        Self {
            player,
            answers,
            drain,
            words: Vec::new(),
            said: 0,
            silent: 0,
            deaf: 0,
            flush_waits: false,
            phase: Phase::Script,
            is_shut: false,
        }
    }

    /// Checks the record after the connection's end.
    pub fn check(&mut self) {
        if !self.is_shut && self.phase != Phase::Ended {
            self.player.shut();
        }
        self.player.check();
    }

    fn poll_say(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let rest = &self.words[self.said..];
            if !rest.is_empty() {
                let count = rest.len().min(self.player.manner().piece_said).min(buffer.remaining());
                buffer.put_slice(&rest[..count]);
                self.player.said(&rest[..count]);
                self.said += count;
                return Poll::Ready(Ok(()));
            }
            (self.said, self.words) = (0, self.player.owed());
            if !self.words.is_empty() {
                continue;
            }
            if let Some(turns) = self.silent.checked_sub(1) {
                self.silent = turns;
                return wait(context);
            }
            match self.phase {
                Phase::Script => self.go_on(),
                Phase::Waiting { turns } if self.player.is_owed(turns, self.is_shut) => {
                    self.phase = Phase::Waiting { turns: turns + 1 };
                    self.answers.gate.notify_one();
                    return wait(context);
                }
                Phase::Waiting { .. } => self.phase = Phase::Ended,
                Phase::Ended if P::LEAVES => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                Phase::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Plays the next step, or begins to wait for the end.
    fn go_on(&mut self) {
        match self.player.next() {
            Some(Next::Say(words)) => {
                self.words = words;
                self.silent = self.player.manner().pause;
            }
            Some(Next::Rest { silent, deaf }) => (self.silent, self.deaf) = (silent, deaf),
            Some(Next::Release) => self.answers.gate.notify_one(),
            Some(Next::Drain) => self.drain.begin(),
            None => {
                let words = self.player.last_words();
                self.deaf = 0;
                self.phase = if words.is_some() { Phase::Waiting { turns: 0 } } else { Phase::Ended };
                self.words = words.unwrap_or_default();
            }
        }
    }

    fn poll_take(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if let Some(turns) = self.deaf.checked_sub(1) {
            self.deaf = turns;
            return wait(context);
        }
        let manner = self.player.manner();
        let piece = if self.phase == Phase::Script { manner.piece_taken } else { usize::MAX };
        let mut room = piece;
        for slice in slices {
            let (taken, _) = slice.split_at(slice.len().min(room));
            room -= taken.len();
            self.player.heard(taken);
        }
        if let Phase::Waiting { turns } = &mut self.phase {
            *turns = 0;
        }
        self.flush_waits = manner.has_slow_flushes;
        Poll::Ready(Ok(piece - room))
    }
}

/// Yields to other tasks and polls again.
fn wait<T>(context: &mut Context<'_>) -> Poll<T> {
    context.waker().wake_by_ref();
    Poll::Pending
}

impl<P: Player> AsyncRead for Peer<P> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.lock().poll_say(context, buffer)
    }
}

impl<P: Player> AsyncWrite for Peer<P> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().poll_take(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_take(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.0.lock().flush_waits) {
            return wait(context);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut side = self.0.lock();
        if !std::mem::replace(&mut side.is_shut, true) && side.phase != Phase::Ended {
            side.player.shut();
        }
        Poll::Ready(Ok(()))
    }
}

/// Sizes of a piece in bytes.
const PIECES: [usize; 4] = [usize::MAX, 9, 1000, 1];
