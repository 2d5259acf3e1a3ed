//! Publication times as registries spell them.

/// Reads `2015-01-31T23:59:59.000Z`, or with an offset such as `+02:00`, as seconds since 1970.
pub fn rfc3339(text: &str) -> Option<i64> {
    let digits = |range: std::ops::Range<usize>| {
        let part = text.get(range)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<i64>().ok())?
    };
    let mark =
        |at: usize, marks: &[u8]| text.as_bytes().get(at).filter(|byte| marks.contains(byte)).is_some();
    let is_date = mark(4, b"-") && mark(7, b"-") && mark(10, b"Tt ") && mark(13, b":") && mark(16, b":");
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
    let is_in_range =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    if !is_date || !is_in_range {
        return None;
    }
    let rest = text[19..].trim_start_matches(|char: char| char == '.' || char.is_ascii_digit());
    let offset = match rest.as_bytes() {
        b"" | b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), ..] => {
            let offset = rest[1..].replacen(':', "", 1);
            let is_offset = offset.len() == 4 && offset.bytes().all(|byte| byte.is_ascii_digit());
            let hours: i64 = offset.get(..2).filter(|_| is_offset)?.parse().ok()?;
            let minutes: i64 = offset.get(2..)?.parse().ok()?;
            (hours * 60 + minutes) * if *sign == b'-' { -60 } else { 60 }
        }
        _ => return None,
    };
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

/// Reads the date of an archive's release, `Sat, 09 Aug 2025 09:13:01 UTC`, as seconds since 1970.
pub fn of_mail(text: &str) -> Option<i64> {
    let mut words = text.split_ascii_whitespace().skip_while(|word| word.ends_with(','));
    let day: i64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = 1 + MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))?;
    let year: i64 = words.next()?.parse().ok()?;
    let mut parts = words.next()?.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    let is_utc = matches!(words.next()?, "UTC" | "GMT" | "Z" | "+0000" | "+00:00");
    let is_in_range = (1..=31).contains(&day)
        && (1970..=9999).contains(&year)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..61).contains(&second);
    (is_utc && is_in_range)
        .then(|| days(year, month as i64, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the days from 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    debug_assert!((0..400).contains(&of_era) && (0..366).contains(&of_year));
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:30:15.123Z", Some(951_827_415)),
            ("2026-11-27T20:51:36+02:00", Some(1_795_805_496)),
            ("1969-12-31T23:59:59-0030", Some(1799)),
            ("2026-11-27T20:51:36.000000", Some(1_795_812_696)),
            ("2026-13-01T00:00:00Z", None),
            ("2026-11-27", None),
            ("2026-11-27T20:51:36x", None),
            ("2026-11-27T20:51:3é", None),
            ("2026-11-27T20:51:36+00:9223372036854775807", None),
            ("2026-11-27T20:51:36-+1:00", None),
        ] {
            assert_eq!(rfc3339(text), seconds, "{text}");
        }
    }

    #[test]
    fn dates_of_releases_are_read() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 UTC", Some(0)),
            ("Tue, 29 Feb 2000 12:30:15 UTC", Some(951_827_415)),
            ("29 Feb 2000 12:30:15 +0000", Some(951_827_415)),
            ("Tue, 29 Feb 2000 12:30:15 +0200", None),
            ("Tue, 29 Xxx 2000 12:30:15 UTC", None),
            ("Tue, 99 Feb 2000 12:30:15 UTC", None),
            ("Tue, 29 Feb 99999999999 12:30:15 UTC", None),
            ("", None),
        ] {
            assert_eq!(of_mail(text), seconds, "{text}");
        }
    }
}
