//! A client of HTTP/1, and the rules that hold for its server.
//!
//! However what the client said was cut into reads, it is the requests that are read from it at
//! once, each answered in its turn and framed so that the next answer is found behind it; what
//! cannot be read as a request is refused and ends the connection. A body is what was asked for. A
//! tunnel carries the very bytes that come behind its request.

mod account;
mod script;

use super::peer::{Manner, Next, Player};
use account::Said;
use script::Script;

/// See the head of this file.
pub(super) struct Scripted {
    script: Script,
    said: Vec<u8>,
    heard: Vec<u8>,
    /// The server was told to stop.
    is_draining: bool,
    /// It has ended the connection by itself.
    has_ended: bool,
}

impl Scripted {
    /// The client that `data` scripts.
    pub fn new(data: &[u8]) -> Self {
        let script = Script::new(data);
        Self { script, said: Vec::new(), heard: Vec::new(), is_draining: false, has_ended: false }
    }
}

impl Player for Scripted {
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
        Said::read(&self.said).check(&self.heard, self.has_ended, self.is_draining);
    }

    /// Or the server would give it the time that a client has which has ended its half and waits
    /// for its answer.
    const LEAVES: bool = true;
}

/// When nothing came in so many turns, nothing more comes.
const QUIET_TURNS: u32 = 60;
