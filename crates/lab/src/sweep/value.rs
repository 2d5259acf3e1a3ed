//! A value of a sweep: a parameter's or a result's, and its form in a journal.
//!
//! `-` is none, `c12` a count, `d0.5` a number, `tlru` a text with `\\`, `\t`, `\n` and `\r`
//! escaped. Numbers are written so that exactly the same bits are read again.

use shoal_trace::parquet::{Column, ColumnKind};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value: the parameter does not matter, or the result does not exist.
    None,
    /// A whole number.
    Count(u64),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl Value {
    /// Returns a number, or none where it is infinite or NaN.
    pub fn finite(number: f64) -> Self {
        if number.is_finite() { Self::Number(number) } else { Self::None }
    }

    /// Returns a number that may be missing.
    pub fn optional(number: Option<f64>) -> Self {
        number.map_or(Self::None, Self::finite)
    }

    /// Returns `true` if a column of this kind can hold the value.
    pub fn fits(&self, kind: ColumnKind) -> bool {
        match self {
            Self::None => true,
            Self::Count(_) => kind == ColumnKind::Int64,
            Self::Number(_) => kind == ColumnKind::Double,
            Self::Text(_) => kind == ColumnKind::Text,
        }
    }

    /// Puts the value into the next row of a column.
    pub fn put(&self, column: &mut Column) {
        match self {
            Self::None => {}
            Self::Count(number) => column.number(Some(*number)),
            Self::Number(number) => column.double(Some(*number)),
            Self::Text(text) => column.text(Some(text)),
        }
    }

    /// Returns the value's form in a journal.
    pub fn written(&self) -> String {
        match self {
            Self::None => "-".into(),
            Self::Count(number) => format!("c{number}"),
            Self::Number(number) => format!("d{number:?}"),
            Self::Text(text) => format!("t{}", escaped(text)),
        }
    }

    /// Reads the output of [`Value::written`].
    pub fn read(text: &str) -> Option<Self> {
        match text.split_at_checked(1)? {
            ("-", "") => Some(Self::None),
            ("c", rest) => rest.parse().ok().map(Self::Count),
            ("d", rest) => rest.parse().ok().map(Self::Number),
            ("t", rest) => unescaped(rest).map(Self::Text),
            _ => None,
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next()? {
                '\\' => '\\',
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_value_is_read_again() {
        let text = |text: &str| Value::Text(text.into());
        let numbers = [0.1, -0.0, 1e-300, f64::MAX, 1.0 / 3.0].map(Value::Number);
        let others = [Value::None, Value::Count(u64::MAX), text(""), text("a\tb\\n\nc\r"), text("-")];
        for value in numbers.into_iter().chain(others) {
            let written = value.written();
            assert!(!written.contains(['\t', '\n', '\r']), "{written}");
            assert_eq!(Value::read(&written), Some(value));
        }
        for broken in ["", "x", "c-1", "c1.5", "dx", "t\\", "t\\x", "-1", "ä"] {
            assert_eq!(Value::read(broken), None, "{broken}");
        }
    }

    #[test]
    fn infinite_or_nan_number_is_none() {
        assert_eq!(Value::finite(f64::NAN), Value::None);
        assert_eq!(Value::optional(Some(f64::INFINITY)), Value::None);
        assert_eq!(Value::optional(Some(2.0)), Value::Number(2.0));
    }
}
