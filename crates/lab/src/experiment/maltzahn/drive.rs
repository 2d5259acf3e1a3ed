//! Drives a cache over a workload on the modelled machine, as the paper drove its generators (section 4).
//!
//! Requests are processed one after the other: what is stored is read whole, what is not is written. Files are kept by the store's own
//! architectures; small objects, where they are mapped, by the [`MappedFile`]; what is known of them stands in memory, as in Squid.

use super::mapped::MappedFile;
use super::outcome::Outcome;
use super::paper::PAGE_BYTES;
use super::rig::outcome_of;
use super::staleness::Demand;
use crate::experiment::{Error, Progress, Workload};
use shoal_core::ObjectKey;
use shoal_store::Store;
use shoal_store::door::ufs1999::Ufs1999;
use shoal_trace::Trace;
use std::sync::Arc;

/// Where objects are kept.
pub struct Cache {
    /// The machine below.
    pub door: Arc<Ufs1999>,
    /// Objects kept as files; without, those too large for the mapped file are not kept.
    pub files: Option<Arc<dyn Store>>,
    /// Small objects, where they are not files too.
    pub small: Option<MappedFile>,
}

/// What is asked of a cache.
pub struct Load<'a> {
    /// What the run is called.
    pub name: &'a str,
    /// The requests' names.
    pub trace: &'a Trace,
    /// The requests.
    pub workload: &'a Workload,
    /// Each object's stored size, in bytes.
    pub sizes: &'a [u64],
    /// What each request comes to; without, nothing is ever stale.
    pub demands: Option<&'a [Demand]>,
}

impl Cache {
    /// Drives the cache and counts the measured part.
    pub fn drive(&mut self, load: &Load<'_>, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        progress.begin(load.name, load.workload.requests.len() as u64);
        let mut warm = None;
        let mut hits = 0;
        for (index, request) in load.workload.requests.iter().enumerate() {
            if index == load.workload.warm_up {
                warm = Some(self.door.report());
            }
            let demand = load.demands.map_or(Demand::Get, |demands| demands[index]);
            let hit = self.serve(load, request.object, demand).map_err(|error| named(error, load.name))?;
            hits += u64::from(hit && index >= load.workload.warm_up);
            progress.done(1);
        }
        let all = self.door.report();
        let measured = warm.map_or_else(|| all.clone() - &all, |warm| all.clone() - &warm);
        Ok(outcome_of(load.name, load.workload.measured().len() as u64, hits, &measured))
    }

    fn serve(&mut self, load: &Load<'_>, object: u32, demand: Demand) -> Result<bool, Error> {
        let bytes = load.sizes[object as usize];
        match (&mut self.small, &self.files) {
            (Some(small), _) if bytes <= PAGE_BYTES => {
                if demand != Demand::Rewrite && small.holds(object) {
                    return small.hit(object, bytes).map(|()| true);
                }
                small.write(object, bytes).map(|_| false)
            }
            (_, Some(store)) => {
                let key = ObjectKey::new(load.trace.objects().name(object).as_bytes());
                serve_file(&**store, &key, bytes, demand).map_err(|error| failed(&error))
            }
            _ => Ok(false),
        }
    }
}

fn serve_file(
    store: &dyn Store,
    key: &ObjectKey,
    bytes: u64,
    demand: Demand,
) -> Result<bool, shoal_store::Error> {
    let may_hit = demand != Demand::Rewrite && store.may_contain(key.hash());
    if let Some(stored) = if may_hit { store.open(key)? } else { None } {
        let mut offset = 0;
        while offset < stored.body.length() {
            let read = stored.body.read(offset, READ_BYTES)?.len() as u64;
            if read == 0 {
                break;
            }
            offset += read;
        }
        if demand == Demand::Validate {
            store.update_metadata(key, RENEWED, &|_| true)?;
        }
        return Ok(true);
    }
    let mut body = store.body_within(bytes, key.full().len() as u32, METADATA.len() as u32);
    let mut insert = store.insert(key, METADATA, Some(body))?;
    while body > 0 {
        let piece = body.min(READ_BYTES as u64);
        insert.append(&ZEROS[..piece as usize])?;
        body -= piece;
    }
    insert.commit(None)?;
    Ok(false)
}

fn failed(error: &shoal_store::Error) -> Error {
    Error::Store { run: String::new(), reason: error.to_string() }
}

fn named(error: Error, name: &str) -> Error {
    match error {
        Error::Store { reason, .. } => Error::Store { run: name.into(), reason },
        other => other,
    }
}

const READ_BYTES: usize = 64 << 10;
static ZEROS: [u8; READ_BYTES] = [0; READ_BYTES];
/// What is kept beside an object, and what a validation makes of it.
const METADATA: &[u8; 16] = b"as it was stored";
const RENEWED: &[u8; 16] = b"validated anew!!";
