//! States of listeners' certificates in status and metrics.

use super::exposition::{escaped, header};
use crate::acme::AcmeThread;
use crate::server::CertificateState;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Certificate of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// Address of the listener, or `admin`.
    pub listener: String,
    /// File of the certificate.
    pub path: String,
    /// The first names in it.
    pub names: Vec<String>,
    /// Last second of its validity, since 1970; absent until the certificate has come.
    pub not_after: Option<u64>,
    /// Orders for it; absent if the node does not order it itself.
    #[serde(default)]
    pub order: Option<OrderStatus>,
}

/// Orders of a certificate from an authority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderStatus {
    /// Failures since the last success.
    pub failures: u32,
    /// Time of the next order, in seconds since 1970.
    pub next_at: u64,
    /// Reason of the last failure; empty after a success.
    pub why: String,
}

impl CertificateStatus {
    /// Returns the status of a listener's certificates.
    pub(crate) fn of(listener: &str, states: &[CertificateState], orders: Option<&AcmeThread>) -> Vec<Self> {
        let of_order = |state: &CertificateState| {
            let order = orders.and_then(|orders| orders.state(&state.path)).unwrap_or_default();
            OrderStatus { failures: order.failures, next_at: order.next_at, why: order.why }
        };
        let status = |state: &CertificateState| Self {
            listener: listener.to_owned(),
            path: state.path.display().to_string(),
            names: state.names.iter().take(NAMES_MAX).cloned().collect(),
            not_after: state.not_after,
            order: state.is_ordered.then(|| of_order(state)),
        };
        let all: Vec<Self> = states.iter().map(status).collect();
        debug_assert!(all.iter().all(|it| it.names.len() <= NAMES_MAX));
        all
    }
}

/// Writes the end of each certificate.
pub(super) fn write(page: &mut String, certificates: &[CertificateStatus]) {
    if certificates.is_empty() {
        return;
    }
    let name = "shoal_certificate_not_after_seconds";
    header(page, "gauge", name, "End of a listener's certificate, since 1970; 0 until one has come.");
    for (number, certificate) in certificates.iter().enumerate() {
        let labels = |it: &CertificateStatus| (it.listener.clone(), it.path.clone());
        // A page with two rows of one name and labels is rejected.
        if certificates[..number].iter().any(|other| labels(other) == labels(certificate)) {
            continue;
        }
        let (listener, path) = (escaped(&certificate.listener), escaped(&certificate.path));
        let host = escaped(certificate.names.first().map_or("", String::as_str));
        let end = certificate.not_after.unwrap_or(0);
        let _ = writeln!(page, "{name}{{listener=\"{listener}\",path=\"{path}\",name=\"{host}\"}} {end}");
    }
}

/// Most names of a certificate that are told.
const NAMES_MAX: usize = 10;
