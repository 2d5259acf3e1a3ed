//! Parses fields of lines: numbers, times and separators.

use memchr::memchr;
use std::borrow::Cow;

/// Reason why a field or a line cannot be read.
pub(crate) type Reason = &'static str;

/// Words separated by blanks or tabs.
pub(crate) struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// Returns the words of a text.
    pub(crate) fn of(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// Returns the text after the last word returned.
    pub(crate) fn rest(&self) -> &'a str {
        self.rest
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_ascii_start();
        if text.is_empty() {
            self.rest = text;
            return None;
        }
        // A tab within a word is rarer than a blank behind it. The search is therefore for blanks,
        // and for tabs only within the text before a blank.
        let end = memchr(b' ', text.as_bytes()).unwrap_or(text.len());
        let end = memchr(b'\t', &text.as_bytes()[..end]).unwrap_or(end);
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        debug_assert!(!word.is_empty() && !word.contains([' ', '\t']), "{word:?} is no word");
        Some(word)
    }
}

/// Reason for a time after the year 9999.
pub(crate) const ABSURD_TIME: Reason = "the time is absurd";

/// Parses a size in bytes. `-` stands for no size.
pub(crate) fn bytes(text: &str) -> Result<Option<u64>, Reason> {
    let text = text.trim_ascii();
    if text == "-" || text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().map_err(|_| "the size is not a whole number")?;
    if number > BYTES_MAX { Err("the size is absurd") } else { Ok(Some(number)) }
}

/// Parses a status code. `-`, an empty text and 0 stand for no status.
pub(crate) fn status(text: &str) -> Result<Option<u16>, Reason> {
    match text.trim_ascii() {
        "" | "-" | "0" | "000" => Ok(None),
        text => match text.parse() {
            Ok(status @ 100..=999) => Ok(Some(status)),
            _ => Err("the status is not a number of three digits"),
        },
    }
}

/// Parses a time, with a fraction or not, and returns milliseconds since 1970. `per_second` units
/// make a second.
pub(crate) fn time(text: &str, per_second: u64) -> Result<Option<u64>, Reason> {
    let text = text.trim_ascii();
    if text == "-" || text.is_empty() {
        return Ok(None);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let wrong = "the time is not a number";
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong);
    }
    let whole: u64 = whole.parse().map_err(|_| wrong)?;
    let millis = match per_second {
        1 => whole.saturating_mul(1000).saturating_add(thousandths(fraction)),
        units => (u128::from(whole) * 1000 / u128::from(units)).try_into().unwrap_or(u64::MAX),
    };
    if millis > TIME_MAX_MS { Err(ABSURD_TIME) } else { Ok(Some(millis)) }
}

fn thousandths(fraction: &str) -> u64 {
    let digits = fraction.bytes().chain(*b"000").take(3);
    let number = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    debug_assert!(number < 1000, "{number} thousandths are more than a second");
    number
}

/// Parses the time of common logs, `10/Oct/2000:13:55:36 -0700`, and returns milliseconds since
/// 1970.
pub(crate) fn common_time(text: &str) -> Result<u64, Reason> {
    let wrong = "the time is not like 10/Oct/2000:13:55:36 -0700";
    let (local, zone) = text.split_once(' ').ok_or(wrong)?;
    // Some servers write `1/Oct/2000`.
    let (day, rest) = local.split_once('/').ok_or(wrong)?;
    let [month @ .., b'/', y0, y1, y2, y3, b':', h0, h1, b':', m0, m1, b':', s0, s1] = rest.as_bytes() else {
        return Err(wrong);
    };
    let month = MONTHS.iter().position(|name| name.as_bytes() == month).ok_or(wrong)? as i64 + 1;
    let number = |digits: &[u8], max: i64| digits_up_to(digits, max).ok_or(wrong);
    let days = days_from_civil(number(&[*y0, *y1, *y2, *y3], 9999)?, month, number(day.as_bytes(), 31)?);
    let (hour, minute) = (number(&[*h0, *h1], 23)?, number(&[*m0, *m1], 59)?);
    let second = number(&[*s0, *s1], 60)?;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - zone_seconds(zone).ok_or(wrong)?;
    u64::try_from(seconds).map(|seconds| seconds * 1000).map_err(|_| "the time is before 1970")
}

