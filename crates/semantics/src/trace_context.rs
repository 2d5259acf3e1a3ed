//! Trace context of a request: the fields `traceparent` and `tracestate` (W3C Trace Context, level
//! 1).
//!
//! Both come from anyone. A value that is not exactly of the form is no context: a new trace
//! begins, as the recommendation asks for.

use http::HeaderName;
use std::fmt::Write;

/// Context of a request within a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Id of the trace; never zero.
    pub trace_id: [u8; 16],
    /// Id of the caller's span; never zero.
    pub span_id: [u8; 8],
    /// The caller records the trace.
    pub is_sampled: bool,
}

/// The field `traceparent`.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The field `tracestate`.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

impl TraceContext {
    /// Reads the value of `traceparent`, 3.2.2: `version "-" trace-id "-" parent-id "-" flags`, in
    /// lower-case hexadecimal digits. A later version may have more behind another dash.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (fixed, rest) = value.split_at_checked(FIXED)?;
        let version = byte(&fixed[..2])?;
        let has_dashes = fixed[2] == b'-' && fixed[35] == b'-' && fixed[52] == b'-';
        // "Version 255 is invalid." Version 00 has nothing behind the flags.
        let fits = match version {
            0xff => false,
            0 => rest.is_empty(),
            _ => rest.is_empty() || rest[0] == b'-',
        };
        if !has_dashes || !fits {
            return None;
        }
        let (mut trace_id, mut span_id) = ([0; 16], [0; 8]);
        fill(&mut trace_id, &fixed[3..35])?;
        fill(&mut span_id, &fixed[36..52])?;
        let flags = byte(&fixed[53..55])?;
        // "All bytes as zero is considered an invalid value", for both.
        let is_valid = trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }

    /// Returns the value of `traceparent`.
    pub fn to_field(self) -> String {
        let mut text = String::with_capacity(FIXED);
        text.push_str("00-");
        for byte in self.trace_id {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('-');
        for byte in self.span_id {
            let _ = write!(text, "{byte:02x}");
        }
        text.push_str(if self.is_sampled { "-01" } else { "-00" });
        debug_assert_eq!(Self::parse(text.as_bytes()), Some(self));
        text
    }
}

/// Returns `true` if values of `tracestate` may be passed on, 3.3.1: at most 32 members of
/// `key "=" value`, of printable ASCII, and at most 512 bytes of it.
pub fn is_trace_state<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut members, mut bytes) = (0, 0);
    for value in values {
        bytes += value.len();
        for member in
            value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
        {
            members += 1;
            if !is_member(member) {
                return false;
            }
        }
    }
    members > 0 && members <= MEMBERS_MAX && bytes <= STATE_MAX
}

fn is_member(member: &[u8]) -> bool {
    let Some(at) = member.iter().position(|byte| *byte == b'=') else { return false };
    let (key, value) = (&member[..at], &member[at + 1..]);
    let is_key_byte =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(byte);
    let begins = key.first().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_value_byte = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'=';
    begins
        && key.len() <= KEY_MAX
        && key.iter().all(is_key_byte)
        && (1..=VALUE_MAX).contains(&value.len())
        && value.iter().all(is_value_byte)
}

fn byte(digits: &[u8]) -> Option<u8> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    Some(digit(digits[0])? << 4 | digit(digits[1])?)
}

fn fill(bytes: &mut [u8], digits: &[u8]) -> Option<()> {
    debug_assert_eq!(digits.len(), 2 * bytes.len());
    for (byte_out, digits) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte_out = byte(digits)?;
    }
    Some(())
}

/// Length of `traceparent` in version 00.
const FIXED: usize = 55;
/// Most members of `tracestate`.
const MEMBERS_MAX: usize = 32;
/// Most bytes of `tracestate` that are passed on.
const STATE_MAX: usize = 512;
const KEY_MAX: usize = 256;
const VALUE_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn context_is_read_and_written() {
        let context = TraceContext::parse(SOUND.as_bytes()).expect("a context");
        assert!(context.is_sampled && context.trace_id[0] == 0x0a && context.span_id[7] == 0x31);
        assert_eq!(context.to_field(), SOUND);
        let unsampled = TraceContext { is_sampled: false, ..context };
        assert_eq!(TraceContext::parse(unsampled.to_field().as_bytes()), Some(unsampled));
        let later = format!("cc{}-more", &SOUND[2..]);
        assert_eq!(TraceContext::parse(later.as_bytes()), Some(context));
    }

    #[test]
    fn malformed_context_is_none() {
        let with = |from: &str, to: &str| SOUND.replacen(from, to, 1);
        for value in [
            String::new(),
            SOUND[..54].to_owned(),
            format!("{SOUND}-more"),
            format!("{SOUND} "),
            with("00-", "ff-"),
            with("00-", "0g-"),
            with("0af7", "0AF7"),
            with("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000"),
            with("b7ad6b7169203331", "0000000000000000"),
            with("-b7ad", "_b7ad"),
            with("-01", "-0x"),
            format!("cc{}more", &SOUND[2..]),
        ] {
            assert_eq!(TraceContext::parse(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn state_is_a_bounded_list() {
        let state = |values: &[&str]| is_trace_state(values.iter().map(|value| value.as_bytes()));
        assert!(state(&["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"]) && state(&["a=1", "b@c=2, ,d=x y"]));
        for values in [&[""][..], &["a"], &["a="], &["A=1"], &["=1"], &["a=b=c"], &["a=\u{7f}"], &["a=é"]] {
            assert!(!state(values), "{values:?}");
        }
        let many = vec!["a=1"; 33].join(",");
        assert!(!state(&[&many]) && !state(&[&format!("a={}", "x".repeat(257))]));
        assert!(!state(&["a=1,".repeat(200).as_str()]));
    }
}
