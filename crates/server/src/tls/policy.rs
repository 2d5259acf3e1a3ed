//! Versions, cipher suites and groups that a listener takes.

use crate::transport::hybrid_provider;
use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{NamedGroup, SupportedCipherSuite, SupportedProtocolVersion};
use shoal_settings::{Listen, TlsVersion};
use std::sync::Arc;

/// Parts of a handshake that settings choose.
#[derive(Clone)]
pub(super) struct TlsPolicy {
    /// Settings of the listener that this was made of; `None` for the defaults.
    listen: Option<Choices>,
    /// Versions, the newest first.
    pub versions: &'static [&'static SupportedProtocolVersion],
    /// Cipher suites and groups, best first, with their code.
    pub provider: Arc<CryptoProvider>,
    /// `true` for handshakes over QUIC as well.
    pub http3: bool,
}

/// Settings of a listener that choose.
#[derive(Clone, PartialEq)]
struct Choices {
    min_version: TlsVersion,
    ciphers: Vec<String>,
    groups: Vec<String>,
    http3: bool,
}

impl Choices {
    fn of(listen: &Listen) -> Self {
        Self {
            min_version: listen.tls_min_version,
            ciphers: listen.tls_ciphers.clone(),
            groups: listen.tls_groups.clone(),
            http3: listen.http3,
        }
    }
}

impl Default for TlsPolicy {
    fn default() -> Self {
        Self { listen: None, versions: &BOTH, provider: Arc::new(hybrid_provider()), http3: false }
    }
}

impl TlsPolicy {
    /// Returns the policy of a listener. Its names were checked with the settings.
    pub fn of(listen: &Listen) -> Self {
        let mut provider = hybrid_provider();
        if !listen.tls_ciphers.is_empty() {
            provider.cipher_suites = in_order(&listen.tls_ciphers, &provider.cipher_suites, cipher_name);
        }
        if !listen.tls_groups.is_empty() {
            let name = |group: &&'static dyn rustls::crypto::SupportedKxGroup| group_name(group.name());
            provider.kx_groups = in_order(&listen.tls_groups, &provider.kx_groups, name);
        }
        let versions = match listen.tls_min_version {
            TlsVersion::V12 => &BOTH[..],
            TlsVersion::V13 => &BOTH[..1],
        };
        let choices = Some(Choices::of(listen));
        Self { listen: choices, versions, provider: Arc::new(provider), http3: listen.http3 }
    }

    /// Returns the policy of handshakes over QUIC, which has TLS 1.3 alone.
    pub fn of_quic(&self) -> Self {
        Self { versions: &TLS13_ALONE, ..self.clone() }
    }

    /// Returns `true` if the listener still chooses the same.
    pub fn is_of(&self, listen: &Listen) -> bool {
        self.listen.as_ref() == Some(&Choices::of(listen))
    }
}

/// Returns the members of `all` that are named, in the order of the names.
fn in_order<T: Copy>(names: &[String], all: &[T], name_of: impl Fn(&T) -> String) -> Vec<T> {
    let find = |name: &String| all.iter().find(|one| name_of(one) == *name).copied();
    let chosen: Vec<T> = names.iter().filter_map(find).collect();
    debug_assert_eq!(chosen.len(), names.len(), "the check of the settings knows all names");
    chosen
}

/// Returns the IANA name. The library puts the version into those of TLS 1.3.
fn cipher_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

fn group_name(group: NamedGroup) -> String {
    format!("{group:?}").to_ascii_lowercase()
}

/// The version of QUIC.
static TLS13_ALONE: [&SupportedProtocolVersion; 1] = [&TLS13];

static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_settings::{TLS_CIPHERS, TLS_GROUPS};

    #[test]
    fn settings_name_all_that_the_library_has() {
        let provider = TlsPolicy::default().provider;
        let ciphers: Vec<String> = provider.cipher_suites.iter().map(cipher_name).collect();
        assert_eq!(ciphers, TLS_CIPHERS);
        let groups: Vec<String> = provider.kx_groups.iter().map(|group| group_name(group.name())).collect();
        assert_eq!(groups, TLS_GROUPS);
    }

    #[test]
    fn names_choose_and_order() {
        let listen = Listen {
            tls_min_version: TlsVersion::V13,
            tls_ciphers: vec![TLS_CIPHERS[2].into(), TLS_CIPHERS[0].into()],
            tls_groups: vec!["secp384r1".into()],
            ..Listen::reverse(([127, 0, 0, 1], 0).into())
        };
        let policy = TlsPolicy::of(&listen);
        let ciphers: Vec<String> = policy.provider.cipher_suites.iter().map(cipher_name).collect();
        assert_eq!(ciphers, [TLS_CIPHERS[2], TLS_CIPHERS[0]]);
        assert_eq!((policy.provider.kx_groups.len(), policy.versions.len()), (1, 1));
        assert!(policy.is_of(&listen) && policy.is_of(&Listen { redirect_https: Some(1), ..listen.clone() }));
        assert!(!policy.is_of(&Listen { http3: true, ..listen.clone() }));
        assert!(!policy.is_of(&Listen { tls_groups: Vec::new(), ..listen }));
    }
}