/// Parses one to four digits as a number that is no larger than `max`.
fn digits_up_to(digits: &[u8], max: i64) -> Option<i64> {
    if !(1..=4).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    (number <= max).then_some(number)
}

/// Parses `2002-05-02` and returns milliseconds since 1970.
pub(crate) fn civil_date(text: &str) -> Result<u64, Reason> {
    let wrong = "the date is not like 2002-05-02";
    let mut parts = text.split('-');
    let mut part = |max| parts.next().and_then(|part| digits_up_to(part.as_bytes(), max)).ok_or(wrong);
    let (year, month, day) = (part(9999)?, part(12)?.max(1), part(31)?);
    if parts.next().is_some() {
        return Err(wrong);
    }
    let days = days_from_civil(year, month, day);
    u64::try_from(days).map(|days| days * 86_400_000).map_err(|_| "the time is before 1970")
}

/// Parses `17:42:15` or `17:42:15.250` and returns milliseconds since midnight.
pub(crate) fn clock_time(text: &str) -> Result<u64, Reason> {
    let wrong = "the time is not like 17:42:15";
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':');
    let mut part = |max| parts.next().and_then(|part| digits_up_to(part.as_bytes(), max)).ok_or(wrong);
    let seconds = part(23)? * 3600 + part(59)? * 60 + part(60)?;
    if parts.next().is_some() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong);
    }
    Ok(seconds.unsigned_abs() * 1000 + thousandths(fraction))
}

/// Parses a time of RFC 3339, `2000-10-10T13:55:36.004Z` or with `+01:00` at its end, and returns
/// milliseconds since 1970.
///
/// # Errors
/// Fails when the text is no such time, or a time before 1970.
pub fn timestamp(text: &str) -> Result<u64, &'static str> {
    let wrong = "the time is not like 2000-10-10T13:55:36Z";
    let (date, rest) = text.split_once('T').ok_or(wrong)?;
    let zone_at = rest.find(['Z', 'z', '+', '-']).ok_or(wrong)?;
    let (clock, zone) = rest.split_at(zone_at);
    let east = match zone {
        "Z" | "z" => 0,
        zone => zone_seconds(&zone.replacen(':', "", 1)).ok_or(wrong)?,
    };
    let local = civil_date(date)?.saturating_add(clock_time(clock)?);
    local.checked_add_signed(-east * 1000).ok_or("the time is before 1970")
}

/// Parses `-0700` and returns seconds east of Greenwich.
fn zone_seconds(zone: &str) -> Option<i64> {
    let sign = match zone.as_bytes() {
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    let digits = zone.get(1..).filter(|digits| digits.len() == 4)?;
    let digits: i64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    Some(sign * (digits / 100 * 3600 + digits % 100 * 60))
}

/// Returns the days since 1970 of a date of the Gregorian calendar (Howard Hinnant:
/// chrono-Compatible Low-Level Date Algorithms).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Returns a line as text. In a line that is not UTF-8, bytes that are not printable ASCII become
/// `%XX`.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().fold(String::with_capacity(bytes.len() + 16), |mut text, byte| {
            match byte {
                b'\t' | b' '..=b'~' => text.push(char::from(*byte)),
                _ => text.push_str(&format!("%{byte:02X}")),
            }
            text
        })),
    }
}

