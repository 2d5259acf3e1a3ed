//! Traces and metrics of a node on their way to a collector.

use crate::access_log::{AccessLog, OpenError};
use crate::metrics::Metrics;
use crate::otlp::{Endpoint, Exporter};
use shoal_core::Key;
use shoal_settings::{Settings, collector};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// Starts the exporter, if the settings name a collector.
pub(super) fn start(
    settings: &Settings,
    identity: u64,
    metrics: &Arc<Metrics>,
) -> io::Result<Option<Exporter>> {
    let otlp = &settings.otlp;
    if otlp.endpoint.is_empty() {
        return Ok(None);
    }
    // The settings have been checked.
    let (authority, path) = collector(&otlp.endpoint).map_err(io::Error::other)?;
    let endpoint = Endpoint {
        authority,
        path,
        service: otlp.service.clone(),
        sample: otlp.sample,
        metrics_interval: otlp.metrics_interval,
    };
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let numbers = [identity, u64::from(std::process::id()), since.as_nanos() as u64];
    let seed = Key::unkeyed(numbers.map(u64::to_le_bytes).as_flattened()).low();
    Exporter::start(endpoint, seed, metrics).map(Some)
}

/// Opens the access log of these settings, with the receiver of traces.
pub(super) fn log(
    settings: &Settings,
    metrics: &Arc<Metrics>,
    exporter: Option<&Exporter>,
) -> Result<AccessLog, OpenError> {
    let traces = exporter.map(|exporter| Arc::clone(exporter.sink()));
    Ok(AccessLog::open(&settings.log, Arc::clone(metrics))?.with_traces(traces))
}
