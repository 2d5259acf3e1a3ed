//! Users and client certificates that a rule asks for, and the rate of requests that it allows.

use crate::pattern::Glob;
use shoal_settings::Satisfy;
use std::path::Path;
use std::sync::Arc;

/// Access that a rule asks for, beside client networks. `None` leaves a thing as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessEffects {
    /// File of the users that are served.
    pub users_file: Option<Arc<Path>>,
    /// Realm of the challenge.
    pub realm: Option<Arc<str>>,
    /// `true` if the origin gets the Authorization field.
    pub forward_authorization: Option<bool>,
    /// Certificates that are served.
    pub certificates: Option<Arc<[CertificatePattern]>>,
    /// Conditions of access that must hold.
    pub satisfy: Option<Satisfy>,
}

/// Rate of requests of one client network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientRate {
    /// Requests a second, on average.
    pub per_second: f64,
    /// Requests at once.
    pub burst: u32,
}

/// Names in a client's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// Subject as text of printable ASCII (RFC 4514).
    pub subject: String,
    /// Parts of the subject, such as (`CN`, `ann`).
    pub attributes: Vec<(&'static str, String)>,
    /// DNS names and URIs.
    pub names: Vec<String>,
}

/// Pattern of certificates.
#[derive(Clone, Debug, PartialEq)]
pub enum CertificatePattern {
    /// A part of the subject: its type and value.
    Attribute(&'static str, Glob),
    /// A DNS name or URI.
    Name(Glob),
}

impl AccessEffects {
    /// Takes over the settings of `later`.
    pub fn merge(&mut self, later: &Self) {
        let Self { users_file, realm, forward_authorization, certificates, satisfy } = later.clone();
        self.users_file = users_file.or(self.users_file.take());
        self.realm = realm.or(self.realm.take());
        self.forward_authorization = forward_authorization.or(self.forward_authorization);
        self.certificates = certificates.or(self.certificates.take());
        self.satisfy = satisfy.or(self.satisfy);
    }

    /// Returns `true` if clients may be refused.
    pub fn asks(&self) -> bool {
        self.users_file.is_some() || self.certificates.is_some()
    }
}

impl CertificatePattern {
    /// Reads `CN=name`, or a DNS name or URI.
    ///
    /// # Errors
    /// The mistake in the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let kind = |said: &str| ATTRIBUTES.iter().find(|name| name.eq_ignore_ascii_case(said));
        match text.split_once('=') {
            _ if text.is_empty() => Err("an empty name matches no certificate".into()),
            Some((said, value)) if said.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                match kind(said) {
                    Some(kind) => Ok(Self::Attribute(kind, Glob::parse(value)?)),
                    None => {
                        Err(format!("{said:?} is no part of a subject; there are {}", ATTRIBUTES.join(", ")))
                    }
                }
            }
            _ => Ok(Self::Name(Glob::parse(text)?)),
        }
    }

    /// Returns `true` if the pattern matches one of these names. DNS names are in lower case.
    pub fn matches(&self, certificate: &CertificateNames) -> bool {
        debug_assert!(certificate.subject.is_ascii(), "a subject is text that any field may hold");
        match self {
            Self::Attribute(kind, glob) => {
                let mut values = certificate.attributes.iter().filter(|(other, _)| other == kind);
                values.any(|(_, value)| glob.matches(value.as_bytes()))
            }
            Self::Name(glob) => certificate.names.iter().any(|name| glob.matches(name.as_bytes())),
        }
    }
}

/// Parts of a subject that have a name here.
pub const ATTRIBUTES: [&str; 9] = ["CN", "O", "OU", "C", "L", "ST", "DC", "UID", "emailAddress"];

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> CertificateNames {
        CertificateNames {
            subject: "CN=build-7,O=Example\\, CN=admin".into(),
            attributes: vec![("O", "Example, CN=admin".into()), ("CN", "build-7".into())],
            names: vec!["build-7.clients.test".into(), "spiffe://a.test/build?x=1".into()],
        }
    }

    #[test]
    fn patterns_match_whole_parts() {
        for (pattern, matches) in [
            ("CN=build-*", true),
            ("cn=build-7", true),
            ("CN=build", false),
            ("CN=admin", false),
            ("CN=*admin*", false),
            ("O=Example, CN=admin", true),
            ("OU=*", false),
            ("*.clients.test", true),
            ("clients.test", false),
            ("spiffe://a.test/*", true),
            ("spiffe://a.test/build?x=1", true),
        ] {
            let parsed = CertificatePattern::parse(pattern).expect(pattern);
            assert_eq!(parsed.matches(&names()), matches, "{pattern}");
            assert!(!parsed.matches(&CertificateNames::default()), "{pattern} without a certificate");
        }
    }

    #[test]
    fn unknown_parts_of_subjects_are_mistakes() {
        for text in ["", "CM=x"] {
            assert!(CertificatePattern::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn later_access_wins_part_by_part() {
        let mut first = AccessEffects { users_file: Some(Path::new("a").into()), ..AccessEffects::default() };
        first.merge(&AccessEffects { satisfy: Some(Satisfy::Any), ..AccessEffects::default() });
        assert_eq!((first.users_file.as_deref(), first.satisfy), (Some(Path::new("a")), Some(Satisfy::Any)));
        first.merge(&AccessEffects { users_file: Some(Path::new("b").into()), ..AccessEffects::default() });
        assert_eq!(first.users_file.as_deref(), Some(Path::new("b")));
    }
}
