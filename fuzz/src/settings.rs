//! The configuration file and the quantities in it.

use shoal_core::{ByteCount, parse_duration};
use shoal_settings::Settings;

/// A file is taken whole or every mistake has a place inside it.
pub fn file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(mistakes) = Settings::parse(text, "shoal.toml") {
        assert!(!mistakes.is_empty(), "refused without a reason");
        for mistake in mistakes {
            let lines = text.split('\n').count();
            assert!(
                mistake.line.is_none_or(|line| (1..=lines).contains(&line)),
                "{mistake} of {lines} lines"
            );
            assert!(!mistake.message.is_empty());
            assert_eq!(mistake.to_string().lines().count(), 1, "{mistake}");
        }
    }
    quantities(text);
}

/// A size that was read reads back from what is shown of it.
fn quantities(text: &str) {
    let line = text.lines().next().unwrap_or_default();
    if let Ok(size) = line.parse::<ByteCount>() {
        assert_eq!(size.to_string().parse(), Ok(size), "{line}");
    }
    let _ = parse_duration(line);
}
