//! Points in time as the log formats write them, in UTC.

use shoal_core::Timestamp;
use shoal_wire::push_filled;

/// A point in time in the Gregorian calendar.
struct Civil {
    year: u64,
    month: usize,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

/// Appends `10/Oct/2000:13:55:36 +0000`, the time of the NCSA formats.
pub(super) fn ncsa(line: &mut Vec<u8>, time: Timestamp) {
    let Civil { year, month, day, hour, minute, second } = civil(time.seconds());
    padded(line, day, 2);
    line.push(b'/');
    line.extend_from_slice(MONTHS[month - 1].as_bytes());
    line.push(b'/');
    padded(line, year, 4);
    for part in [hour, minute, second] {
        line.push(b':');
        padded(line, part, 2);
    }
    line.extend_from_slice(b" +0000");
}

/// Appends `2000-10-10T13:55:36.123Z`, the format of RFC 3339.
pub(super) fn rfc3339(line: &mut Vec<u8>, time: Timestamp) {
    let Civil { year, month, day, hour, minute, second } = civil(time.seconds());
    let parts =
        [(year, 4, b'-'), (month as u64, 2, b'-'), (day, 2, b'T'), (hour, 2, b':'), (minute, 2, b':')];
    for (number, width, end) in parts {
        padded(line, number, width);
        line.push(end);
    }
    padded(line, second, 2);
    line.push(b'.');
    padded(line, time.millis() % 1000, 3);
    line.push(b'Z');
}

/// Appends a number, padded with zeros to `width`.
fn padded(line: &mut Vec<u8>, number: u64, width: usize) {
    push_filled(line, number, width, b'0');
}

/// Converts seconds since the epoch to a date and time.
///
/// The algorithm counts days in eras of 400 years. An era begins on 1 March, so that the leap day
/// is the last day of a year (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn civil(seconds: u64) -> Civil {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let days = days + 719_468; // from 1 March of year 0 to 1 January 1970
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    Civil { year, month: month as usize, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60 }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(append: fn(&mut Vec<u8>, Timestamp), time: Timestamp) -> String {
        let mut line = Vec::new();
        append(&mut line, time);
        String::from_utf8(line).expect("ASCII")
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (971_186_136, "2000-10-10T13:55:36.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(shown(rfc3339, Timestamp::from_seconds(seconds)), expected);
        }
        assert_eq!(shown(ncsa, Timestamp::from_seconds(971_186_136)), "10/Oct/2000:13:55:36 +0000");
        assert_eq!(shown(rfc3339, Timestamp::from_millis(1_007)), "1970-01-01T00:00:01.007Z");
    }
}
