//! Values of settings, written as TOML.

use shoal_core::ByteCount;
use std::fmt;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// An integer.
    Whole(u64),
    /// A number.
    Fraction(f64),
    /// A boolean.
    Truth(bool),
    /// A list.
    List(Vec<Value>),
    /// A table on one line.
    Inline(Vec<(&'static str, Value)>),
}

impl Value {
    /// Makes a duration of whole seconds, at most ten years.
    pub fn seconds(seconds: u64) -> Self {
        let seconds = seconds.min(SECONDS_MAX);
        let units = [("day", 86_400), ("h", 3600), ("min", 60)];
        let unit = units.iter().find(|(_, length)| seconds >= *length && seconds.is_multiple_of(*length));
        match unit {
            Some((name, length)) => Self::Text(format!("{} {name}", seconds / length)),
            None => Self::Text(format!("{seconds} s")),
        }
    }

    /// Makes a size.
    pub fn bytes(bytes: u64) -> Self {
        Self::Text(ByteCount(bytes).to_string())
    }

    /// Makes a list of texts.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(|text| Self::Text(text.into())).collect())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Whole(number.unsigned_abs().into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => quote(text, f),
            Self::Whole(number) => write!(f, "{}", (*number).min(i64::MAX as u64)),
            Self::Fraction(number) => write!(f, "{number:?}"),
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::List(values) => {
                f.write_str("[")?;
                for (at, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Inline(entries) => {
                f.write_str("{ ")?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key} = {value}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str(" }")
            }
        }
    }
}

/// Writes a string: literal where backslashes or quotes would need escapes, else basic.
fn quote(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let is_literal = text.contains(['\\', '"']) && !text.chars().any(|c| c.is_control() || c == '\'');
    if is_literal {
        return write!(f, "'{text}'");
    }
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if c.is_control() => write!(f, "\\u{:04X}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

/// Longest lifetime of a rule.
const SECONDS_MAX: u64 = 315_360_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_toml() {
        for (value, text) in [
            (Value::seconds(7200), "\"2 h\""),
            (Value::seconds(61), "\"61 s\""),
            (Value::seconds(0), "\"0 s\""),
            (Value::bytes(256 << 20), "\"256 MiB\""),
            (Value::texts(["a", "b"]), "[\"a\", \"b\"]"),
            (Value::from(r"\.png$"), r"'\.png$'"),
            (Value::from("it's \\"), "\"it's \\\\\""),
            (Value::from("a\nb"), "\"a\\u000Ab\""),
            (Value::Inline(vec![("url", "x".into()), ("weight", 2.into())]), "{ url = \"x\", weight = 2 }"),
            (Value::Fraction(0.2), "0.2"),
            (Value::Fraction(0.0), "0.0"),
        ] {
            assert_eq!(value.to_string(), text);
        }
    }
}
