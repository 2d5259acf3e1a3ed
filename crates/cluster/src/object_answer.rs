//! Field `Shoal-Answer`: the words of a node about its answer to an ask.
//!
//! ```text
//!  Shoal-Answer: 1 served 9a4e…(16) shared 0 3 10240 5d02…(16) 5c0f…(16) 77b0…(16)
//!                │ │      │         │      │ │ │     │         │         └ mark of the digest
//!                │ │      │         │      │ │ │     │         └ fingerprint of the view
//!                │ │      │         │      │ │ │     └ xxh3 of the body, or - if the trailer tells
//!                │ │      │         │      │ │ └ length of the body, or - if unknown
//!                │ │      │         │      │ └ asks in flight at this node
//!                │ │      │         │      └ lease in milliseconds, 0 for none
//!                │ │      │         └ shared: also for other clients; private: for this one
//!                │ │      └ hash of the key that was answered
//!                │ └ result
//!                └ version
//! ```
//!
//! The last part is absent if the node publishes no digest. A body of unknown hash ends with the
//! trailer `Shoal-Sum`, sixteen digits.

use crate::object_ask::{VALUE_BYTES_MAX, VERSION, decimal, hexadecimal};

/// Description of an answer to an ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectAnswer {
    /// Result of the ask.
    pub result: AnswerResult,
    /// Hash of the full key.
    pub key: u64,
    /// `true` if other clients of the same flight may have the response too.
    pub is_shared: bool,
    /// Time in milliseconds for which the asker may keep a copy; 0 for none.
    pub lease_ms: u32,
    /// Asks that the node has in flight.
    pub load: u32,
    /// Bytes of the body, if known beforehand.
    pub length: Option<u64>,
    /// Hash of the body's bytes, if known beforehand.
    pub sum: Option<u64>,
    /// Fingerprint of the node's view.
    pub view: u64,
    /// Mark of the node's newest digest; 0 for none.
    pub digest: u64,
}

/// Result of an ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerResult {
    /// The response is that of the cache or of the origin.
    Served,
    /// The node could not ask the origin; the response is its own error.
    Failed,
    /// Nothing is stored, and the ask forbids to fetch.
    Missing,
    /// Too many asks are in flight.
    Busy,
    /// The node lacks purges that the asker knows of.
    Behind,
    /// The node does not have the site, or does not serve such asks.
    Unknown,
}

impl ObjectAnswer {
    /// Writes the value of the field.
    pub fn to_value(&self) -> String {
        let mut value = Vec::with_capacity(VALUE_BYTES_EXPECTED);
        self.push(&mut value);
        String::from_utf8(value).expect("digits and words")
    }

    /// Appends the value of the field.
    pub fn push(&self, out: &mut Vec<u8>) {
        let result = NAMES.iter().find(|(result, _)| *result == self.result).map_or("", |(_, name)| name);
        let shared = if self.is_shared { " shared " } else { " private " };
        out.extend_from_slice(VERSION.as_bytes());
        out.push(b' ');
        out.extend_from_slice(result.as_bytes());
        out.push(b' ');
        push_hexadecimal(out, self.key);
        out.extend_from_slice(shared.as_bytes());
        push_decimal(out, u64::from(self.lease_ms));
        out.push(b' ');
        push_decimal(out, u64::from(self.load));
        out.push(b' ');
        match self.length {
            Some(length) => push_decimal(out, length),
            None => out.push(b'-'),
        }
        out.push(b' ');
        match self.sum {
            Some(sum) => push_hexadecimal(out, sum),
            None => out.push(b'-'),
        }
        out.push(b' ');
        push_hexadecimal(out, self.view);
        if self.digest != 0 {
            out.push(b' ');
            push_hexadecimal(out, self.digest);
        }
    }

