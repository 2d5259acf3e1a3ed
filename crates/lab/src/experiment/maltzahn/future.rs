//! Future-looking replacement (3.4): a placement table made from the whole trace.
//!
//! The paper's three steps. Objects asked for once are left out; the others are packed by falling popularity until the file is full; each that did not
//! fit shares the place of the most popular object of its size whose references lie wholly before or after its own. What remains is not
//! cached. It needs the future, so it is a bound for the lab.
//!
//! The third step looks at no more than [`LOOKED_AT`] places an object, so that the table costs O(objects) and not its square.

use super::mapped::{rank_of, segment_bytes};
use super::outcome::Outcome;
use super::packing::Packer;
use super::rig::outcome_of;
use crate::experiment::{Error, Progress, Workload};
use shoal_store::door::ufs1999::Ufs1999;
use shoal_store::door::{FileSystem, Mapping};

/// Where each object lies whenever it is cached.
pub struct PlacementTable {
    offsets: Vec<Option<u64>>,
}

/// A place of one size and who has it when: first and last reference, by their positions in the trace.
struct Place {
    offset: u64,
    spans: Vec<(u32, u32)>,
}

impl PlacementTable {
    /// The table for a file of so many bytes.
    pub fn new(workload: &Workload, sizes: &[u64], file_bytes: u64) -> Self {
        let uses = Uses::of(workload);
        let mut offsets = vec![None; workload.objects];
        let mut places: [Vec<Place>; 5] = Default::default();
        let mut packer = Packer::default();
        let mut is_full = false;
        for object in uses.by_popularity() {
            let rank = rank_of(sizes[object]);
            let span = uses.spans[object];
            let packed = if is_full { None } else { packer.place_within(rank, file_bytes) };
            is_full = packed.is_none();
            offsets[object] = match packed {
                Some(offset) => {
                    places[rank].push(Place { offset, spans: vec![span] });
                    Some(offset)
                }
                None => shared(&mut places[rank], span),
            };
        }
        Self { offsets }
    }

    /// Drives the file of so many bytes on a machine: what has a place is written when it is first asked for and read from then on.
    pub fn drive(
        &self,
        (name, door): (&str, &Ufs1999),
        (workload, sizes): (&Workload, &[u64]),
        file_bytes: u64,
        progress: &mut dyn Progress,
    ) -> Result<Outcome, Error> {
        let failed = |error: std::io::Error| Error::Store { run: name.into(), reason: error.to_string() };
        progress.begin(name, workload.requests.len() as u64);
        let mapping = door.map("small-objects", file_bytes).map_err(failed)?;
        let mut seen = vec![false; workload.objects];
        let (mut hits, mut warm) = (0, door.report());
        for (index, request) in workload.requests.iter().enumerate() {
            if index == workload.warm_up {
                warm = door.report();
            }
            progress.done(1);
            let object = request.object as usize;
            let Some(offset) = self.offsets[object] else { continue };
            let is_hit = std::mem::replace(&mut seen[object], true);
            touch(&*mapping, offset, sizes[object], is_hit).map_err(failed)?;
            hits += u64::from(is_hit && index >= workload.warm_up);
        }
        Ok(outcome_of(name, workload.measured().len() as u64, hits, &(door.report() - &warm)))
    }
}

fn touch(mapping: &dyn Mapping, offset: u64, bytes: u64, is_hit: bool) -> std::io::Result<()> {
    let mut buffer = [0; 8192];
    match is_hit {
        true => mapping.read(&mut buffer[..bytes as usize], offset),
        false => mapping.write(&buffer[..segment_bytes(rank_of(bytes)) as usize], offset),
    }
}

/// The place of the most popular object whose references, and those of all who share it, leave the span free.
fn shared(places: &mut [Place], (first, last): (u32, u32)) -> Option<u64> {
    let is_free = |place: &&mut Place| place.spans.iter().all(|(from, to)| last < *from || *to < first);
    let place = places.iter_mut().take(LOOKED_AT).find(is_free)?;
    place.spans.push((first, last));
    Some(place.offset)
}

/// How often and from when to when each object is asked for.
struct Uses {
    counts: Vec<u32>,
    spans: Vec<(u32, u32)>,
}

impl Uses {
    fn of(workload: &Workload) -> Self {
        let mut uses =
            Self { counts: vec![0; workload.objects], spans: vec![(u32::MAX, 0); workload.objects] };
        for (index, request) in workload.requests.iter().enumerate() {
            let object = request.object as usize;
            uses.counts[object] += 1;
            let (first, last) = &mut uses.spans[object];
            (*first, *last) = ((*first).min(index as u32), index as u32);
        }
        uses
    }

    /// Objects asked for more than once, the most popular first, equals in their order of arrival.
    fn by_popularity(&self) -> Vec<usize> {
        let mut objects: Vec<usize> =
            (0..self.counts.len()).filter(|object| self.counts[*object] > 1).collect();
        objects.sort_by_key(|object| (std::cmp::Reverse(self.counts[*object]), self.spans[*object].0));
        objects
    }
}

/// Places that an object which did not fit looks at.
const LOOKED_AT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::workload::tests::workload;

    #[test]
    fn the_three_steps_are_the_papers() {
        // a is popular, b and c twice and apart, d twice and across, e once
        let order = ["b", "b", "a", "d", "a", "e", "a", "c", "d", "c", "a"];
        let workload = workload(order.map(|url| (url, 0, 8000)), 0);
        let names = ["b", "a", "d", "e", "c"];
        let table = PlacementTable::new(&workload, &workload.sizes(), 2 * 8192);
        let found: Vec<(&str, Option<u64>)> = names.into_iter().zip(table.offsets).collect();
        // c comes after b's last reference; d overlaps with both a and c's place
        assert_eq!(found, [("b", Some(8192)), ("a", Some(0)), ("d", Some(8192)), ("e", None), ("c", None)]);
    }
}
