//! Places of small objects in the memory-mapped file of the paper.
//!
//! Objects of at most 8 KB, each padded to one of five segment sizes, stand in the order of their
//! first misses (2.4.2). Or they are packed so that none crosses a page (2.4.4).

use super::paper;
use crate::figure::PlacedObject;
use crate::workload::{Workload, share};
use shoal_policy::{Appender, Packer, SegmentClass};

/// Place of every object of at most 8 KB.
pub struct Placement {
    /// Places by object number; `None` for objects that are kept as files or never requested.
    places: Vec<Option<PlacedObject>>,
    /// Length of the file, in bytes.
    file_bytes: u64,
    order: Vec<u32>,
}

impl Placement {
    /// Places objects one after the other, as squidm and squidml do.
    pub fn contiguous(workload: &Workload) -> Self {
        Self::by(workload, Appender::default())
    }

    /// Places no object across a page, as squidmla does.
    pub fn aligned(workload: &Workload) -> Self {
        Self::by(workload, Packer::default())
    }

    fn by(workload: &Workload, mut placement: impl shoal_policy::SegmentLayout) -> Self {
        let sizes = workload.sizes();
        let mut places = vec![None; sizes.len()];
        let mut order = Vec::new();
        let mut file_bytes: u64 = 0;
        for object in workload.first_misses() {
            let Some(class) = SegmentClass::for_bytes(sizes[object as usize]) else { continue };
            let number = order.len() as u64 + 1;
            let placed = PlacedObject { number, offset: placement.place(class), bytes: class.bytes() };
            file_bytes = file_bytes.max(placed.offset + placed.bytes);
            places[object as usize] = Some(placed);
            order.push(object);
        }
        Self { places, file_bytes: file_bytes.next_multiple_of(paper::PAGE_BYTES), order }
    }

    /// Returns the length of the file, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the shares of objects, and of measured hits, that lie in two pages.
    pub fn crossing(&self, workload: &Workload) -> (f64, f64) {
        let crosses = |placed: &PlacedObject| placed.crosses(paper::PAGE_BYTES);
        let objects = self.places.iter().flatten().filter(|placed| crosses(placed)).count() as u64;
        let (mut hits, mut crossed) = (0, 0);
        for placed in self.hits(workload) {
            hits += 1;
            crossed += u64::from(crosses(&placed));
        }
        (share(objects, self.order.len() as u64), share(crossed, hits))
    }

    /// Returns the measured hits, each as the object's place.
    pub fn hits<'a>(&'a self, workload: &'a Workload) -> impl Iterator<Item = PlacedObject> + 'a {
        let mut seen = vec![false; self.places.len()];
        let requests = workload.requests.iter().enumerate();
        requests.filter_map(move |(index, request)| {
            let hit = std::mem::replace(&mut seen[request.object as usize], true);
            self.places[request.object as usize].filter(|_| hit && index >= workload.warm_up)
        })
    }

    /// Returns the hits in each hundredth of the file, summed from its start, as shares.
    pub fn hit_distribution(&self, workload: &Workload) -> Vec<f64> {
        let mut counts = [0u64; 100];
        for placed in self.hits(workload) {
            let part = placed.offset as u128 * 100 / u128::from(self.file_bytes.max(1));
            counts[part.min(99) as usize] += 1;
        }
        let hits = counts.iter().sum();
        let summed = counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(share(*sum, hits))
        });
        summed.collect()
    }

    /// Returns the mean distance of objects from their place by order of arrival, in pages.
    pub fn disorder_pages(&self) -> f64 {
        let mut end = 0;
        let mut pages = 0.0;
        for object in &self.order {
            if let Some(placed) = self.places[*object as usize] {
                pages += placed.offset.abs_diff(end) as f64 / paper::PAGE_BYTES as f64;
                end = placed.offset + placed.bytes;
            }
        }
        pages / self.order.len().max(1) as f64
    }

    /// Returns the first objects of the first `pages` pages, at most 400.
    pub fn first_pages(&self, pages: u64) -> Vec<PlacedObject> {
        let placed = self.order.iter().filter_map(|object| self.places[*object as usize]);
        placed
            .take_while(|placed| placed.number < 400)
            .filter(|placed| placed.offset < pages * paper::PAGE_BYTES)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_lie_as_the_architectures_place_them() {
        let sizes = [100, 8192, 9000, 3000, 8192, 600];
        let urls: Vec<String> = (0..sizes.len()).map(|index| format!("http://a/{index}")).collect();
        let again = urls.iter().zip(sizes).chain(urls.iter().zip(sizes));
        let workload = Workload::of_requests(again.map(|(url, size)| (url.as_str(), 0, size)), sizes.len());
        let offsets = |placement: &Placement| -> Vec<Option<u64>> {
            placement.places.iter().map(|placed| placed.map(|placed| placed.offset)).collect()
        };
        let contiguous = Placement::contiguous(&workload);
        assert_eq!(offsets(&contiguous), [Some(0), Some(512), None, Some(8704), Some(12_800), Some(20_992)]);
        assert_eq!(contiguous.crossing(&workload), (0.4, 0.4));
        let aligned = Placement::aligned(&workload);
        assert_eq!(offsets(&aligned), [Some(0), Some(8192), None, Some(4096), Some(16_384), Some(1024)]);
        assert_eq!(aligned.crossing(&workload), (0.0, 0.0));
        let hits = aligned.hit_distribution(&workload);
        assert_eq!((hits[32], hits[99]), (0.6, 1.0));
    }
}
