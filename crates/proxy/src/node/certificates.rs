//! Certificates of a node: those that it orders, and the states of all.

use super::{Node, NodeError};
use crate::acme::{AcmeParts, AcmeThread};
use crate::admin::CertificateStatus;
use crate::metrics::Metrics;
use crate::server::{CertificateState, RunningServer, certificate_states};
use crate::upstream::Upstreams;
use shoal_acme::Challenges;
use shoal_settings::Settings;
use std::sync::Arc;

/// Starts the thread that orders certificates, if the settings name an authority.
pub(super) fn start(
    settings: &Settings,
    (upstreams, metrics): (&Arc<Upstreams>, &Arc<Metrics>),
    challenges: Arc<Challenges>,
    identity: u64,
) -> Result<Option<AcmeThread>, NodeError> {
    let (upstreams, metrics) = (Arc::clone(upstreams), Arc::clone(metrics));
    let parts = AcmeParts { upstreams, challenges, metrics, identity };
    AcmeThread::start(settings, parts).map_err(NodeError::Threads)
}

impl Node {
    /// Returns the states of the certificates of all listeners, and of the admin listener.
    pub(super) fn certificates(&self, settings: &Settings) -> Vec<CertificateStatus> {
        let of_clients = self.running.lock().as_ref().map(RunningServer::certificates).unwrap_or_default();
        let orders = self.orders.as_ref();
        let addresses = self.addresses.iter().map(ToString::to_string);
        let of = |(listener, states): (String, Vec<CertificateState>)| {
            CertificateStatus::of(&listener, &states, orders)
        };
        let mut all: Vec<CertificateStatus> = addresses.zip(of_clients).flat_map(of).collect();
        let of_admin = certificate_states(&settings.admin.tls);
        all.extend(CertificateStatus::of("admin", &of_admin, None));
        all
    }
}
