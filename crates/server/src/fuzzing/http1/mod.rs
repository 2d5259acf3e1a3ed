//! HTTP/1 client, and the rules for its server.
//!
//! The replies must be those to the client's bytes parsed as a whole, for any division into reads.
//! Each request is answered in turn, and framed so that the next reply follows. Invalid bytes are
//! refused and end the connection. A body is the requested one. A tunnel carries exactly the bytes
//! behind its request.

mod account;
mod script;

use super::peer::{Manner, Next, Player};
use account::ClientBytes;
use script::Http1Script;

/// Scripted client with both directions.
pub(super) struct Http1Player {
    script: Http1Script,
    said: Vec<u8>,
    heard: Vec<u8>,
    /// The server was told to stop.
    is_draining: bool,
    /// The server has ended the connection by itself.
    has_ended: bool,
}

impl Http1Player {
    /// Creates the client scripted by `data`.
    pub fn new(data: &[u8]) -> Self {
        let script = Http1Script::new(data);
        Self { script, said: Vec::new(), heard: Vec::new(), is_draining: false, has_ended: false }
    }
}

impl Player for Http1Player {
    fn manner(&self) -> Manner {
        self.script.manner
    }

    fn next(&mut self) -> Option<Next> {
        let next = self.script.next();
        self.is_draining |= matches!(next, Some(Next::Drain));
        next
    }

    fn owed(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn last_words(&mut self) -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    fn is_owed(&self, turns: u32, is_shut: bool) -> bool {
        turns < QUIET_TURNS && !is_shut
    }

    fn said(&mut self, bytes: &[u8]) {
        self.said.extend_from_slice(bytes);
    }

    fn heard(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
    }

    fn shut(&mut self) {
        self.has_ended = true;
    }

    fn check(&self) {
        ClientBytes::read(&self.said).check(&self.heard, self.has_ended, self.is_draining);
    }

    /// Closing only the client's half would make the server wait, as for a client that still
    /// expects its reply.
    const LEAVES: bool = true;
}

/// Number of silent turns after which no more bytes are expected.
const QUIET_TURNS: u32 = 60;
