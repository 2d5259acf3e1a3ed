//! A client of HTTP/2, and the rules that hold for its server.
//!
//! It sends what the windows allow and nothing else, and the frames that one of a connection and
//! its streams may come by; answers or resets every stream, and every ping and settings; lets a
//! client hold no more than it has announced; says why it gives up a connection, and does so for
//! whatever no connection stands, and never to a client that is sound.

mod account;
mod script;
mod streams;

use super::TURNS_MAX;
use super::peer::{Manner, Next, Player};
use account::{Account, Owing};
use script::Script;

/// See the head of this file.
pub(super) struct Scripted {
    script: Script,
    account: Account,
}

impl Scripted {
    /// The client that `data` scripts.
    pub fn new(data: &[u8]) -> Self {
        Self { script: Script::new(data), account: Account::new() }
    }
}

impl Player for Scripted {
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
        // Who was wrong waits to be told so, and who stops within a frame for nothing.
        if self.account.is_wrong { Some(Vec::new()) } else { words }
    }

    fn is_owed(&self, turns: u32, is_shut: bool) -> bool {
        let Account { given_up, is_wrong, .. } = self.account;
        assert!(given_up.is_none() || !self.script.is_sound, "a sound client is given up: {given_up:?}");
        let owing = self.account.owing();
        if given_up.is_some() || is_shut {
            // What was said when the server had ended is answered no more.
            assert!(given_up.is_some() || owing.streams.is_empty(), "it ends without {owing:?}");
            return false;
        }
        let is_owed = is_wrong || owing != Owing::default();
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
