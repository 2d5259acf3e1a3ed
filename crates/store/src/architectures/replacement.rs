//! Choice of the victim when room is needed: by a hand over the index, or by a policy kept in RAM.
//!
//! The hand's policies (`clock`, `fifo`) have their bits in the index's entries and the hand in its
//! header. Their state thus survives a restart. The other policies are an [`EvictionOrder`] in RAM
//! beside the index; their state is lost when the process ends. After opening, a background thread
//! fills the order by ascending number, as if the objects had arrived so without a hit since. An
//! object that the order does not know is evicted only when all known objects are gone or in use:
//! the hand then chooses.
//!
//! An order costs eight bytes of RAM an object and the memory of its policy, and a lock held for
//! each hit.

use super::files::Core;
use super::segments::SegmentLocation;
use crate::Error;
use crate::index::{Index, IndexedObject, NumberState};
use parking_lot::Mutex;
use shoal_core::Key;
use shoal_policy::{Clock, CyclicPolicy, FifoHand, Handle, POLICIES, Replacement, ReplacementPolicy};

/// Names of the replacement policies of stores of files: all that need not be told the capacity.
pub const REPLACEMENTS: &[&str] = &offered();

/// Name of the default replacement policy.
pub const REPLACEMENT_DEFAULT: &str = "clock";

/// Number of names that the table has for stores.
const OFFERED: usize = {
    let (mut at, mut found) = (0, 0);
    while at < POLICIES.len() {
        found += !POLICIES[at].needs_capacity as usize;
        at += 1;
    }
    found
};

const fn offered() -> [&'static str; OFFERED] {
    let (mut names, mut at, mut found) = ([""; OFFERED], 0, 0);
    while at < POLICIES.len() {
        if !POLICIES[at].needs_capacity {
            names[found] = POLICIES[at].name;
            found += 1;
        }
        at += 1;
    }
    assert!(found == OFFERED, "each policy for stores has its name");
    names
}

/// Returns the policy's name as the table has it.
pub(super) fn known(name: &str) -> Result<&'static str, Error> {
    REPLACEMENTS.iter().find(|known| **known == name).copied().ok_or_else(|| {
        let known = REPLACEMENTS.join(", ");
        Error::Unusable(format!("no replacement policy is called {name:?}; known are: {known}"))
    })
}

/// Returns the policy of a name: the hand's policy, and an order where the named policy lives in
/// RAM.
pub(super) fn named(name: &str) -> Result<(&'static dyn CyclicPolicy, Option<EvictionOrder>), Error> {
    match known(name)? {
        "clock" => Ok((&Clock, None)),
        "fifo" => Ok((&FifoHand, None)),
        name => match ReplacementPolicy::<Key>::named(name) {
            Some(policy) => Ok((&Clock, Some(EvictionOrder::new((policy.construct)())))),
            None => Err(Error::Unusable(format!("the replacement policy {name} is missing"))),
        },
    }
}

/// Objects in the order in which a policy evicts them.
///
/// The order is compared with the index before each use, under its own lock. Lock order: this, then
/// the index's lock.
pub(super) struct EvictionOrder(Mutex<PolicyState>);

struct PolicyState {
    policy: Box<dyn Replacement>,
    /// The policy's handle by number, plus 1; 0 for none.
    handles: Vec<u32>,
    /// The number by handle.
    numbers: Vec<u32>,
    /// Bound of the numbers looked at since opening.
    filled: u32,
}

impl EvictionOrder {
    fn new(policy: Box<dyn Replacement>) -> Self {
        Self(Mutex::new(PolicyState { policy, handles: Vec::new(), numbers: Vec::new(), filled: 0 }))
    }

    /// Records a hit on the object of a number.
    pub(super) fn hit(&self, number: u32) {
        let mut known = self.0.lock();
        if let Some(handle) = known.handle(number) {
            known.policy.hit(handle);
        }
    }

    /// Records that a number has come to stand for an object.
    pub(super) fn admit(&self, index: &Index, number: u32) {
        self.0.lock().admit(index, number);
    }

    /// Records that a number no longer stands for its object.
    pub(super) fn forget(&self, number: u32) {
        let mut known = self.0.lock();
        if let Some(handle) = known.take_handle(number) {
            known.policy.remove(handle);
        }
    }