    /// Reads the value of the field; `None` if it deviates.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok().filter(|text| text.len() <= VALUE_BYTES_MAX)?;
        let mut parts = text.split(' ');
        let read: [Option<&str>; PARTS] = std::array::from_fn(|_| parts.next());
        let [version, result, key, shared, lease, load, length, sum, view] = read;
        let (version, result, key, shared) = (version?, result?, key?, shared?);
        let (lease, load, length, sum, view) = (lease?, load?, length?, sum?, view?);
        let digest = parts.next().map(|digits| hexadecimal(digits).filter(|mark| *mark != 0));
        if parts.next().is_some() || digest == Some(None) {
            return None;
        }
        if version != VERSION {
            return None;
        }
        let word = |digits| u32::try_from(decimal(digits)?).ok();
        Some(Self {
            result: NAMES.iter().find(|(_, name)| *name == result)?.0,
            key: hexadecimal(key)?,
            is_shared: match shared {
                "shared" => true,
                "private" => false,
                _ => return None,
            },
            lease_ms: word(lease)?,
            load: word(load)?,
            length: if length == "-" { None } else { Some(decimal(length)?) },
            sum: if sum == "-" { None } else { Some(hexadecimal(sum)?) },
            view: hexadecimal(view)?,
            digest: digest.flatten().unwrap_or(0),
        })
    }
}

/// Appends exactly sixteen digits.
pub(crate) fn push_hexadecimal(out: &mut Vec<u8>, number: u64) {
    let digits: [u8; 16] =
        std::array::from_fn(|at| b"0123456789abcdef"[(number >> (60 - 4 * at) & 15) as usize]);
    out.extend_from_slice(&digits);
}

/// Appends a number in decimal digits.
pub(crate) fn push_decimal(out: &mut Vec<u8>, number: u64) {
    let (mut digits, mut start, mut left) = ([0; 20], 20, number);
    loop {
        start -= 1;
        digits[start] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Writes the value of the trailer.
pub fn sum_value(sum: u64) -> String {
    format!("{sum:016x}")
}

/// Reads the value of the trailer.
pub fn parse_sum(value: &[u8]) -> Option<u64> {
    hexadecimal(std::str::from_utf8(value).ok()?)
}

const NAMES: [(AnswerResult, &str); 6] = [
    (AnswerResult::Served, "served"),
    (AnswerResult::Failed, "failed"),
    (AnswerResult::Missing, "missing"),
    (AnswerResult::Busy, "busy"),
    (AnswerResult::Behind, "behind"),
    (AnswerResult::Unknown, "unknown"),
];

/// Bytes of a usual field.
const VALUE_BYTES_EXPECTED: usize = 128;

/// Parts of the field.
const PARTS: usize = 9;

/// Name of the field, in lower case.
pub const ANSWER_FIELD: &str = "shoal-answer";

/// Name of the trailer, in lower case.
pub const SUM_FIELD: &str = "shoal-sum";

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: ObjectAnswer = ObjectAnswer {
        result: AnswerResult::Served,
        key: 0x9a4e,
        is_shared: true,
        lease_ms: 0,
        load: 3,
        length: Some(10_240),
        sum: Some(0x5d02),
        view: 0x5c0f,
        digest: 0,
    };

    #[test]
    fn answers_are_read_as_they_were_written() {
        assert_eq!(
            ANSWER.to_value(),
            "1 served 0000000000009a4e shared 0 3 10240 0000000000005d02 0000000000005c0f"
        );
        for (result, _) in NAMES {
            let private = ObjectAnswer { result, is_shared: false, length: None, sum: None, ..ANSWER };
            let leased = ObjectAnswer { result, lease_ms: u32::MAX, digest: 0x77b0, ..ANSWER };
            for answer in [private, leased] {
                assert_eq!(ObjectAnswer::parse(answer.to_value().as_bytes()), Some(answer));
            }
        }
        assert_eq!(parse_sum(sum_value(u64::MAX).as_bytes()), Some(u64::MAX));
    }

    #[test]
    fn whatever_deviates_is_refused() {
        let written = ANSWER.to_value();
        for (from, to) in [
            ("1 ", "2 "),
            ("served", "server"),
            ("shared", "public"),
            ("9a4e", "9A4E"),
            (" 0 3 ", " 0 03 "),
            (" 0 3 ", " 4294967296 3 "),
            ("10240", "+10240"),
            ("5c0f", "5c0f "),
            ("5c0f", "5c0f 77b0"),
            ("5c0f", "5c0f 0000000000000000"),
            ("5c0f", "5c0f 00000000000077b0 0"),
            (" 0000000000005c0f", ""),
        ] {
            let changed = written.replacen(from, to, 1);
            assert_eq!(ObjectAnswer::parse(changed.as_bytes()), None, "{changed}");
        }
    }
}
