//! One request, as far as replacement is concerned.

/// Someone asks for an object of some size.
///
/// Sixteen bytes: a trace of 20 million requests takes 320 MB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Which object: a number, or a hash of its URL. Equal numbers mean the same object.
    pub object: u64,
    /// The object's size, in bytes.
    pub bytes: u64,
}

/// How much a simulated cache holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// Objects of so many bytes together; an object larger than that is declined.
    Bytes(u64),
    /// So many objects of whatever size; policies that look at sizes see them all alike.
    Objects(u64),
}
