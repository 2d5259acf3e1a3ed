//! HTTP/2 client, and the rules for its server.
//!
//! The server must:
//!
//! - send no more than the windows allow, and only frames that fit their connection and stream,
//! - answer or reset every stream, and answer every ping and settings frame,
//! - let the client send no more than announced,
//! - end the connection on a connection error, with the reason, and never for a sound client.

mod account;
mod script;
mod streams;

use super::TURNS_MAX;
use super::peer::{Manner, Next, Player};
use account::{Account, DueFrames};
use script::Http2Script;

/// Scripted client with its record.
pub(super) struct Http2Player {
    script: Http2Script,
    account: Account,
}

impl Http2Player {
    /// Creates the client scripted by `data`.
    pub fn new(data: &[u8]) -> Self {
        Self { script: Http2Script::new(data), account: Account::new() }
    }
}

impl Player for Http2Player {
    fn manner(&self) -> Manner {
        self.script.manner
    }

    fn next(&mut self) -> Option<Next> {
        self.script.next(&self.account)
    }

    fn owed(&mut self) -> Vec<u8> {
        // The preface and the client's own settings come first.
        if self.account.frames_said == 0 { Vec::new() } else { std::mem::take(&mut self.account.owed) }
    }

    fn last_words(&mut self) -> Option<Vec<u8>> {
        let words = self.account.last_words();
        // A client that broke a rule waits for the server's error. A client that stops within a
        // frame waits for nothing.
        if self.account.is_wrong { Some(Vec::new()) } else { words }
    }

    fn is_owed(&self, turns: u32, is_shut: bool) -> bool {
        let Account { given_up, is_wrong, .. } = self.account;
        assert!(given_up.is_none() || !self.script.is_sound, "a sound client is given up: {given_up:?}");
        let owing = self.account.owing();
        if given_up.is_some() || is_shut {
            // Bytes sent after the server's end get no answer.
            assert!(given_up.is_some() || owing.streams.is_empty(), "it ends without {owing:?}");
            return false;
        }
        let is_owed = is_wrong || owing != DueFrames::default();
        let is_late = turns >= TURNS_MAX;
        assert!(!is_owed || !is_late, "it should have come: {owing:?}, the client is wrong: {is_wrong}");
        is_owed
    }

    fn said(&mut self, bytes: &[u8]) {
        self.account.said(bytes);
    }

    fn heard(&mut self, bytes: &[u8]) {
        self.account.heard(bytes);
    }

    fn shut(&mut self) {
        self.account.check_ended();
    }

    fn check(&self) {}

    const LEAVES: bool = false;
}