/// Largest accepted size, in bytes: four tebibytes. The sum of such sizes fits for a log of any
/// length.
const BYTES_MAX: u64 = 1 << 42;
/// End of the year 9999.
const TIME_MAX_MS: u64 = 253_402_300_799_999;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_their_units() {
        assert_eq!(time("785433179434793", 1_000_000), Ok(Some(785_433_179_434)));
        assert_eq!(time("1066036250.603", 1), Ok(Some(1_066_036_250_603)));
        assert_eq!(time("1066036250.6", 1), Ok(Some(1_066_036_250_600)));
        assert_eq!(time("1066036250.6039999", 1), Ok(Some(1_066_036_250_603)));
        assert_eq!(time("-", 1), Ok(None));
        for bad in [
            "1e9",
            "-5",
            "1.2.3",
            "12:30",
            "99999999999999999999",
            "999999999999999",
            "18446744073709551615.9",
        ] {
            assert!(time(bad, 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn common_times_are_read() {
        assert_eq!(common_time("10/Oct/2000:13:55:36 -0700"), Ok(971_211_336_000));
        assert_eq!(common_time("01/Jan/1970:00:00:00 +0000"), Ok(0));
        assert_eq!(common_time("29/Feb/2024:23:59:60 +0100"), Ok(1_709_247_600_000));
        assert_eq!(common_time("1/Jan/1970:00:00:01 +0000"), Ok(1000));
        for bad in [
            "",
            "+1/Oct/2000:13:55:36 -0700",
            "10/Oct/2000:13:55:36",
            "10/Okt/2000:13:55:36 -0700",
            "10/Oct/2000 -0700",
            "01/Jan/1900:00:00:00 +0000",
            "10/Oct/2000:24:55:36 -0700",
            "10/Oct/2000:13:55:36 +07",
            "10/Oct/2000:13:55:36 é070",
            "10101010101010101010101010/Oct/2000:13:55:36 -0700",
        ] {
            assert!(common_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn dates_and_clocks_are_read() {
        assert_eq!(timestamp("2000-10-10T13:55:36.004Z"), Ok(971_186_136_004));
        assert_eq!(timestamp("2000-10-10T13:55:36-07:00"), Ok(971_211_336_000));
        assert_eq!(timestamp("2000-10-10T13:55:36.5+0100"), Ok(971_182_536_500));
        let joined = civil_date("2002-05-02").and_then(|day| Ok(day + clock_time("17:42:15.25")?));
        assert_eq!(joined, Ok(1_020_361_335_250));
        for bad in [
            "",
            "T",
            "2000-10-10T13:55:36",
            "2000-10-10T13:55Z",
            "1960-01-01T00:00:00Z",
            "2000-10-10T1:2:3+x",
        ] {
            assert!(timestamp(bad).is_err(), "{bad}");
        }
        for bad in ["", "12", "24:00:00", "12:00:00.x", "1:2:3:4", "-1:00:00"] {
            assert!(clock_time(bad).is_err(), "{bad}");
        }
        for bad in ["", "2002", "2002-05", "2002-13-01", "2002-05-02-1", "02/05/2002"] {
            assert!(civil_date(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn words_are_parted_by_blanks_and_tabs() {
        let mut words = Words::of("  a b\tc   d");
        assert_eq!(words.by_ref().take(3).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!((words.rest(), words.next(), words.next()), ("   d", Some("d"), None));
    }

    #[test]
    fn absurd_numbers_are_refused() {
        assert_eq!(bytes("1839"), Ok(Some(1839)));
        assert_eq!(bytes("-"), Ok(None));
        for bad in ["-1", "1.5", "18446744073709551616", "9999999999999999"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        assert_eq!((status("200"), status("-"), status("000")), (Ok(Some(200)), Ok(None), Ok(None)));
        assert!(status("20").is_err() && status("TCP_HIT").is_err() && status("70000").is_err());
    }

    #[test]
    fn text_that_is_not_utf_8_is_escaped() {
        assert_eq!(text("/café".as_bytes()), "/café");
        assert_eq!(text(b"/caf\xe9\x01 x\ty"), "/caf%E9%01 x\ty");
    }
}
