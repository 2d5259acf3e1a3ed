//! URLs that carry a leave of their own, which lapses: a signature, a token, a time at which they
//! expire.
//!
//! The origin answers such a URL today and refuses it tomorrow, and seldom says so in the response:
//! that of a presigned URL of S3 has a Last-Modified and nothing else. Freshness that is guessed
//! from it would outlive the leave. The names are those of S3, Google Cloud Storage, Azure,
//! CloudFront, Akamai, Cloudflare, Alibaba, and nginx' `secure_link`, and what applications call
//! theirs.

use std::borrow::Cow;

/// Whether a parameter of the query is a leave, by its name. The case of letters and what stands
/// between words do not matter.
pub(crate) fn has_leave(query: &str) -> bool {
    query.split(['&', ';']).any(|parameter| {
        let end = parameter.find('=').unwrap_or(parameter.len());
        is_leave(&decoded(&parameter.as_bytes()[..end]))
    })
}

fn is_leave(name: &[u8]) -> bool {
    let name: Vec<u8> =
        name.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).collect();
    NAMES.contains(&&*name) || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The name as the origin reads it: `%58-Amz-Expires` is no other name.
fn decoded(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'%') {
        return Cow::Borrowed(name);
    }
    let mut text = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first() {
        let digits =
            after.get(..2).filter(|_| byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let (read, left) = match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) => (escaped, &after[2..]),
            None => (byte, after),
        };
        text.push(read);
        rest = left;
    }
    Cow::Owned(text)
}

/// Names as they are, in lower case, without what stands between words.
const NAMES: [&[u8]; 16] = [
    b"sig",
    b"se",
    b"exp",
    b"keypairid",
    b"policy",
    b"auth",
    b"authorization",
    b"jwt",
    b"md5",
    b"verify",
    b"hdnea",
    b"hdnts",
    b"apikey",
    b"accesskey",
    b"ticket",
    b"otp",
];

/// Endings of names, likewise.
const ENDINGS: [&[u8]; 9] = [
    b"signature",
    b"expires",
    b"expire",
    b"expiry",
    b"expiration",
    b"token",
    b"hmac",
    b"credential",
    b"secret",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_known_by_name() {
        for query in [
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=60&X-Amz-Signature=0a",
            "AWSAccessKeyId=A&Expires=1&Signature=b",
            "X-Goog-Signature=1",
            "sv=2024-01-01&se=2026-01-01&sr=b&sig=a",
            "Key-Pair-Id=K",
            "a=1;token=x",
            "access_token",
            "hmac=",
            "%58-Amz-%45xpires=3",
            "to%6ben=1",
            "v=1&md5=a&expires=2",
            "__token__=exp=1~hmac=2",
        ] {
            assert!(has_leave(query), "{query}");
        }
        for query in [
            "",
            "v=3",
            "page=2&sort=name",
            "q=expires",
            "signatures=1",
            "design=a",
            "%zz=1",
            "tokens=%74oken",
        ] {
            assert!(!has_leave(query), "{query}");
        }
    }
}
