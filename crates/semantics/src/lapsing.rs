//! URLs that carry a leave that lapses: a signature, a token, or a time of expiry.
//!
//! The origin answers such a URL today and refuses it tomorrow, and its response seldom says so.
//! The response to a presigned URL of S3 has a Last-Modified and nothing else. A freshness lifetime
//! guessed from this date would outlive the leave. The names are those of S3, Google Cloud Storage,
//! Azure, CloudFront, Akamai, Cloudflare, Alibaba and nginx' `secure_link`, and names common among
//! applications.

use std::borrow::Cow;

/// Returns `true` if the query has a parameter that is a leave, by its name. The case of letters
/// and the marks between words do not matter.
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

/// Decodes the name as the origin reads it: `%58-Amz-Expires` is the same name as `X-Amz-Expires`.
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

/// Whole names, in lower case, without the marks between words.
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

/// Endings of names, in the same form.
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
