//! Reading fields of lines: numbers, times, and what separates them.

use std::borrow::Cow;

/// Why a field or a line cannot be read.
pub(crate) type Reason = &'static str;

/// A size in bytes. `-` says that there was none.
pub(crate) fn bytes(text: &str) -> Result<Option<u64>, Reason> {
    if text == "-" || text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().map_err(|_| "the size is not a whole number")?;
    if number > BYTES_MAX { Err("the size is absurd") } else { Ok(Some(number)) }
}

/// A status code. `-`, nothing and 0 say that there was none.
pub(crate) fn status(text: &str) -> Result<Option<u16>, Reason> {
    match text {
        "" | "-" | "0" | "000" => Ok(None),
        _ => match text.parse() {
            Ok(status @ 100..=999) => Ok(Some(status)),
            _ => Err("the status is not a number of three digits"),
        },
    }
}

/// A time in units of which `per_second` make a second, with a fraction or not, as milliseconds since 1970.
pub(crate) fn time(text: &str, per_second: u64) -> Result<Option<u64>, Reason> {
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
        1 => whole.saturating_mul(1000) + thousandths(fraction),
        units => (u128::from(whole) * 1000 / u128::from(units)).try_into().unwrap_or(u64::MAX),
    };
    if millis > TIME_MAX_MS { Err("the time is absurd") } else { Ok(Some(millis)) }
}

fn thousandths(fraction: &str) -> u64 {
    let digits = fraction.bytes().chain(*b"000").take(3);
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// The time of common logs, `10/Oct/2000:13:55:36 -0700`, as milliseconds since 1970.
pub(crate) fn common_time(text: &str) -> Result<u64, Reason> {
    let wrong = "the time is not like 10/Oct/2000:13:55:36 -0700";
    let (local, zone) = text.split_once(' ').ok_or(wrong)?;
    let mut parts = local.split(['/', ':']);
    let mut part = || parts.next().ok_or(wrong);
    let (day, month, year) = (part()?, part()?, part()?);
    let month = MONTHS.iter().position(|name| *name == month).ok_or(wrong)? as i64 + 1;
    let number = |text: &str, max: i64| match text.parse::<i64>() {
        Ok(number) if (0..=max).contains(&number) => Ok(number),
        _ => Err(wrong),
    };
    let days = days_from_civil(number(year, 9999)?, month, number(day, 31)?);
    let (hour, minute, second) = (number(part()?, 23)?, number(part()?, 59)?, number(part()?, 60)?);
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - zone_seconds(zone).ok_or(wrong)?;
    u64::try_from(seconds).map(|seconds| seconds * 1000).map_err(|_| "the time is before 1970")
}

/// `-0700` in seconds east of Greenwich.
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

/// Days since 1970 of a date of the Gregorian calendar (Howard Hinnant: chrono-Compatible Low-Level Date Algorithms).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// A line as text; bytes that are not printable ASCII become `%XX` when the line is not UTF-8.
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

/// The largest size taken for one: a pebibyte.
const BYTES_MAX: u64 = 1 << 50;
/// The end of the year 9999.
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
        for bad in ["1e9", "-5", "1.2.3", "12:30", "99999999999999999999", "999999999999999"] {
            assert!(time(bad, 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn common_times_are_read() {
        assert_eq!(common_time("10/Oct/2000:13:55:36 -0700"), Ok(971_211_336_000));
        assert_eq!(common_time("01/Jan/1970:00:00:00 +0000"), Ok(0));
        assert_eq!(common_time("29/Feb/2024:23:59:60 +0100"), Ok(1_709_247_600_000));
        for bad in [
            "",
            "10/Oct/2000:13:55:36",
            "10/Okt/2000:13:55:36 -0700",
            "10/Oct/2000 -0700",
            "01/Jan/1900:00:00:00 +0000",
            "10/Oct/2000:24:55:36 -0700",
            "10/Oct/2000:13:55:36 +07",
            "10/Oct/2000:13:55:36 é070",
        ] {
            assert!(common_time(bad).is_err(), "{bad}");
        }
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
