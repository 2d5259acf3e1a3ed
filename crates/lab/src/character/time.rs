//! Objects requested within slices of time: the working set (Denning 1968), and its new objects.

use shoal_trace::Trace;

/// Slices of a trace's span.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct WorkingSet {
    /// Length of a slice, in seconds.
    pub slice_seconds: f64,
    /// The slices in their order; none where the trace has no span.
    pub slices: Vec<Slice>,
}

/// One slice.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Slice {
    /// Seconds from the trace's beginning to the slice's beginning.
    pub at_seconds: f64,
    /// Requests.
    pub requests: u64,
    /// Distinct objects.
    pub objects: u64,
    /// Bytes of the distinct objects.
    pub bytes: u64,
    /// Objects never seen before.
    pub new_objects: u64,
    /// Distinct objects from the trace's beginning to this slice's end.
    pub objects_so_far: u64,
}

impl WorkingSet {
    /// Computes the working set of a trace, in about 60 slices.
    pub fn of(trace: &Trace) -> Self {
        let times = || trace.requests().iter().map(|request| request.time_ms);
        let (Some(first), Some(last)) = (times().min(), times().max()) else { return Self::default() };
        if last == first {
            return Self::default();
        }
        let slice_ms = (last - first) / SLICES + 1;
        let mut slices = vec![Slice::default(); ((last - first) / slice_ms + 1) as usize];
        let mut seen_in = vec![u16::MAX; trace.objects().len()];
        for request in trace.requests() {
            let at = (request.time_ms - first) / slice_ms;
            let slice = &mut slices[at as usize];
            slice.requests += 1;
            let before = std::mem::replace(&mut seen_in[request.object as usize], at as u16);
            slice.new_objects += u64::from(before == u16::MAX);
            if before != at as u16 {
                slice.objects += 1;
                slice.bytes += request.bytes;
            }
        }
        let mut so_far = 0;
        for (at, slice) in slices.iter_mut().enumerate() {
            slice.at_seconds = (at as u64 * slice_ms) as f64 / 1000.0;
            so_far += slice.new_objects;
            slice.objects_so_far = so_far;
        }
        Self { slice_seconds: slice_ms as f64 / 1000.0, slices }
    }
}

const SLICES: u64 = 60;
