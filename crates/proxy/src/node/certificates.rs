//! Certificates of a node: those that it orders, and the states of all.

use super::{Node, NodeError};
use crate::acme::{AcmeParts, AcmeThread, OrderPlan};
use crate::admin::CertificateStatus;
use crate::metrics::Metrics;
use crate::server::{CertificateState, RunningServer, certificate_states};
use shoal_acme::Challenges;
use shoal_settings::Settings;
use std::sync::Arc;

/// Starts the orders of certificates. Their thread begins once the settings name an authority.
pub(super) fn start(
    settings: &Settings,
    metrics: &Arc<Metrics>,
    challenges: Arc<Challenges>,
    identity: u64,
) -> Result<AcmeThread, NodeError> {
    let plan = OrderPlan::new(settings, metrics).map_err(NodeError::Upstream)?;
    let parts = AcmeParts { challenges, metrics: Arc::clone(metrics), identity };
    AcmeThread::start(plan, parts).map_err(NodeError::Threads)
}

/// Returns the plan of the orders after a reload; `None` if it does not change.
///
/// # Errors
/// If `acme.ca_file` cannot be used.
pub(super) fn plan_after(
    (old, new): (&Settings, &Settings),
    metrics: &Arc<Metrics>,
) -> Result<Option<OrderPlan>, NodeError> {
    let names =
        |settings: &Settings| settings.listen.iter().map(|listen| listen.acme.clone()).collect::<Vec<_>>();
    // Files may have changed where the settings did not.
    let is_same = old.acme == new.acme && names(old) == names(new) && new.acme.ca_file.is_none();
    match is_same {
        true => Ok(None),
        false => OrderPlan::new(new, metrics).map(Some).map_err(NodeError::Upstream),
    }
}

impl Node {
    /// Returns the states of the certificates of all listeners, and of the admin listener.
    pub(super) fn certificates(&self, settings: &Settings) -> Vec<CertificateStatus> {
        let of_clients = self.running.lock().as_ref().map(RunningServer::certificates).unwrap_or_default();
        let orders = Some(&self.orders);
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
