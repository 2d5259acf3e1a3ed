//! Number and bytes of a log's objects up to a size.
//!
//! Neither RAM nor disk takes an object of any size. In many logs a few objects that are far too
//! large for either have most bytes. A mean or a sum over all objects then says nothing about the
//! stored ones.

use shoal_trace::Trace;

/// The objects of a log by size, each at its last one. 16 bytes an object.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BySize {
    /// Sizes in rising order.
    sizes: Vec<u64>,
    /// Bytes of all objects up to each, that one included.
    sums: Vec<u64>,
}

impl BySize {
    /// Sorts the objects of a log by size.
    pub fn of(trace: &Trace) -> Self {
        let mut sizes = vec![0; trace.objects().len()];
        trace.requests().iter().for_each(|request| sizes[request.object as usize] = request.bytes);
        sizes.sort_unstable();
        let mut sum = 0u64;
        let add = |bytes: &u64| {
            sum = sum.saturating_add(*bytes);
            sum
        };
        let sums = sizes.iter().map(add).collect();
        Self { sizes, sums }
    }

    /// Returns the number and bytes of the objects of at most `largest` bytes, and the size of the
    /// largest among them.
    pub fn up_to(&self, largest: u64) -> SizePrefix {
        let objects = self.sizes.partition_point(|bytes| *bytes <= largest);
        match objects.checked_sub(1) {
            None => SizePrefix::default(),
            Some(last) => {
                SizePrefix { objects: objects as u64, bytes: self.sums[last], largest: self.sizes[last] }
            }
        }
    }
}

/// The objects up to a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SizePrefix {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of the objects.
    pub bytes: u64,
    /// Bytes of the largest object.
    pub largest: u64,
}

impl SizePrefix {
    /// Returns the mean size, in bytes; 0 without objects.
    pub fn mean(&self) -> u64 {
        self.bytes / self.objects.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_trace::Record;

    #[test]
    fn objects_are_counted_up_to_a_size() {
        let mut trace = Trace::default();
        for (url, bytes) in [("a", 5), ("b", 7), ("a", 100), ("c", 7), ("d", u64::MAX), ("e", 0)] {
            trace.push_sized(&Record { url: url.into(), ..Record::default() }, bytes);
        }
        let by_size = BySize::of(&trace);
        assert_eq!(by_size.up_to(0), SizePrefix { objects: 1, bytes: 0, largest: 0 });
        assert_eq!(by_size.up_to(99), SizePrefix { objects: 3, bytes: 14, largest: 7 });
        assert_eq!((by_size.up_to(100).bytes, by_size.up_to(100).mean()), (114, 28));
        assert_eq!(by_size.up_to(u64::MAX).bytes, u64::MAX, "a sum that is too large stays there");
        assert_eq!(BySize::default().up_to(9).mean(), 0);
    }
}
