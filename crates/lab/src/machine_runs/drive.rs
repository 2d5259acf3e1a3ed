//! Drives a store over a workload on the modelled machine, as the paper drove its generators
//! (section 4).
//!
//! Requests are processed one after the other: stored objects are read whole, others are written.
//! All of this is the store's own code; metadata of objects stand in memory, as in Squid.

use super::outcome::RunResult;
use super::rig::outcome_of;
use crate::error::LabError;
use crate::progress::Progress;
use crate::workload::Workload;
use shoal_core::ObjectKey;
use shoal_machine1999::Ufs1999;
use shoal_store::{InsertRefusal, Store};
use shoal_trace::Trace;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// A store and the machine below it.
pub struct MachineStore {
    /// The machine.
    pub door: Arc<Ufs1999>,
    /// The store.
    pub store: Arc<dyn Store>,
}

/// Requests for a cache.
pub struct StoreLoad<'a> {
    /// Name of the run.
    pub name: &'a str,
    /// Trace with the requests' names.
    pub trace: &'a Trace,
    /// The requests.
    pub workload: &'a Workload,
    /// Size of each object, in bytes.
    pub sizes: &'a [u64],
    /// Demand of each request; `None` means that no object is ever stale.
    pub demands: Option<&'a [RequestDemand]>,
    /// Manner of the requests.
    pub manner: Manner,
}

/// Manner of the requests, where it differs from the paper's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Time that passes before each request; the paper's generators had no pause.
    pub pause: Duration,
    /// `true` if sizes are those of bodies, and the store's records are added. Otherwise an object
    /// with all additions of the store has the trace's size: the paper's files had no records.
    pub bodies: bool,
}

/// Demand of one request, once the object's freshness is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDemand {
    /// Read the object if it is stored, write it otherwise.
    Get,
    /// Read or write as for `Get`, but renew the metadata of a stored object: the origin said that
    /// it has not changed.
    Validate,
    /// Write the object, also if it is stored: it has changed.
    Rewrite,
}

impl MachineStore {
    /// Drives the cache and counts the measured part.
    pub fn drive(&self, load: &StoreLoad<'_>, progress: &mut dyn Progress) -> Result<RunResult, LabError> {
        measured((load.name, &self.door), load.workload, progress, |index, object| {
            self.door.advance(load.manner.pause);
            let demand = load.demands.map_or(RequestDemand::Get, |demands| demands[index]);
            self.serve(load, object, demand)
        })
    }

    fn serve(
        &self,
        load: &StoreLoad<'_>,
        object: u32,
        demand: RequestDemand,
    ) -> Result<bool, shoal_store::Error> {
        let key = ObjectKey::new(load.trace.objects().name(object).as_bytes());
        let may_hit = demand != RequestDemand::Rewrite && self.store.may_contain(&key);
        if may_hit && self.hit(&key, demand)? {
            return Ok(true);
        }
        let bytes = load.sizes[object as usize];
        let body = match load.manner.bodies {
            true => bytes,
            false => self.store.largest_body_within(bytes, key.full().len() as u32, METADATA.len() as u32),
        };
        self.write(&key, body).map(|()| false)
    }

    /// Reads the object whole, if the store has it.
    fn hit(&self, key: &ObjectKey, demand: RequestDemand) -> Result<bool, shoal_store::Error> {
        let Some(stored) = self.store.open(key)? else { return Ok(false) };
        let mut offset = 0;
        while offset < stored.body.length() {
            let read = stored.body.read(offset, READ_BYTES)?.len() as u64;
            if read == 0 {
                break;
            }
            offset += read;
        }
        if demand == RequestDemand::Validate {
            self.store.update_metadata(key, RENEWED, &|_| true)?;
        }
        Ok(true)
    }

    /// Writes the object. An object larger than the store takes is passed on without storing, as a
    /// cache does.
    fn write(&self, key: &ObjectKey, mut body: u64) -> Result<(), shoal_store::Error> {
        let mut insert = match self.store.insert(key, METADATA, Some(body)) {
            Err(shoal_store::Error::Declined(InsertRefusal::TooLarge)) => return Ok(()),
            insert => insert?,
        };
        while body > 0 {
            let piece = body.min(READ_BYTES as u64);
            insert.append(&ZEROS[..piece as usize])?;
            body -= piece;
        }
        insert.commit(None)
    }
}

/// Calls `serve` for the object of every request, with the request's number. Counts the hits of the
/// measured part and their cost on the machine. `serve` returns `true` for a hit.
pub fn measured<E: Display>(
    (name, door): (&str, &Ufs1999),
    workload: &Workload,
    progress: &mut dyn Progress,
    mut serve: impl FnMut(usize, u32) -> Result<bool, E>,
) -> Result<RunResult, LabError> {
    progress.begin(name, workload.requests.len() as u64);
    let (mut hits, mut warm) = (0, door.report());
    for (index, request) in workload.requests.iter().enumerate() {
        if index == workload.warm_up {
            warm = door.report();
        }
        let hit = serve(index, request.object)
            .map_err(|error| LabError::Store { run: name.into(), reason: reason(&error) })?;
        hits += u64::from(hit && index >= workload.warm_up);
        progress.done(1);
    }
    Ok(outcome_of(name, workload.measured().len() as u64, hits, &(door.report() - &warm)))
}

/// Returns the reason why a run ended, with a remedy where the machine's disks are full. The disks
/// have the paper's size for any trace.
fn reason(error: &impl Display) -> String {
    let why = error.to_string();
    match why.contains("NoSpace") || why.contains("No space left") {
        true => format!(
            "{why}: the modelled machine has the paper's disks, 2 GB and twice 4 GB; `shoal trace filter --size-max` or `shoal trace sample` makes a \
             trace that has room on them"
        ),
        false => why,
    }
}

/// Largest read or write, in bytes.
pub const READ_BYTES: usize = 64 << 10;
/// Contents of all bodies.
pub static ZEROS: [u8; READ_BYTES] = [0; READ_BYTES];
/// Metadata kept beside an object, and the metadata after a validation.
const METADATA: &[u8; 16] = b"as it was stored";
const RENEWED: &[u8; 16] = b"validated anew!!";
