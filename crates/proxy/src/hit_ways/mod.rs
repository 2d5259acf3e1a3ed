//! Compares the paths of a hit: served from the idle set, many together, or alone on the ordinary
//! path.
//!
//! ```text
//!            ┌─ guests that pipeline, pause, read late ──► idle set, tasks ─┐
//!   bytes ──►│                                                              ├─► same bytes, counts
//!            └─ each request alone, as a non-plain one ─────► ordinary path ┘
//! ```
//!
//! Both paths are the product's, including the exchange and the RAM tier. Bytes must be equal
//! except for the clock's ([`reply`]). Counts must be equal for requests, for responses by cache
//! result, and for body bytes.

mod guest;
mod origin;
mod reply;
mod rig;
mod row;

use reply::Timeless;
use rig::Rig;
use row::{Ask, Row};

/// Lets guests send the requests scripted by `data`, and compares each reply with the reply to the
/// same request alone.
///
/// # Panics
/// Panics if a reply or a count depends on the path.
pub fn hit_ways(data: &[u8]) {
    play(&Row::read(data));
}

/// Plays a row. Returns the number of connections that had a task at the end.
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

/// Checks that a guest has received exactly these replies, in order.
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
