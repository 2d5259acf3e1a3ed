//! Points in time as the log formats write them, in UTC.

use shoal_core::Timestamp;

/// A point in time in the Gregorian calendar.
struct Civil {
    year: u64,
    month: usize,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

/// `10/Oct/2000:13:55:36 +0000`, as the NCSA formats have it.
pub(super) fn ncsa(time: Timestamp) -> String {
    let Civil { year, month, day, hour, minute, second } = civil(time.seconds());
    format!("{day:02}/{}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000", MONTHS[month - 1])
}

/// `2000-10-10T13:55:36.123Z`, as RFC 3339 has it.
pub(super) fn rfc3339(time: Timestamp) -> String {
    let Civil { year, month, day, hour, minute, second } = civil(time.seconds());
    let millis = time.millis() % 1000;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The calendar's reading of so many seconds since the epoch.
///
/// Days are counted in eras of 400 years that begin on 1 March, so that the leap day is a year's last
/// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
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
            assert_eq!(rfc3339(Timestamp::from_seconds(seconds)), expected);
        }
        assert_eq!(ncsa(Timestamp::from_seconds(971_186_136)), "10/Oct/2000:13:55:36 +0000");
        assert_eq!(rfc3339(Timestamp::from_millis(1_007)), "1970-01-01T00:00:01.007Z");
    }
}
