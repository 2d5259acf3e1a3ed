//! The ways of a hit beside each other: out of the room where connections wait, many that call
//! together, and alone by the ordinary way.
//!
//! ```text
//!            ┌─ guests who pipeline, pause and read late ─► the room (and tasks) ─┐
//!   bytes ──►│                                                                    ├─► the same bytes, and the same counts
//!            └─ each request alone, as one that is not plain ─► the ordinary way ─┘
//! ```
//!
//! Both ways are the product's, exchange and RAM tier included. The same bytes are the same but for
//! what the clock decides ([`reply`]); the same counts are those of requests, of responses by what
//! the cache did, and of bytes of bodies.

mod guest;
mod origin;
mod reply;
mod rig;
mod row;

use reply::Timeless;
use rig::Rig;
use row::{Ask, Row};

/// Has guests ask what `data` scripts, and compares what they are answered with what each request
/// is answered alone.
///
/// # Panics
/// When an answer differs by its way, or what is counted of it.
pub fn hit_ways(data: &[u8]) {
    play(&Row::read(data));
}

/// The same of a row; gives the number of connections that had a task in the end.
fn play(row: &Row) -> usize {
    RIG.with(|rig| {
        let begun = rig.counts();
        let alone = |asks: &Vec<&Ask>| asks.iter().map(|ask| rig.alone(&ask.ordinary_words())).collect();
        let expected: Vec<Vec<Vec<u8>>> = row.asked().iter().map(alone).collect();
        let between = rig.counts();
        let owed: Vec<usize> = expected.iter().map(|replies| replies.iter().map(Vec::len).sum()).collect();
        let (heard, tasks) = rig.together(row, &owed);
        for (guest, (heard, replies)) in heard.iter().zip(&expected).enumerate() {
            check(guest, row, heard, replies);
        }
        rig.expect_counts(&between, &rig::since(&between, &begun));
        tasks
    })
}

/// What a guest has heard is these replies, one behind the other, and nothing more.
fn check(guest: usize, row: &Row, heard: &[u8], replies: &[Vec<u8>]) {
    let mut rest = heard;
    for (number, expected) in replies.iter().enumerate() {
        let (reply, behind) = rest.split_at(expected.len().min(rest.len()));
        let (reply, expected) = (Timeless::of(reply), Timeless::of(expected));
        let asked = &row.asked()[guest][number];
        assert!(
            reply.is_like(&expected),
            "{asked:?}, number {number} of guest {guest}: {}",
            reply.beside(&expected)
        );
        rest = behind;
    }
    assert!(rest.is_empty(), "guest {guest} is told more than it has asked for: {}", rest.escape_ascii());
}

thread_local! {
    static RIG: Rig = Rig::start();
}

#[cfg(test)]
mod tests;
