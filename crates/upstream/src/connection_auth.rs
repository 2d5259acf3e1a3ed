//! Authentication of connections instead of requests: NTLM and Negotiate.
//!
//! RFC 9110, 11.6.2 requires credentials in each request. NTLM and Negotiate (RFC 4559)
//! authenticate the connection instead: the origin answers every later request on it as the same
//! user's, even if another client sent it. Such a connection must therefore serve one client only,
//! and its responses are for that client only.

use http::{HeaderName, header};
use shoal_core::Fields;

/// Returns `true` if a request's credentials authenticate its connection.
pub fn authenticates(request: &impl Fields) -> bool {
    request.has(&header::AUTHORIZATION) && names_scheme(request, &header::AUTHORIZATION)
}

/// Returns `true` if a response shows that its connection belongs to one user, or may come to.
pub fn is_of_connection(response: &impl Fields) -> bool {
    let challenges = [header::WWW_AUTHENTICATE, header::PROXY_AUTHENTICATE];
    challenges.iter().any(|name| response.has(name) && names_scheme(response, name))
        || response.values(&PERSISTENT_AUTH).any(|value| value.trim_ascii().eq_ignore_ascii_case(b"true"))
}

/// Returns `true` if an origin asks for a login that authenticates the connection.
pub fn challenges(response: &impl Fields) -> bool {
    response.has(&header::WWW_AUTHENTICATE) && names_scheme(response, &header::WWW_AUTHENTICATE)
}

/// Field by which a proxy states that it keeps an authenticated connection for its client (RFC
/// 4559, section 6). A client must not log in this way through a proxy that omits the field from
/// the challenge.
pub const PROXY_SUPPORT: HeaderName = HeaderName::from_static("proxy-support");

/// Value of [`PROXY_SUPPORT`].
pub const SESSION_BASED: &[u8] = b"Session-Based-Authentication";

/// Returns `true` if a list of challenges or credentials under `name` has one of these schemes. A
/// word in a quoted parameter may match by mistake, at the cost of one connection.
fn names_scheme(fields: &impl Fields, name: &HeaderName) -> bool {
    fields.values(name).flat_map(|value| value.split(|byte| *byte == b',')).any(|member| {
        let scheme = member.trim_ascii().split(u8::is_ascii_whitespace).next().unwrap_or_default();
        SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known.as_bytes()))
    })
}

/// Schemes that authenticate connections: those of Windows, under all names that servers use.
const SCHEMES: [&str; 6] = ["ntlm", "negotiate", "kerberos", "nego2", "pku2u", "credssp"];

/// Field by which Windows servers state that the connection stays authenticated ([MS-N2HT], 2.2.3).
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
