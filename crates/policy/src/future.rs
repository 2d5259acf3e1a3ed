//! Future-looking replacement: the place and time of each object, computed from the whole trace.
//!
//! Carlos Maltzahn, Kathy J. Richardson, Dirk Grunwald: "Reducing the Disk I/O of Web Proxy Server
//! Caches", USENIX 1999, section 3.4. A near-optimal yardstick for memory-mapped stores of small
//! objects, for the lab. Three steps:
//!
//! 1. Objects that are referenced once are discarded;
//! 2. the others are packed (see [`Packer`]) in descending order of their popularity, while they
//!    fit into the file;
//! 3. each object that did not fit shares the place of another object of its segment class. This is
//!    the most popular object with a time, from first to last reference, that does not overlap with
//!    its own. An object without such a place is not cached.
//!
//! So popular objects share pages, which stay in memory, and no replacement costs a hit.
//!
//! **Readings of the points that the text leaves open.** Popularity is the number of references in
//! the trace; among equals the one referenced first comes first. An object is as large as its
//! largest reference, so that its segment holds all of them; an object larger than a page is not
//! for this file. In step 2 an object that does not fit does not end the packing: a smaller one may
//! still fit the rest of a page. In step 3 several objects may share a place one after the other. A
//! new one must overlap with none of them, or it would cost the misses that the step is to avoid.
//! The place is as popular as the object that step 2 put there. A new object may come before the
//! object that has the place; then that one replaces it.
//!
//! **Costs.** O(n log n) for n requests and objects. Each object of step 3 also costs a search
//! among the free times of all places ([`gaps`]), about O(√places) and mostly O(log places).

mod gaps;
#[cfg(test)]
mod tests;

use crate::{Packer, SegmentClass, SegmentLayout};
use gaps::{Gap, Gaps, NOBODY};
use std::cmp::Reverse;

/// Place of each object of a trace, and the requests for which it lies there. See the file's head.
#[derive(Clone, Debug, Default)]
pub struct PlacementTable {
    places: Vec<Option<FuturePlace>>,
}

/// Place of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuturePlace {
    /// Offset in bytes from the file's start.
    pub offset: u64,
    /// Class of its segment.
    pub class: SegmentClass,
    /// Number of the request that brings it in, the first for it, counted from 0.
    pub first: u32,
    /// Number of the last request for it.
    pub last: u32,
    /// Object that lies there until `first`, and is replaced then.
    pub replaces: Option<u32>,
}

/// Outcome of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutureOutcome {
    /// The object is there and can be read.
    Hit(FuturePlace),
    /// The object is admitted and must be written.
    Admitted(FuturePlace),
    /// The object is not there, and not to be cached.
    Declined,
}

impl PlacementTable {
    /// Makes the table for these requests, pairs of an object's number and bytes, and a file of
    /// `file_bytes` bytes.
    ///
    /// Objects should be numbered from 0 without many gaps: memory is in proportion to the largest
    /// number. Requests after the first 2^32 − 2 are left out.
    pub fn of(requests: impl IntoIterator<Item = (u32, u64)>, file_bytes: u64) -> Self {
        let uses = Uses::of(requests);
        let mut table = Self { places: vec![None; uses.objects.len()] };
        let mut packer = Packer::default();
        let mut shared: [SharedPlaces; SegmentClass::ALL.len()] = Default::default();
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

    /// Returns the place of an object; `None` when it is never cached.
    pub fn place(&self, object: u32) -> Option<FuturePlace> {
        *self.places.get(object as usize)?
    }

    /// Returns the outcome of a request, numbered from 0 as in the trace, for its object.
    pub fn look_up(&self, request: u32, object: u32) -> FutureOutcome {
        match self.place(object) {
            Some(place) if request == place.first => FutureOutcome::Admitted(place),
            Some(place) if (place.first..=place.last).contains(&request) => FutureOutcome::Hit(place),
            _ => FutureOutcome::Declined,
        }
    }
}

/// Places of one class, the most popular first, with the times when each is free.
#[derive(Debug, Default)]
struct SharedPlaces {
    offsets: Vec<u64>,
    gaps: Gaps,
}

impl SharedPlaces {
    /// Adds a place that step 2 gave to an object.
    fn add(&mut self, object: u32, place: FuturePlace, requests: u32) {
        let slot = self.offsets.len() as u32;
        self.offsets.push(place.offset);
        let whole = Gap { from: 0, to: requests, slot, before: NOBODY, after: NOBODY };
        self.divide(whole, object, place.first, place.last);
    }

    /// Takes the most popular place that is free from the first to the last reference. Returns it
    /// with its former gap.
    fn take(&mut self, object: u32, first: u32, last: u32) -> Option<(u64, Gap)> {
        let gap = self.gaps.least_around(first, last)?;
        self.gaps.remove(gap);
        self.divide(gap, object, first, last);
        Some((self.offsets[gap.slot as usize], gap))
    }

    /// Inserts the rest of a gap around an object.
    fn divide(&mut self, gap: Gap, object: u32, first: u32, last: u32) {
        let parts = [Gap { to: first, after: object, ..gap }, Gap { from: last + 1, before: object, ..gap }];
        // An object that is requested twice needs two requests.
        for part in parts.into_iter().filter(|part| part.to.saturating_sub(part.from) >= 2) {
            self.gaps.insert(part);
        }
    }
}

/// References to the objects of a trace.
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

    /// Returns the objects of at most a page that are requested more than once, the most popular
    /// first.
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
