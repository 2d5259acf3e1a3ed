//! Authentication that belongs to a connection and not to a request: NTLM and Negotiate.
//!
//! RFC 9110, 11.6.2 wants each request to carry its credentials. NTLM and Negotiate (RFC 4559)
//! authenticate the connection instead: every later request on it is answered as that user's,
//! whoever sent it. Such a connection must not carry another client's requests, and its responses
//! are for one client alone.

use http::{HeaderName, header};
use shoal_core::Fields;

/// Whether a request's credentials authenticate the connection that it is sent on.
pub fn authenticates(request: &impl Fields) -> bool {
    request.has(&header::AUTHORIZATION) && names_scheme(request, &header::AUTHORIZATION)
}

/// Whether a response shows that its connection is, or may become, one user's.
pub fn is_of_connection(response: &impl Fields) -> bool {
    let challenges = [header::WWW_AUTHENTICATE, header::PROXY_AUTHENTICATE];
    challenges.iter().any(|name| response.has(name) && names_scheme(response, name))
        || response.values(&PERSISTENT_AUTH).any(|value| value.trim_ascii().eq_ignore_ascii_case(b"true"))
}

/// Whether an origin asks for a login that authenticates the connection.
pub fn challenges(response: &impl Fields) -> bool {
    response.has(&header::WWW_AUTHENTICATE) && names_scheme(response, &header::WWW_AUTHENTICATE)
}

/// Says of a proxy that it keeps an authenticated connection for its client (RFC 4559, section 6).
/// A client is not to log in so through a proxy that does not say it with the challenge.
pub const PROXY_SUPPORT: HeaderName = HeaderName::from_static("proxy-support");

/// The value of [`PROXY_SUPPORT`].
pub const SESSION_BASED: &[u8] = b"Session-Based-Authentication";

/// Whether a list of challenges or credentials under `name` has one of these schemes. A word of a
/// quoted parameter may be taken for a scheme, which costs a connection and no more.
fn names_scheme(fields: &impl Fields, name: &HeaderName) -> bool {
    fields.values(name).flat_map(|value| value.split(|byte| *byte == b',')).any(|member| {
        let scheme = member.trim_ascii().split(u8::is_ascii_whitespace).next().unwrap_or_default();
        SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known.as_bytes()))
    })
}

/// The schemes that authenticate connections: those of Windows, by all names that servers give
/// them.
const SCHEMES: [&str; 6] = ["ntlm", "negotiate", "kerberos", "nego2", "pku2u", "credssp"];

/// Windows' servers say by this field that the connection stays authenticated ([MS-N2HT], 2.2.3).
const PERSISTENT_AUTH: HeaderName = HeaderName::from_static("persistent-auth");

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue};

    fn map(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn credentials_of_connections_are_told_from_others() {
        for (value, expected) in [
            ("NTLM TlRMTVNTUAABAAAA", true),
            ("negotiate YIIJvw==", true),
            ("Negotiate", true),
            ("Kerberos x", true),
            ("Basic dXNlcjpwYXNz", false),
            ("Bearer ntlm", false),
            ("Digest username=\"ntlm\"", false),
            ("NTLMv9 x", false),
        ] {
            assert_eq!(authenticates(&map(header::AUTHORIZATION, &[value])), expected, "{value}");
        }
        assert!(!authenticates(&HeaderMap::new()));
    }

    #[test]
    fn challenges_for_connections_are_told_from_others() {
        for (name, values, expected) in [
            (header::WWW_AUTHENTICATE, &["Basic realm=\"a\"", "NTLM"][..], true),
            (header::WWW_AUTHENTICATE, &["Basic realm=\"a\", Negotiate"], true),
            (header::PROXY_AUTHENTICATE, &["NTLM"], true),
            (PERSISTENT_AUTH, &["true"], true),
            (PERSISTENT_AUTH, &["false"], false),
            (header::WWW_AUTHENTICATE, &["Basic realm=\"a\", Bearer"], false),
        ] {
            assert_eq!(is_of_connection(&map(name, values)), expected, "{values:?}");
        }
    }
}
