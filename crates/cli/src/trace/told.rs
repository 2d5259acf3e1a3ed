//! Text about the reading of a log: assumptions, bad lines, requests left out.

use crate::show::count;
use shoal_trace::{ReadReport, RefusalReason, Unread};
use std::fmt::Write;

/// Writes a row of two columns.
pub fn row(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<26}{value}");
}

/// Returns the account of a reading: the assumptions, and the count of each kind of line without a
/// request.
pub fn account(reading: &ReadReport) -> String {
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

/// Returns a note on corrected times, or an empty text if `number` is 0.
pub fn wrong_times(number: u64) -> String {
    let mut text = String::new();
    if number > 0 {
        let told = format!(
            "{} requests with a time far from all others, which count as made with the one before",
            count(number)
        );
        row(&mut text, "wrong times", &told);
    }
    text
}

/// Returns one line on the fate of all lines, for a trace with few or no requests.
pub fn lost(reading: &ReadReport, unread: &Unread) -> String {
    let mut text = format!("{} lines, {} of them bad", count(reading.lines), count(reading.bad));
    if let Some(problem) = reading.problems.first() {
        let _ = write!(text, " ({problem})");
    }
    if let Some(told) = left_out(unread) {
        let _ = write!(text, "; left out: {told}");
    }
    text
}

/// Returns the requests that the filter left out in words, or `None` if there are none.
pub fn left_out(unread: &Unread) -> Option<String> {
    let told = RefusalReason::ALL.into_iter().zip(unread.refused).filter(|(_, number)| *number > 0);
    let told: Vec<_> = told.map(|(why, number)| format!("{} {}", count(number), why.name())).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// Returns one row for each reason for which a filter left requests out.
pub fn refused(unread: &Unread) -> String {
    let mut text = String::new();
    for (why, number) in RefusalReason::ALL.into_iter().zip(unread.refused).filter(|(_, number)| *number > 0)
    {
        row(&mut text, "left out", &format!("{} {}", count(number), why.name()));
    }
    if unread.limited {
        row(&mut text, "left out", "all behind the limit of requests");
    }
    text
}
