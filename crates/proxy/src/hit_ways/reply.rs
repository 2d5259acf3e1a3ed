//! Compares two replies, except for values of the clock.

/// Bytes of a reply without the clock's values, and these values.
pub(super) struct Timeless {
    bytes: Vec<u8>,
    /// Age and remaining lifetime.
    seconds: Vec<u64>,
}

impl Timeless {
    /// Splits a whole reply. Any other bytes stay unchanged.
    pub fn of(reply: &[u8]) -> Self {
        let end = reply.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
        let (head, body) = reply.split_at(end);
        let (mut bytes, mut seconds, mut boundary) = (Vec::new(), Vec::new(), None);
        for line in head.split_inclusive(|&byte| byte == b'\n') {
            let text = String::from_utf8_lossy(line);
            let kept = match text.split_once(": ") {
                Some(("date", _)) => "date",
                Some(("age", age)) => {
                    seconds.extend(age.trim_end().parse::<u64>());
                    "age"
                }
                Some(("cache-status", value)) if value.contains(";ttl=") => {
                    let (kept, ttl) = text.split_once(";ttl=").expect("it is there");
                    seconds.extend(ttl.trim_end().parse::<u64>());
                    kept
                }
                Some(("content-type", _)) if text.contains("boundary=") => {
                    let (kept, value) = text.split_once("boundary=").expect("it is there");
                    boundary = Some(value.trim_end().trim_matches('"').to_owned());
                    kept
                }
                _ => {
                    bytes.extend_from_slice(line);
                    continue;
                }
            };
            bytes.extend_from_slice(kept.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        match boundary.filter(|boundary| !boundary.is_empty()) {
            Some(boundary) => extend_without(&mut bytes, body, boundary.as_bytes()),
            None => bytes.extend_from_slice(body),
        }
        Self { bytes, seconds }
    }

    /// Returns `true` if both replies are equal apart from the clock.
    pub fn is_like(&self, other: &Self) -> bool {
        let near = |(a, b): (&u64, &u64)| a.abs_diff(*b) <= APART_MAX;
        self.bytes == other.bytes
            && self.seconds.len() == other.seconds.len()
            && self.seconds.iter().zip(&other.seconds).all(near)
    }

    /// Describes the first difference.
    pub fn beside(&self, other: &Self) -> String {
        let common = self.bytes.iter().zip(&other.bytes).take_while(|(a, b)| a == b).count();
        let shown = |bytes: &[u8]| {
            let from = common.saturating_sub(60);
            bytes[from..bytes.len().min(common + 60)].escape_ascii().to_string()
        };
        format!(
            "{} bytes instead of {}, which part at {common}: {:?} instead of {:?}; {:?} instead of {:?} s",
            self.bytes.len(),
            other.bytes.len(),
            shown(&self.bytes),
            shown(&other.bytes),
            self.seconds,
            other.seconds
        )
    }
}

/// Appends `body` without any `boundary`.
fn extend_without(bytes: &mut Vec<u8>, mut body: &[u8], boundary: &[u8]) {
    while let Some(at) = body.windows(boundary.len()).position(|window| window == boundary) {
        bytes.extend_from_slice(&body[..at]);
        body = &body[at + boundary.len()..];
    }
    bytes.extend_from_slice(body);
}

/// Maximum difference in seconds between two replies of one comparison. Less than the distance
/// between any two paths' ages, and more than a comparison takes.
const APART_MAX: u64 = 1000;
