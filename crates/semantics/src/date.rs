//! HTTP dates (RFC 9110, section 5.6.7): reads the three forms, writes one.
//!
//! Reading is strict about the shape and lenient about the case of letters. RFC 9111, section 4.2:
//! "Although all date formats are specified to be case-sensitive, a cache recipient SHOULD match
//! the field value case-insensitively. […] A cache recipient SHOULD consider a date with a zone
//! abbreviation other than "GMT" to be invalid for calculating expiration."
//!
//! A day of the week that does not fit the date is ignored. A text of another shape is no date: a
//! year of two digits among spaces, or an hour of one digit. A response with such an Expires is
//! stale.

use http::HeaderValue;
use shoal_core::Timestamp;
use std::time::{Duration, UNIX_EPOCH};

/// Reads an HTTP date as seconds since the epoch; dates before the epoch become 0. `now` gives the
/// century of years with two digits.
pub fn parse(value: &[u8], now: Timestamp) -> Option<u64> {
    let value = crate::lists::trim(value);
    imf_fixdate(value).or_else(|| rfc850(value, now)).or_else(|| asctime(value))
}

/// Writes an IMF-fixdate. Times after the year 9999 are written as the last second of that year.
pub fn format(at: Timestamp) -> HeaderValue {
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(at.seconds().min(LAST_SECOND)));
    HeaderValue::try_from(text).expect("an IMF-fixdate is visible ASCII")
}

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT`.
fn imf_fixdate(value: &[u8]) -> Option<u64> {
    let rest = after_day_name(value, &SHORT_DAYS, b", ")?;
    let (day, rest) = (digits(rest.get(..2)?)?, separator(rest.get(2..)?, b" ")?);
    let (month, rest) = (month(rest.get(..3)?)?, separator(rest.get(3..)?, b" ")?);
    let (year, rest) = (digits(rest.get(..4)?)?, separator(rest.get(4..)?, b" ")?);
    let (time, rest) = (time_of_day(rest.get(..8)?)?, rest.get(8..)?);
    rest.eq_ignore_ascii_case(b" GMT").then(|| seconds(year, month, day, time)).flatten()
}

/// Reads `Sunday, 06-Nov-94 08:49:37 GMT`.
///
/// "Recipients of a timestamp value in rfc850-date format, which uses a two-digit year, MUST
/// interpret a timestamp that appears to be more than 50 years in the future as representing the
/// most recent year in the past that had the same last two digits."
fn rfc850(value: &[u8], now: Timestamp) -> Option<u64> {
    let rest = after_day_name(value, &LONG_DAYS, b", ")?;
    let (day, rest) = (digits(rest.get(..2)?)?, separator(rest.get(2..)?, b"-")?);
    let (month, rest) = (month(rest.get(..3)?)?, separator(rest.get(3..)?, b"-")?);
    let (short_year, rest) = (digits(rest.get(..2)?)?, separator(rest.get(2..)?, b" ")?);
    let (time, rest) = (time_of_day(rest.get(..8)?)?, rest.get(8..)?);
    if !rest.eq_ignore_ascii_case(b" GMT") {
        return None;
    }
    let this_year = 1970 + (now.seconds() / SECONDS_A_YEAR) as u32;
    let century = this_year - this_year % 100;
    let horizon = now.seconds().saturating_add(50 * SECONDS_A_YEAR);
    let candidates = [century + 100, century, century.saturating_sub(100)];
    candidates
        .into_iter()
        .find_map(|century| seconds(century + short_year, month, day, time).filter(|&at| at <= horizon))
}

/// Reads `Sun Nov  6 08:49:37 1994`.
fn asctime(value: &[u8]) -> Option<u64> {
    let rest = after_day_name(value, &SHORT_DAYS, b" ")?;
    let (month, rest) = (month(rest.get(..3)?)?, separator(rest.get(3..)?, b" ")?);
    let day = match rest.get(..2)? {
        [b' ', digit] => digits(&[*digit])?,
        both => digits(both)?,
    };
    let rest = separator(rest.get(2..)?, b" ")?;
    let (time, rest) = (time_of_day(rest.get(..8)?)?, separator(rest.get(8..)?, b" ")?);
    (rest.len() == 4).then(|| seconds(digits(rest)?, month, day, time)).flatten()
}

/// Returns the text after one of these names and the separator.
fn after_day_name<'a>(value: &'a [u8], names: &[&str; 7], then: &[u8]) -> Option<&'a [u8]> {
    let end = value.iter().position(|byte| !byte.is_ascii_alphabetic())?;
    let name = &value[..end];
    names.iter().any(|day| name.eq_ignore_ascii_case(day.as_bytes())).then_some(())?;
    separator(&value[end..], then)
}

fn separator<'a>(value: &'a [u8], expected: &[u8]) -> Option<&'a [u8]> {
    value.strip_prefix(expected)
}

fn digits(text: &[u8]) -> Option<u32> {
    text.iter()
        .all(u8::is_ascii_digit)
        .then(|| text.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
}

/// Returns the number of the month, 1 to 12.
fn month(name: &[u8]) -> Option<u32> {
    let at = MONTHS.iter().position(|month| name.eq_ignore_ascii_case(month.as_bytes()))?;
    debug_assert!(at < 12);
    Some(at as u32 + 1)
}

/// Returns the seconds from midnight to a time such as `08:49:37`. A leap second counts as the
/// second after.
fn time_of_day(text: &[u8]) -> Option<u32> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *text else { return None };
    let (hour, minute, second) = (digits(&[h1, h2])?, digits(&[m1, m2])?, digits(&[s1, s2])?);
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

/// Returns the seconds since the epoch; 0 for days before the epoch. `None` when the month has no
/// such day.
fn seconds(year: u32, month: u32, day: u32, time: u32) -> Option<u64> {
    if day == 0 || day > days_in(year, month) {
        return None;
    }
    if year < 1970 {
        return Some(0);
    }
    // Years counted from March, so that the leap day is the last of its year (Howard Hinnant,
    // days_from_civil).
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let days = u64::from(year) * 365 + u64::from(year / 4) - u64::from(year / 100)
        + u64::from(year / 400)
        + u64::from(day_of_year);
    debug_assert!(days >= EPOCH_DAYS, "days before the epoch are 0");
    debug_assert!(time <= 86_400);
    Some((days - EPOCH_DAYS) * 86_400 + u64::from(time))
}

fn days_in(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from the first of March of the year 0 to the epoch.
const EPOCH_DAYS: u64 = 719_468;
/// The last second of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;
/// 365.2425 days.
const SECONDS_A_YEAR: u64 = 31_556_952;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const SHORT_DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LONG_DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

const _: () = {
    // From the first of March of the year 0 to that of 1970, less January and February.
    assert!(EPOCH_DAYS == 1970 * 365 + 1970 / 4 - 1970 / 100 + 1970 / 400 - 59);
    assert!(SECONDS_A_YEAR == 3_652_425 * 864 / 100);
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_795_000_000); // November 2026

    #[test]
    fn the_three_forms_are_one_date() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse(text.as_bytes(), NOW), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn parse_ignores_case_and_wrong_day_name() {
        for text in [
            "THU, 18 Aug 2050 02:01:18 GMT",
            "Thu, 18 AUG 2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02:01:18 gMT",
            "Thursday, 18-Aug-50 02:01:18 GMT",
            "Mon, 18 Aug 2050 02:01:18 GMT",
            "Thu Aug 18 02:01:18 2050",
        ] {
            assert_eq!(parse(text.as_bytes(), NOW), Some(2_544_400_878), "{text}");
        }
    }

    #[test]
    fn other_shapes_are_no_dates() {
        for text in [
            "",
            "0",
            "-1",
            "foo",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 2050 02:01:18",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu, 18  Aug  2050 02:01:18 GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu, 18 Aug 2050 24:01:18 GMT",
            "Thu, 31 Jun 2050 02:01:18 GMT",
            "Thu, 29 Feb 2051 02:01:18 GMT",
            "Thu, 18 Aug 2050 02:01:18 GMT, Thu, 18 Aug 2050 02:01:19 GMT",
            "Abc, 18 Aug 2050 02:01:18 GMT",
        ] {
            assert_eq!(parse(text.as_bytes(), NOW), None, "{text}");
        }
    }

    #[test]
    fn dates_far_off() {
        for (text, at) in [
            ("Tue, 19 Jan 2038 14:14:08 GMT", 2_147_523_248),
            ("Sun, 21 Nov 2286 04:46:39 GMT", 10_000_039_599),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Mon, 01 Jan 1601 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 23:59:60 GMT", 951_868_800),
            ("Fri, 31 Dec 9999 23:59:59 GMT", LAST_SECOND),
        ] {
            assert_eq!(parse(text.as_bytes(), NOW), Some(at), "{text}");
        }
    }

    #[test]
    fn a_year_of_two_digits_is_at_most_fifty_years_ahead() {
        let year = |text: &str| 1970 + parse(text.as_bytes(), NOW).expect(text) / SECONDS_A_YEAR;
        assert_eq!(year("Friday, 01-Jul-70 00:00:00 GMT"), 2070);
        assert_eq!(year("Friday, 01-Jul-76 00:00:00 GMT"), 2076);
        assert_eq!(year("Friday, 01-Jul-78 00:00:00 GMT"), 1978);
        assert_eq!(year("Friday, 01-Jul-99 00:00:00 GMT"), 1999);
    }

    proptest! {
        #[test]
        fn formatted_date_reads_back(at in 0..LAST_SECOND) {
            let written = format(Timestamp::from_seconds(at));
            prop_assert_eq!(parse(written.as_bytes(), NOW), Some(at));
        }

        #[test]
        fn valid_dates_agree_with_the_library(text in "(Mon|Tue), [0-3][0-9] (Jan|Feb|Dec) [12][09][0-9][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9] GMT") {
            if let Ok(theirs) = httpdate::parse_http_date(&text) {
                prop_assert_eq!(parse(text.as_bytes(), NOW), Some(Timestamp::from_system(theirs).seconds()));
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), now in any::<u64>()) {
            let _ = parse(&bytes, Timestamp::from_millis(now));
        }
    }

    #[test]
    fn times_beyond_the_year_9999_are_clamped() {
        assert_eq!(format(Timestamp::from_millis(u64::MAX)), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
