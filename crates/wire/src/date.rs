//! Value of the Date field, made once a second.

use shoal_core::Timestamp;
use std::io::Write;

/// Cache of the current date as text.
#[derive(Debug)]
pub struct DateCache {
    second: u64,
    text: [u8; IMF_FIXDATE_BYTES],
}

/// Length of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const IMF_FIXDATE_BYTES: usize = 29;

impl Default for DateCache {
    fn default() -> Self {
        Self::new()
    }
}

impl DateCache {
    /// Makes an empty cache.
    pub fn new() -> Self {
        Self { second: u64::MAX, text: [b' '; IMF_FIXDATE_BYTES] }
    }

    /// Returns `now` as an IMF-fixdate (RFC 9110 section 5.6.7). A time after the year 9999 becomes
    /// the last second of that year.
    pub fn at(&mut self, now: Timestamp) -> &[u8; IMF_FIXDATE_BYTES] {
        let second = now.seconds().min(LAST_SECOND);
        if second != self.second {
            self.second = second;
            write(&mut self.text, second);
        }
        &self.text
    }
}

/// 9999-12-31T23:59:59Z
const LAST_SECOND: u64 = 253_402_300_799;

fn write(text: &mut [u8; IMF_FIXDATE_BYTES], second: u64) {
    let time = httpdate::HttpDate::from(Timestamp::from_seconds(second).to_system());
    write!(&mut text[..], "{time}").expect("an IMF-fixdate has 29 bytes until the year 9999");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_imf_fixdates() {
        let mut cache = DateCache::new();
        let example = Timestamp::from_seconds(784_111_777);
        assert_eq!(cache.at(example), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(cache.at(Timestamp::from_millis(784_111_778_999)), b"Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(cache.at(Timestamp::from_seconds(0)), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(cache.at(Timestamp::from_seconds(u64::MAX)), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