    /// Evicts the least valuable object that is not in use, and makes its number busy. Returns
    /// `None` when the order knows no such object.
    fn evict(&self, index: &Index, in_use: impl Fn(u32) -> bool) -> Option<u32> {
        let mut known = self.0.lock();
        for _ in 0..VICTIMS_MAX {
            let victim = known.policy.evict()?;
            let number = *known.numbers.get(victim.handle.number() as usize)?;
            known.take_handle(number);
            let Some(found) = stored(index, number, victim.key) else { continue };
            if in_use(number) {
                known.admit(index, number);
            } else if index.retire(number, found.generation) {
                return Some(number);
            }
        }
        None
    }

    /// Returns the number of known objects.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().policy.len()
    }

    /// Takes in the objects of the next numbers. Returns `false` when all numbers have been looked
    /// at.
    fn fill(&self, index: &Index) -> bool {
        let mut known = self.0.lock();
        let first = known.filled;
        // New numbers come in when they are used.
        let end = first.saturating_add(FILLED_AT_ONCE).min(index.round() as u32);
        (first..end).for_each(|number| known.admit(index, number));
        known.filled = end.max(first);
        first < end
    }
}

impl PolicyState {
    fn handle(&self, number: u32) -> Option<Handle> {
        self.handles.get(number as usize)?.checked_sub(1).map(Handle::from_number)
    }

    fn take_handle(&mut self, number: u32) -> Option<Handle> {
        let handle = std::mem::take(self.handles.get_mut(number as usize)?);
        handle.checked_sub(1).map(Handle::from_number)
    }

    fn admit(&mut self, index: &Index, number: u32) {
        let NumberState::Stored(found, key) = index.examine(number) else { return };
        // An object in a segment takes no blocks, and is evicted when its segment is wanted.
        if self.handle(number).is_some() || SegmentLocation::of_side(found.side).is_some() {
            return;
        }
        let weight = u64::from(found.blocks) * u64::from(index.geometry().block_bytes);
        let handle = self.policy.insert(key, weight).number();
        set(&mut self.numbers, handle, number);
        set(&mut self.handles, number, handle + 1);
    }
}

impl Core {
    /// Evicts the next victim of a policy in RAM, and makes its number busy. Returns `None` without
    /// such a policy.
    pub(super) fn worth_least(&self) -> Option<u32> {
        self.order.as_ref()?.evict(&self.index, |number| self.pins.in_use(number))
    }

    /// Takes some objects into the order after opening. Returns the work done, counted in files.
    pub(super) fn fill_order(&self) -> usize {
        match &self.order {
            Some(order) if order.fill(&self.index) => FILLED_AT_ONCE as usize / NUMBERS_PER_FILE,
            _ => 0,
        }
    }

    /// Records that a number has come to stand for an object, and that the numbers of older objects
    /// no longer do.
    pub(super) fn note_stored(&self, number: u32, older: &[u32]) {
        if let Some(order) = &self.order {
            older.iter().for_each(|number| order.forget(*number));
            order.admit(&self.index, number);
        }
    }

    /// Records that a number no longer stands for its object.
    pub(super) fn note_gone(&self, number: u32) {
        if let Some(order) = &self.order {
            order.forget(number);
        }
    }
}

/// Returns the object of a number, if the object has this key.
fn stored(index: &Index, number: u32, key: Key) -> Option<IndexedObject> {
    match index.examine(number) {
        NumberState::Stored(found, stored) if stored == key => Some(found),
        _ => None,
    }
}

fn set(values: &mut Vec<u32>, at: u32, value: u32) {
    let at = at as usize;
    if values.len() <= at {
        values.resize(at + 1, 0);
    }
    values[at] = value;
}

/// Limit of victims in use that are passed over before the hand chooses.
const VICTIMS_MAX: usize = 64;
/// Numbers taken in by one step.
const FILLED_AT_ONCE: u32 = 1024;
/// Numbers that take as long as one file.
const NUMBERS_PER_FILE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_policy_is_found_by_name() {
        for name in REPLACEMENTS {
            let (hand, order) = named(name).expect("it is offered");
            match order {
                None => assert_eq!(hand.name(), *name),
                Some(order) => assert_eq!(order.0.lock().policy.name(), *name),
            }
        }
        let refused = named("optimal").err().expect("nobody knows the future").to_string();
        assert!(refused.contains("optimal") && refused.contains("s3_fifo"), "{refused}");
    }
}
