//! Output for people: printing, sizes, durations, counts.

use crate::failure::Failure;
use shoal_core::ByteCount;
use shoal_dashboard::shown_as_number;
use std::borrow::Cow;
use std::io::{ErrorKind, Write};

/// Prints to stdout. A closed pipe (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(harmless(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Runtime(format!("cannot print: {error}")))
        }
        _ => Ok(()),
    }
}

/// Returns `text` with U+FFFD for each character that a terminal obeys or does not show, but line
/// ends and tabs. A node's answers may have them, and so may a stranger at its address.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let is_obeyed = |character: char| character != '\n' && character != '\t' && shown_as_number(character);
    match text.contains(is_obeyed) {
        false => text.into(),
        true => text.replace(is_obeyed, "\u{fffd}").into(),
    }
}

/// Formats a size approximately: `1.2 GB`.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "KB", "MB", "GB", "TB", "PB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    // 999.5 would be shown as 1000.
    while value >= 999.5 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1000.0, next);
    }
    debug_assert!(value < 999.5 || unit == "PB", "{value} {unit} has a larger unit");
    if unit == "B" || value >= 99.95 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// Formats a limit as in the settings if that is short: `256 MiB`.
pub fn limit(bytes: u64) -> String {
    let exact = ByteCount(bytes).to_string();
    if exact.len() <= "1023 GiB".len() { exact } else { size(bytes) }
}

/// Formats a number of things: `1 response`, `2 responses`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Formats a duration approximately: `2 days 3 h`.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} {} h", counted(seconds / 86_400, "day"), seconds / 3600 % 24),
    }
}

/// Formats a number in at most seven characters: `12,345`, then `1.2 M`.
pub fn short(number: u64) -> String {
    let in_units = |unit: f64, name: &str| {
        let value = number as f64 / unit;
        if value >= 99.95 { format!("{value:.0} {name}") } else { format!("{value:.1} {name}") }
    };
    let shown = match number {
        0..1_000_000 => count(number),
        1_000_000..999_500_000 => in_units(1e6, "M"),
        999_500_000..999_500_000_000 => in_units(1e9, "G"),
        _ => in_units(1e12, "T"),
    };
    debug_assert!(shown.len() <= 7 || number >= 9_999 * 10_u64.pow(12), "{shown} is not short");
    shown
}

/// Formats a time in the unit that fits: `250 µs`, `2.5 ms`, `45 s`.
pub fn micros(micros: u64) -> String {
    let in_units = |unit: f64, name: &str| {
        let value = format!("{:.1}", micros as f64 / unit);
        format!("{} {name}", value.strip_suffix(".0").unwrap_or(&value))
    };
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..999_950 => in_units(1e3, "ms"),
        999_950..119_950_000 => in_units(1e6, "s"),
        _ => duration(micros / 1_000_000),
    }
}

/// Formats a number with thousands separators: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    debug_assert_eq!(shown.len(), digits.len() + (digits.len() - 1) / 3, "a comma for three digits");
    shown
}

/// Returns a word as a shell reads it back: in quotes where it has more than letters, digits and
/// harmless marks.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:=,+@%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => {
            let shown = format!("'{}'", word.replace('\'', "'\\''"));
            let quotes = |text: &str| text.matches('\'').count();
            debug_assert_eq!(quotes(&shown), 2 + 3 * quotes(word), "each quote is closed: {shown}");
            shown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_sequences_are_replaced() {
        assert_eq!(harmless("a\tb\n"), "a\tb\n");
        assert_eq!(harmless("\u{1b}]52;c;x\u{7}\r\u{202e}é"), "\u{fffd}]52;c;x\u{fffd}\u{fffd}\u{fffd}é");
    }

    #[test]
    fn numbers_are_readable() {
        for (bytes, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KB"),
            (99_960, "100 KB"),
            (999_700, "1.0 MB"),
            (1_234_567_890, "1.2 GB"),
            (u64::MAX, "18447 PB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
        assert_eq!((limit(256 << 20), limit(10_000_000_000)), ("256 MiB".into(), "10 GB".into()));
        assert_eq!(limit(9_999_475_712), "10.0 GB");
        assert_eq!((counted(1, "day"), counted(2000, "day")), ("1 day".into(), "2,000 days".into()));
        let words =
            [("access.log", "access.log"), ("my log", "'my log'"), ("it's", "'it'\\''s'"), ("", "''")];
        assert!(words.iter().all(|(word, shown)| quoted(word) == *shown));
        for (number, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), shown);
        }
        for (number, shown) in [
            (999_999, "999,999"),
            (1_234_567, "1.2 M"),
            (123_456_789, "123 M"),
            (999_700_000, "1.0 G"),
            (u64::MAX, "18446744 T"),
        ] {
            assert_eq!(short(number), shown);
        }
        for (time, shown) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (2_500, "2.5 ms"),
            (50_000, "50 ms"),
            (999_960, "1 s"),
            (45_000_000, "45 s"),
            (600_000_000, "10 min 0 s"),
        ] {
            assert_eq!(micros(time), shown);
        }
        for (seconds, shown) in [(59, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (90_000, "1 day 1 h")]
        {
            assert_eq!(duration(seconds), shown);
        }
    }
}
