//! A guest: the far end of a connection that waits, and what it says and hears.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// One of those who ask.
pub(super) struct Guest {
    stream: UnixStream,
    /// What is to be said, and how much of it was.
    words: Vec<u8>,
    said: usize,
    heard: Vec<u8>,
    /// Bytes of all that it is to hear.
    owed: usize,
    /// The server is to end the connection then.
    is_to_be_left: bool,
    is_deaf: bool,
    has_ended: bool,
    /// The server has ended the connection.
    is_left: bool,
}

impl Guest {
    /// Who is to hear so many bytes, and whether the connection is to end then.
    pub fn new(stream: UnixStream, (owed, is_to_be_left): (usize, bool)) -> Self {
        Self {
            stream,
            words: Vec::new(),
            said: 0,
            heard: Vec::with_capacity(owed),
            owed,
            is_to_be_left,
            is_deaf: false,
            has_ended: false,
            is_left: false,
        }
    }

    /// Has something more to say.
    pub fn asks(&mut self, words: &[u8]) {
        self.words.extend_from_slice(words);
    }

    /// Stops to read, or begins again.
    pub fn deafen(&mut self) {
        self.is_deaf = !self.is_deaf;
    }

    /// Says at most so many bytes; whether any of them was taken.
    pub fn say(&mut self, bytes_max: usize) -> bool {
        let rest = &self.words[self.said..];
        let rest = &rest[..rest.len().min(bytes_max)];
        match self.stream.write(rest) {
            Ok(count) => {
                self.said += count;
                count > 0
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            // Nobody listens any more.
            Err(_) => {
                self.said = self.words.len();
                false
            }
        }
    }

    /// Ends its half, if all is said.
    pub fn end(&mut self) {
        if self.said == self.words.len() && !std::mem::replace(&mut self.has_ended, true) {
            // Who was left before has no half to end.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Hears what there is, unless it does not listen; whether there was anything.
    pub fn hear(&mut self) -> bool {
        if self.is_deaf || self.is_left {
            return false;
        }
        let before = self.heard.len();
        match self.stream.read_to_end(&mut self.heard) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => self.is_left = true,
        }
        self.heard.len() > before || self.is_left
    }

    /// Listens from now on.
    pub fn listen(&mut self) {
        self.is_deaf = false;
    }

    /// Whether it has heard, and seen, all that it is to.
    pub fn is_content(&self) -> bool {
        self.is_left || self.heard.len() >= self.owed && !self.is_to_be_left
    }

    /// What it has heard. The connection has ended if it was to, and only then.
    pub fn into_heard(self) -> Vec<u8> {
        let (left, to_be_left) = (self.is_left, self.is_to_be_left);
        assert_eq!(left, to_be_left, "has it ended; {} of {} bytes were heard", self.heard.len(), self.owed);
        self.heard
    }
}
