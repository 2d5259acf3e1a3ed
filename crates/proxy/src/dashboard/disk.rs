//! The document of the page "Disk".

use super::recorder::Recorder;
use super::unix_ms;
use super::view::{NodeView, disk_calls, requests_and_hits, sent_bytes};
use crate::by_site::quantile_us;
use shoal_dashboard::documents::{AdmissionCounts, DiskCosts, DiskDocument, DiskRow, ROWS_MAX, RingRow};
use shoal_dashboard::shown;
use shoal_store::StoreView;
use shoal_store::disks::{DiskState, ServiceState};
use std::sync::Arc;

/// Returns the document.
pub(super) fn document(view: &NodeView, recorder: &Recorder) -> DiskDocument {
    let states = view.disks.as_ref().map(|disks| disks.states()).unwrap_or_default();
    let [reads, writes, read_bytes, write_bytes] = view.disk_calls();
    let counts = view.counts();
    let (requests, _) = requests_and_hits(|at| counts[at]);
    let (ios, bytes) = ((reads + writes) as f64, (read_bytes + write_bytes) as f64);
    let served = sent_bytes(|at| counts[at]);
    let per = |amount: f64, of: u64| if of > 0 { amount / of as f64 } else { 0.0 };
    let rings = || states.iter().filter_map(|disk| Some((shown(&disk.path), disk.ring.as_ref()?)));
    DiskDocument {
        unix_ms: unix_ms(),
        architecture: view.disks.as_ref().map(|disks| disks.name().to_owned()),
        disks: states.iter().take(ROWS_MAX).map(|disk| row(view, recorder, disk)).collect(),
        per_request: DiskCosts {
            ios: per(ios, requests),
            bytes: per(bytes, requests),
            bytes_written: per(write_bytes as f64, requests),
        },
        per_byte_served: per(write_bytes as f64, served),
        admission: AdmissionCounts {
            offered: rings().map(|(_, ring)| ring.offered).sum(),
            admitted: rings().map(|(_, ring)| ring.admitted).sum(),
        },
        carried_over: rings().map(|(_, ring)| ring.carried).sum(),
        cursor: rings()
            .map(|(name, ring)| {
                let stripes = f64::from(ring.stripes.max(1));
                let position = f64::from(ring.cursor) / stripes;
                (name, RingRow { position, laps: ring.passed as f64 / stripes })
            })
            .collect(),
        popularity: rings().map(|(name, ring)| (name, ring.hits.clone())).collect(),
    }
}

fn row(view: &NodeView, recorder: &Recorder, disk: &DiskState) -> DiskRow {
    // A disk that came while the node served has no counts of calls before the next start.
    let at = disk.number;
    let [reads, writes, read_bytes, write_bytes] =
        view.calls.get(at).map(|tally| disk_calls(tally)).unwrap_or_default();
    let waits = Some(view.objects.disk_queue(at).pool().waits());
    let settings = Arc::clone(&view.settings.lock());
    let uptime_s = view.started.elapsed().as_secs_f64().max(1.0);
    let a_day = write_bytes as f64 / uptime_s * 86_400.0;
    let rating = settings.store.rating_of(&disk.path);
    DiskRow {
        name: shown(&disk.path),
        kind: settings.store.architecture.clone(),
        in_service: disk.service == ServiceState::InService,
        why: shown(&disk.why),
        size: disk.bytes,
        used: disk.usage.bytes,
        objects: disk.usage.objects,
        reads,
        writes,
        read_bytes,
        write_bytes,
        reads_per_s: recorder.disks.per_s(4 * at, 5000),
        writes_per_s: recorder.disks.per_s(4 * at + 1, 5000),
        queue_p50_us: waits.and_then(|waits| quantile_us(&waits, 0.5)),
        queue_p99_us: waits.and_then(|waits| quantile_us(&waits, 0.99)),
        damage: disk.usage.corrupt,
        writes_per_day_bytes: a_day as u64,
        wear_years: rating.filter(|_| a_day > 0.0).map(|rating| rating as f64 / a_day / 365.0),
    }
}
