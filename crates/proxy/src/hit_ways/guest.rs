//! Guest: the client's end of an idle connection, with its bytes in both directions.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// One client.
pub(super) struct Guest {
    stream: UnixStream,
    /// Bytes to be sent, and the number of bytes sent.
    words: Vec<u8>,
    said: usize,
    heard: Vec<u8>,
    /// Total number of bytes that the guest must receive.
    owed: usize,
    /// The server must then end the connection.
    is_to_be_left: bool,
    is_deaf: bool,
    has_ended: bool,
    /// The server has ended the connection.
    is_left: bool,
}

impl Guest {
    /// Creates a guest that must receive `owed` bytes. `is_to_be_left` means that the server then
    /// ends the connection.
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

    /// Adds bytes to be sent.
    pub fn asks(&mut self, words: &[u8]) {
        self.words.extend_from_slice(words);
    }

    /// Stops reading, or starts again.
    pub fn deafen(&mut self) {
        self.is_deaf = !self.is_deaf;
    }

    /// Sends at most `bytes_max` bytes. Returns `true` if the kernel took any.
    pub fn say(&mut self, bytes_max: usize) -> bool {
        let rest = &self.words[self.said..];
        let rest = &rest[..rest.len().min(bytes_max)];
        match self.stream.write(rest) {
            Ok(count) => {
                self.said += count;
                count > 0
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            // The server has closed the connection.
            Err(_) => {
                self.said = self.words.len();
                false
            }
        }
    }

    /// Ends its half if all bytes are sent.
    pub fn end(&mut self) {
        if self.said == self.words.len() && !std::mem::replace(&mut self.has_ended, true) {
            // A closed connection has no half to end.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }

    /// Reads available bytes, unless deaf. Returns `true` if there were any.
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

    /// Starts reading again.
    pub fn listen(&mut self) {
        self.is_deaf = false;
    }

    /// Returns `true` if the guest has received everything expected.
    pub fn is_content(&self) -> bool {
        self.is_left || self.heard.len() >= self.owed && !self.is_to_be_left
    }

    /// Returns the received bytes. Checks that the connection has ended exactly if expected.
    pub fn into_heard(self) -> Vec<u8> {
        let (left, to_be_left) = (self.is_left, self.is_to_be_left);
        assert_eq!(left, to_be_left, "has it ended; {} of {} bytes were heard", self.heard.len(), self.owed);
        self.heard
    }
}
