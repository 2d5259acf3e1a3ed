//! Future-looking replacement: where each object lies and when, worked out from the whole trace.
//!
//! Carlos Maltzahn, Kathy J. Richardson, Dirk Grunwald: "Reducing the Disk I/O of Web Proxy Server
//! Caches", USENIX 1999, section 3.4. A near-optimal yardstick for memory-mapped stores of small
//! objects, for the lab. Three steps:
//!
//! 1. objects that are referenced once are discarded;
//! 2. the others are packed (see [`Packer`]) in descending order of their popularity, while they
//!    fit into the file;
//! 3. each that did not fit takes the place of the most popular object of its segment class such
//!    that its time, from its first to its last reference, does not overlap with that object's.
//!    What finds no such place is not cached.
//!
//! So popular objects share pages, which stay in memory, and no replacement costs a hit.
//!
//! **Readings of what the text leaves open.** Popularity is the number of references in the trace;
//! of equals the one referenced first comes first. An object is as large as its largest reference,
//! so that its segment holds all of them; above a page it is not for this file. In step 2 an object
//! that does not fit does not end the packing: a smaller one may still fit the rest of a page. In
//! step 3 several objects may share a place one after the other, and a new one must overlap with
//! none of them, or it would cost the misses that the step is to avoid; the place is as popular as
//! the object that step 2 put there. A new object may come before the one whose place it takes;
//! then that one replaces it.
//!
//! **Costs.** O(n log n) for n requests and objects, and for each object of step 3 a search among
//! the free times of all places ([`gaps`]), about O(√places) and mostly O(log places).

mod gaps;
#[cfg(test)]
mod tests;

use crate::{Packer, SegmentClass, SegmentLayout};
use gaps::{Gap, Gaps, NOBODY};
use std::cmp::Reverse;

/// For each object of a trace where it lies, and from which request to which. See the file's head.
#[derive(Clone, Debug, Default)]
pub struct PlacementTable {
    places: Vec<Option<FuturePlace>>,
}

/// The place of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuturePlace {
    /// Where it lies, in bytes from the file's start.
    pub offset: u64,
    /// Its segment's class.
    pub class: SegmentClass,
    /// Number of the request that brings it in, the first for it, counted from 0.
    pub first: u32,
    /// Number of the last request for it.
    pub last: u32,
    /// The object that lies there until `first`, and is replaced then.
    pub replaces: Option<u32>,
}

/// What a reference finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutureOutcome {
    /// It is there: to be read.
    Hit(FuturePlace),
    /// It comes in: to be written.
    Admitted(FuturePlace),
    /// It is not there, and not to be cached.
    Declined,
}

impl PlacementTable {
    /// The table for these requests, each the number of an object and bytes, and a file of so many
    /// bytes.
    ///
    /// Objects should be numbered from 0 without many gaps: memory is in proportion to the largest
    /// number. Requests after the first 2^32 − 2 are left out.
    pub fn of(requests: impl IntoIterator<Item = (u32, u64)>, file_bytes: u64) -> Self {
        let uses = Uses::of(requests);
        let mut table = Self { places: vec![None; uses.objects.len()] };
        let mut packer = Packer::default();
        let mut shared: [Shared; SegmentClass::ALL.len()] = Default::default();
        let mut left_over = Vec::new();
        for (object, class) in uses.by_popularity() {
            let Use { first, last, .. } = uses.objects[object as usize];
            match packer.place_within(class, file_bytes) {
                Some(offset) => {
                    let place = FuturePlace { offset, class, first, last, replaces: None };
                    table.places[object as usize] = Some(place);
                    shared[class.index()].add(object, place, uses.requests);
                }
                None => left_over.push((object, class)),
            }
        }
        for (object, class) in left_over {
            let Use { first, last, .. } = uses.objects[object as usize];
            let Some((offset, gap)) = shared[class.index()].take(object, first, last) else { continue };
            let replaces = (gap.before != NOBODY).then_some(gap.before);
            table.places[object as usize] = Some(FuturePlace { offset, class, first, last, replaces });
            if let Some(Some(after)) = table.places.get_mut(gap.after as usize) {
                after.replaces = Some(object);
            }
        }
        table
    }

    /// Where an object lies; `None` when it is never cached.
    pub fn place(&self, object: u32) -> Option<FuturePlace> {
        *self.places.get(object as usize)?
    }

    /// What a request, numbered from 0 as in the trace, finds for its object.
    pub fn look_up(&self, request: u32, object: u32) -> FutureOutcome {
        match self.place(object) {
            Some(place) if request == place.first => FutureOutcome::Admitted(place),
            Some(place) if (place.first..=place.last).contains(&request) => FutureOutcome::Hit(place),
            _ => FutureOutcome::Declined,
        }
    }
}

/// The places of one class, the most popular first, and when each is free.
#[derive(Debug, Default)]
struct Shared {
    offsets: Vec<u64>,
    gaps: Gaps,
}

impl Shared {
    /// A place that an object of step 2 has.
    fn add(&mut self, object: u32, place: FuturePlace, requests: u32) {
        let slot = self.offsets.len() as u32;
        self.offsets.push(place.offset);
        let whole = Gap { from: 0, to: requests, slot, before: NOBODY, after: NOBODY };
        self.divide(whole, object, place.first, place.last);
    }

    /// The most popular place that is free from the first to the last reference, and what was free
    /// around them.
    fn take(&mut self, object: u32, first: u32, last: u32) -> Option<(u64, Gap)> {
        let gap = self.gaps.least_around(first, last)?;
        self.gaps.remove(gap);
        self.divide(gap, object, first, last);
        Some((self.offsets[gap.slot as usize], gap))
    }

    /// What is left of a gap around an object.
    fn divide(&mut self, gap: Gap, object: u32, first: u32, last: u32) {
        let parts = [Gap { to: first, after: object, ..gap }, Gap { from: last + 1, before: object, ..gap }];
        // An object that is asked for twice needs two requests.
        for part in parts.into_iter().filter(|part| part.to.saturating_sub(part.from) >= 2) {
            self.gaps.insert(part);
        }
    }
}

/// What the trace says of its objects.
struct Uses {
    objects: Vec<Use>,
    requests: u32,
}

#[derive(Clone, Copy)]
struct Use {
    references: u32,
    first: u32,
    last: u32,
    bytes: u64,
}

impl Uses {
    fn of(requests: impl IntoIterator<Item = (u32, u64)>) -> Self {
        let mut uses = Self { objects: Vec::new(), requests: 0 };
        for (number, (object, bytes)) in (0..u32::MAX - 1).zip(requests) {
            uses.requests = number + 1;
            if uses.objects.len() <= object as usize {
                let never = Use { references: 0, first: number, last: number, bytes: 0 };
                uses.objects.resize(object as usize + 1, never);
            }
            let known = &mut uses.objects[object as usize];
            if known.references == 0 {
                known.first = number;
            }
            known.references += 1;
            known.last = number;
            known.bytes = known.bytes.max(bytes);
        }
        uses
    }

    /// The objects of at most a page that are asked for more than once, the most popular first.
    fn by_popularity(&self) -> Vec<(u32, SegmentClass)> {
        let again = (0..).zip(&self.objects).filter(|(_, of)| of.references > 1);
        let mut objects: Vec<(u32, SegmentClass)> =
            again.filter_map(|(object, of)| Some((object, SegmentClass::for_bytes(of.bytes)?))).collect();
        objects.sort_unstable_by_key(|(object, _)| {
            let of = self.objects[*object as usize];
            (Reverse(of.references), of.first)
        });
        objects
    }
}
