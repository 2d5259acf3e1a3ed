//! Future-looking replacement on the modelled machine (3.4): the mapped file driven by a placement
//! table that knows the whole trace.
//!
//! No store can do this. The lab therefore writes and reads the file itself, through the same door
//! and by whole segments, as the store does.

use super::outcome::RunResult;
use crate::{LabError, Progress, Workload};
use shoal_lab::machine_runs::measured;
use shoal_machine1999::Ufs1999;
use shoal_policy::{FutureOutcome, FuturePlace, PAGE_BYTES, PlacementTable};
use shoal_store::fs::{FileSystem, Mapping};
use std::io;

/// Drives a file of `file_bytes` bytes on a machine. `sizes` are the objects', in bytes.
pub fn drive(
    (name, door): (&str, &Ufs1999),
    (workload, sizes): (&Workload, &[u64]),
    file_bytes: u64,
    progress: &mut dyn Progress,
) -> Result<RunResult, LabError> {
    let requests = workload.requests.iter().map(|request| (request.object, sizes[request.object as usize]));
    let table = PlacementTable::of(requests, file_bytes);
    let failed = |error: io::Error| LabError::Store { run: name.into(), reason: error.to_string() };
    let mapping = door.map("segments", file_bytes).map_err(failed)?;
    measured((name, door), workload, progress, |number, object| match table.look_up(number as u32, object) {
        FutureOutcome::Hit(place) => read(&*mapping, place).map(|()| true),
        FutureOutcome::Admitted(place) => write(&*mapping, place).map(|()| false),
        FutureOutcome::Declined => Ok(false),
    })
}

fn read(mapping: &dyn Mapping, place: FuturePlace) -> io::Result<()> {
    mapping.read(&mut [0; PAGE_BYTES as usize][..place.class.bytes() as usize], place.offset)
}

fn write(mapping: &dyn Mapping, place: FuturePlace) -> io::Result<()> {
    mapping.write(&[0; PAGE_BYTES as usize][..place.class.bytes() as usize], place.offset)
}
