//! What commands say of a log's reading: assumptions, bad lines, what was left out.

use crate::show::count;
use shoal_trace::{Reading, Refused, Unread};
use std::fmt::Write;

/// A row of two columns.
pub fn row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<26}{value}");
}

/// A reading's account: what was assumed, and each kind of line that was no request.
pub fn account(reading: &Reading) -> String {
    let mut text = String::new();
    for (at, assumed) in reading.assumed.iter().enumerate() {
        row(&mut text, if at == 0 { "assumed" } else { "" }, assumed);
    }
    let lines = count(reading.lines);
    if reading.left_out > 0 {
        row(
            &mut text,
            "hits in browsers",
            &format!("{} of {lines} lines, left out", count(reading.left_out)),
        );
    }
    if reading.out_of_order > 0 {
        let told =
            format!("{} requests with an earlier time than the one before", count(reading.out_of_order));
        row(&mut text, "out of order", &told);
    }
    if reading.bad > 0 {
        row(&mut text, "bad lines", &format!("{} of {lines}", count(reading.bad)));
        reading.problems.iter().for_each(|problem| row(&mut text, "", &problem.to_string()));
    }
    text
}

/// What a filter left out; nothing when it took all.
pub fn refused(unread: &Unread) -> String {
    let mut text = String::new();
    for (why, number) in Refused::ALL.into_iter().zip(unread.refused).filter(|(_, number)| *number > 0) {
        row(&mut text, "left out", &format!("{} {}", count(number), why.name()));
    }
    if unread.limited {
        row(&mut text, "left out", "all behind --limit");
    }
    text
}
