//! Settings of certificates that the node orders itself (ACME, RFC 8555).

use shoal_core::Key;
use std::path::{Path, PathBuf};
use std::time::Duration;

section! {
    /// Certificates that the node orders from an authority itself (ACME), for the names in `acme`
    /// of `[[listen]]`. `docs/EDGE.md` tells the way from the first order to a renewal. A reload
    /// changes names and all settings here. An order under way ends first, by the settings with
    /// which it began.
    pub struct Acme {
        /// URL of the authority's directory, by https. It has no default: the authority's
        /// documentation names it. All that the authority asks for must be on the same host.
        /// Another directory orders each certificate anew; the one before serves until then.
        pub directory: String = String::new(),
        /// Set this to `true` to agree to the terms of the authority. Otherwise nothing is ordered.
        pub terms_agreed: bool = false,
        /// Addresses that the authority may write to, such as `mailto:web@example.org`. An account
        /// that the authority already has gets changed addresses before the next order.
        pub contact: Vec<String> = Vec::new(),
        /// Challenge: the authority's test that this node serves a name.
        pub challenge: AcmeChallenge = AcmeChallenge::Http01,
        /// Folder of the account's key and of the certificates, for the node's user alone. It must
        /// last: an authority limits how often it signs for a name. After a change, certificates of
        /// the folder before serve until the new one has its own, or until the next start.
        pub folder: PathBuf = "shoal-acme".into(),
        /// Certificate authorities, PEM, that are trusted for the directory's host beside those of
        /// the system.
        pub ca_file: Option<PathBuf> = None,
        /// Identifier of an account that the authority has given elsewhere (external account
        /// binding).
        pub binding_id: Option<String> = None,
        /// File with the key of `binding_id`, as base64url.
        pub binding_key_file: Option<PathBuf> = None,
        /// Shortest time between two orders for the same names. It doubles with each failure, up to
        /// a day. Authorities allow about five failures an hour.
        #[limits(Duration::from_secs(1)..=Duration::from_secs(86_400))]
        pub retry: Duration = Duration::from_secs(900),
    }
}

choice! {
    /// Challenge: the authority's test that this node serves a name.
    pub enum AcmeChallenge {
        /// The authority asks port 80 of the name over http. A listener without TLS answers.
        Http01 = "http-01",
        /// The authority makes a handshake with port 443 of the name. A listener with TLS answers.
        TlsAlpn01 = "tls-alpn-01",
    }
}

entry! {
    /// A certificate that the node orders from the authority of `[acme]`.
    pub struct AcmeCertificate {
        /// Names in the certificate, all in one order. If the authority refuses one, it signs for
        /// none of them.
        pub names: Vec<String>,
    }
    example { Self { names: vec!["www.example.org".into(), "example.org".into()] } }
}

impl AcmeCertificate {
    /// Returns the file that holds the certificate and its key, in `folder`. The order of the names
    /// does not matter.
    pub fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.pem", self.stem()))
    }

    /// Returns the name of the certificate's files without an ending.
    pub fn stem(&self) -> String {
        let names = self.sorted_names();
        let number = Key::unkeyed(names.join(",").as_bytes()).low();
        let first = self.names.first().map_or("", String::as_str);
        let first = first.chars().filter(|char| char.is_ascii_alphanumeric() || ".-".contains(*char));
        // A name that begins with a dot would be a hidden file.
        let first: String = first.take(64).collect();
        format!("{}-{number:016x}", first.trim_start_matches('.'))
    }

    /// Returns the names in alphabetical order.
    pub fn sorted_names(&self) -> Vec<String> {
        let mut names = self.names.clone();
        names.sort();
        names
    }
}

/// Most names of one certificate, as authorities allow.
pub const ACME_NAMES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_depend_on_the_set_of_names() {
        let of = |names: &[&str]| AcmeCertificate { names: names.iter().map(ToString::to_string).collect() };
        let (one, other) = (of(&["a.test", "b.test"]), of(&["b.test", "a.test"]));
        assert_eq!(one.stem()[7..], other.stem()[7..], "the number");
        assert_ne!(of(&["a.test"]).stem(), one.stem());
        let file = of(&["../../etc/passwd"]).file(Path::new("/x"));
        assert_eq!(file.parent(), Some(Path::new("/x")), "{file:?}");
    }
}
