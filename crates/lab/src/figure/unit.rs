//! Unit of a number, and its formats.

/// Unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// A share of one, shown as a percentage.
    Share,
    /// Bytes, shown in binary multiples: the papers' KB are KiB.
    Bytes,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// A quotient of two quantities of one kind.
    Ratio,
    /// A difference of two shares, shown in percentage points.
    Points,
}

impl Unit {
    /// Returns the unit's name, as CSV headings and JSON spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Share => "share",
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Ratio => "ratio",
            Self::Points => "points",
        }
    }

    /// Formats a number beside an axis: short, exact only for round numbers.
    pub fn tick(self, value: f64) -> String {
        match self {
            Self::Count => count_tick(value),
            // on a logarithmic axis shares may be very small
            Self::Share if value != 0.0 && value.abs() < 5e-4 => format!("{}%", trimmed(value * 100.0, 7)),
            Self::Share => format!("{}%", trimmed(value * 100.0, 1)),
            Self::Bytes => bytes(value, 0),
            Self::Seconds => format!("{} s", count_tick(value)),
            Self::Milliseconds => format!("{} ms", trimmed(value, 2)),
            Self::Ratio => trimmed(value, 2),
            Self::Points => points(value),
        }
    }

    /// Formats a number for a pointer that rests on it: as in a table, and small shares in full.
    pub fn hint(self, value: f64) -> String {
        match self {
            Self::Share if value != 0.0 && value.abs() < 5e-4 => self.tick(value),
            unit => unit.shown(value),
        }
    }

    /// Formats a number in a table or beside a bar, with three figures or so.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::Count => grouped(value),
            Self::Share if value.abs() < 5e-4 => "0.0%".into(),
            Self::Share => format!("{:.1}%", value * 100.0),
            Self::Bytes => bytes(value, 1),
            Self::Seconds if value.abs() < 10.0 => format!("{value:.2} s"),
            Self::Seconds if value.abs() < 100.0 => format!("{value:.1} s"),
            Self::Seconds => format!("{} s", grouped(value)),
            Self::Milliseconds => format!("{value:.3} ms"),
            Self::Ratio => format!("{value:.2}"),
            Self::Points => points(value),
        }
    }
}

/// Formats `0.0075` as `+0.8 points`.
fn points(value: f64) -> String {
    let tenths = (value * 1000.0).round();
    let sign = if tenths > 0.0 { "+" } else { "" };
    // zero has no sign
    format!("{sign}{} points", trimmed(tenths / 10.0, 1))
}

/// Formats `1500` as `1.5k`, `2000000` as `2M`.
fn count_tick(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", trimmed(value / 1e6, 2)),
        size if size >= 1e3 && value % 100.0 == 0.0 => format!("{}k", trimmed(value / 1e3, 1)),
        size if size >= 1e3 => grouped(value),
        _ => trimmed(value, 3),
    }
}

/// Formats `8192` as `8 KiB`.
fn bytes(value: f64, decimals: usize) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value;
    let mut unit = 0;
    while scaled.abs() >= 1024.0 && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let decimals = if scaled.fract() == 0.0 || unit == 0 { 0 } else { decimals.max(1) };
    format!("{} {}", trimmed(scaled, decimals), units[unit])
}

/// Formats `1234567` as `1,234,567`.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut shown = String::from(if value <= -0.5 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Formats with `decimals` decimals, trailing zeros dropped.
fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_in_their_unit() {
        for (unit, value, tick, shown) in [
            (Unit::Count, 0.0, "0", "0"),
            (Unit::Count, 1500.0, "1.5k", "1,500"),
            (Unit::Count, 1024.0, "1,024", "1,024"),
            (Unit::Count, 2_000_000.0, "2M", "2,000,000"),
            (Unit::Share, 0.74, "74%", "74.0%"),
            (Unit::Share, 0.1234, "12.3%", "12.3%"),
            (Unit::Share, -0.0001, "-0.01%", "0.0%"),
            (Unit::Share, 1e-7, "0.00001%", "0.0%"),
            (Unit::Bytes, 512.0, "512 B", "512 B"),
            (Unit::Bytes, 8192.0, "8 KiB", "8 KiB"),
            (Unit::Bytes, 21_504.0, "21 KiB", "21 KiB"),
            (Unit::Bytes, 9_000.0, "8.8 KiB", "8.8 KiB"),
            (Unit::Seconds, 0.864, "0.864 s", "0.86 s"),
            (Unit::Seconds, 12.34, "12.34 s", "12.3 s"),
            (Unit::Seconds, 5_000.0, "5k s", "5,000 s"),
            (Unit::Milliseconds, 0.1944, "0.19 ms", "0.194 ms"),
            (Unit::Ratio, 0.5, "0.5", "0.50"),
            (Unit::Points, 0.0075, "+0.8 points", "+0.8 points"),
            (Unit::Points, -0.034, "-3.4 points", "-3.4 points"),
            (Unit::Points, -0.0001, "0 points", "0 points"),
        ] {
            assert_eq!((unit.tick(value).as_str(), unit.shown(value).as_str()), (tick, shown), "{unit:?}");
        }
    }
}
