//! Drives a store over a workload on the modelled machine, as the paper drove its generators
//! (section 4).
//!
//! Requests are processed one after the other: what is stored is read whole, what is not is
//! written. All of it is the store's own code; what is known of objects stands in memory, as in
//! Squid.

use super::outcome::Outcome;
use super::rig::outcome_of;
use super::staleness::Demand;
use crate::experiment::{Error, Progress, Workload};
use shoal_core::ObjectKey;
use shoal_store::fs::ufs1999::Ufs1999;
use shoal_store::{Declined, Store};
use shoal_trace::Trace;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// A store and the machine below it.
pub struct Cache {
    /// The machine.
    pub door: Arc<Ufs1999>,
    /// The store.
    pub store: Arc<dyn Store>,
}

/// What is asked of a cache.
pub struct Load<'a> {
    /// What the run is called.
    pub name: &'a str,
    /// The requests' names.
    pub trace: &'a Trace,
    /// The requests.
    pub workload: &'a Workload,
    /// Each object's size, in bytes.
    pub sizes: &'a [u64],
    /// What each request comes to; without, nothing is ever stale.
    pub demands: Option<&'a [Demand]>,
    /// How the requests are asked.
    pub manner: Manner,
}

/// How requests are asked, where it is not as the paper did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Time that passes before each request; the paper's generators asked without a pause.
    pub pause: Duration,
    /// Whether sizes are those of bodies, and the store's records come on top of them. Without, an
    /// object with all that the store adds is as large as the trace says: the paper's files had no
    /// records.
    pub bodies: bool,
}

impl Cache {
    /// Drives the cache and counts the measured part.
    pub fn drive(&self, load: &Load<'_>, progress: &mut dyn Progress) -> Result<Outcome, Error> {
        measured((load.name, &self.door), load.workload, progress, |index, object| {
            self.door.advance(load.manner.pause);
            let demand = load.demands.map_or(Demand::Get, |demands| demands[index]);
            self.serve(load, object, demand)
        })
    }

    fn serve(&self, load: &Load<'_>, object: u32, demand: Demand) -> Result<bool, shoal_store::Error> {
        let key = ObjectKey::new(load.trace.objects().name(object).as_bytes());
        let may_hit = demand != Demand::Rewrite && self.store.may_contain(&key);
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

    /// Reads the object whole, if it is there.
    fn hit(&self, key: &ObjectKey, demand: Demand) -> Result<bool, shoal_store::Error> {
        let Some(stored) = self.store.open(key)? else { return Ok(false) };
        let mut offset = 0;
        while offset < stored.body.length() {
            let read = stored.body.read(offset, READ_BYTES)?.len() as u64;
            if read == 0 {
                break;
            }
            offset += read;
        }
        if demand == Demand::Validate {
            self.store.update_metadata(key, RENEWED, &|_| true)?;
        }
        Ok(true)
    }

    /// Writes the object. One that is larger than the store takes is passed on without it, as a
    /// cache does.
    fn write(&self, key: &ObjectKey, mut body: u64) -> Result<(), shoal_store::Error> {
        let mut insert = match self.store.insert(key, METADATA, Some(body)) {
            Err(shoal_store::Error::Declined(Declined::TooLarge)) => return Ok(()),
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

/// Asks `serve` for the object of every request, with the request's number, and counts what the
/// measured part hits and what it costs the machine. `serve` says whether it was a hit.
pub fn measured<E: Display>(
    (name, door): (&str, &Ufs1999),
    workload: &Workload,
    progress: &mut dyn Progress,
    mut serve: impl FnMut(usize, u32) -> Result<bool, E>,
) -> Result<Outcome, Error> {
    progress.begin(name, workload.requests.len() as u64);
    let (mut hits, mut warm) = (0, door.report());
    for (index, request) in workload.requests.iter().enumerate() {
        if index == workload.warm_up {
            warm = door.report();
        }
        let hit = serve(index, request.object)
            .map_err(|error| Error::Store { run: name.into(), reason: reason(&error) })?;
        hits += u64::from(hit && index >= workload.warm_up);
        progress.done(1);
    }
    Ok(outcome_of(name, workload.measured().len() as u64, hits, &(door.report() - &warm)))
}

/// Why a run ended, and what would help where the disks of the machine are full: they have the size
/// of the paper's whatever the trace.
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

/// What is read or written at once, at most, in bytes.
pub const READ_BYTES: usize = 64 << 10;
/// What bodies consist of.
pub static ZEROS: [u8; READ_BYTES] = [0; READ_BYTES];
/// What is kept beside an object, and what a validation makes of it.
const METADATA: &[u8; 16] = b"as it was stored";
const RENEWED: &[u8; 16] = b"validated anew!!";
