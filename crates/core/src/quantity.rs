//! Quantities with a unit: sizes in bytes and durations, as operators write them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Number of bytes. Written `512`, `64 KB`, `1.5 GB` (powers of 1000) or `64 KiB` (powers of 1024).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// Returns `count` mebibytes.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }
}

/// Error for a text that is not a quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuantityError {
    text: String,
    expected: &'static str,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.text, self.expected)
    }
}

impl std::error::Error for QuantityError {}

impl FromStr for ByteCount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        scaled(text, &BYTE_UNITS, 1.0).map(|bytes| Self(bytes as u64)).ok_or_else(|| QuantityError {
            text: text.into(),
            expected: "a size such as \"512 MB\" or \"1.5 GiB\"",
        })
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitting = BYTE_UNITS.iter().rev().filter(|(_, scale)| *scale > 1.0);
        for &(unit, scale) in fitting.filter(|(unit, _)| !unit.is_empty()) {
            if self.0 >= scale as u64 && self.0.is_multiple_of(scale as u64) {
                return write!(f, "{} {unit}", self.0 / scale as u64);
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl Serialize for ByteCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Reads a duration written `250ms`, `30s`, `5 min`, `2h`, `7d` or `1 week`.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    scaled(text, &TIME_UNITS, 0.0).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(
        || QuantityError {
            text: text.into(),
            expected: "a duration with its unit (ms, s, m, h, d, w), such as \"30s\" or \"7 days\"",
        },
    )
}

/// Returns the number times the scale of its unit. `bare` is the scale of a number without a unit;
/// 0 refuses such a number.
fn scaled(text: &str, units: &[(&str, f64)], bare: f64) -> Option<f64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let unit = text[split..].trim();
    let scale = match units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
        Some((_, scale)) => *scale,
        None if unit.is_empty() && (bare > 0.0 || number == 0.0) => bare,
        None => return None,
    };
    Some(number * scale).filter(|value| value.is_finite() && *value < u64::MAX as f64)
}

const BYTE_UNITS: [(&str, f64); 9] = [
    ("B", 1.0),
    ("KB", 1e3),
    ("KiB", 1024.0),
    ("MB", 1e6),
    ("MiB", 1048576.0),
    ("GB", 1e9),
    ("GiB", 1073741824.0),
    ("TB", 1e12),
    ("TiB", 1099511627776.0),
];

const TIME_UNITS: [(&str, f64); 20] = [
    ("ms", 0.001),
    ("s", 1.0),
    ("sec", 1.0),
    ("second", 1.0),
    ("seconds", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("minute", 60.0),
    ("minutes", 60.0),
    ("h", 3600.0),
    ("hour", 3600.0),
    ("hours", 3600.0),
    ("d", 86400.0),
    ("day", 86400.0),
    ("days", 86400.0),
    ("w", 604_800.0),
    ("week", 604_800.0),
    ("weeks", 604_800.0),
    ("year", 31_536_000.0),
    ("years", 31_536_000.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in [("512", 512), ("64 KB", 64_000), ("64KiB", 65_536), ("1.5 GiB", 1_610_612_736)]
        {
            assert_eq!(text.parse(), Ok(ByteCount(bytes)), "{text}");
        }
        assert_eq!(ByteCount::mib(256).to_string(), "256 MiB");
        assert_eq!(ByteCount(10_000_000_000).to_string(), "10 GB");
        assert!("many".parse::<ByteCount>().is_err());
        assert!("1 parsec".parse::<ByteCount>().is_err());
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2 h"), Ok(Duration::from_secs(7200)));
        for week in ["7d", "7 days", "1w", "1 week", "168 hours"] {
            assert_eq!(parse_duration(week), Ok(Duration::from_secs(7 * 86_400)), "{week}");
        }
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        let refused = parse_duration("5").expect_err("no unit").to_string();
        assert!(refused.contains("ms, s, m, h, d, w"), "{refused}");
    }
}
