//! Text for stored objects: times, and one line or one JSON object each.

use serde_json::{Value, json};
use shoal_cache::stored_object::{StoredKind, StoredObject};
use shoal_core::Timestamp;
use shoal_store::inspect::ListedObject;
use std::time::SystemTime;

/// Returns the current time.
pub fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

/// Formats a time as in RFC 3339, in UTC and to the second: `2026-11-21T13:00:00Z`.
pub fn time(at: Timestamp) -> String {
    let seconds = at.millis() / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Returns year, month and day of a day since 1970 (H. Hinnant, "chrono-compatible low-level date
/// algorithms", civil_from_days).
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Returns the kind of an object as one word.
pub fn kind(object: &StoredObject) -> &'static str {
    match object.kind {
        StoredKind::Response { is_variant: false, .. } => "response",
        StoredKind::Response { .. } => "variant",
        StoredKind::Variants => "variants",
        StoredKind::Parts => "parts",
    }
}

/// Returns the time at which an object was stored or last validated, if known.
pub fn stored(object: &StoredObject) -> Option<Timestamp> {
    match object.kind {
        StoredKind::Response { stored, .. } => Some(stored),
        StoredKind::Variants | StoredKind::Parts => None,
    }
}

/// Returns an object as a line of JSON.
pub fn line_of_json(folder: &str, listed: &ListedObject<'_>, object: &StoredObject) -> Value {
    let mut value = json!({
        "url": object.url,
        "kind": kind(object),
        "body_bytes": listed.body_bytes,
        "position": listed.position,
        "store": folder,
    });
    if let StoredKind::Response { status, stored, is_fresh, .. } = &object.kind {
        value["status"] = status.as_u16().into();
        value["stored"] = time(*stored).into();
        value["fresh"] = (*is_fresh).into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, wanted) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_266_061, "2026-11-21T13:01:01Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(time(Timestamp::from_seconds(seconds)), wanted);
        }
    }
}
