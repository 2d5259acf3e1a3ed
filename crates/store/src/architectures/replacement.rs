//! Which object goes when room is needed: a hand over the index, or a policy kept in RAM.
//!
//! The hand's policies (`clock`, `fifo`) have their bits in the index's entries and the hand in its
//! header: what they know survives a restart. The others are an [`EvictionOrder`] in RAM, beside
//! the index: what they know is lost when the process ends. After opening the order is filled in
//! the background, in the order of the numbers, as if the objects had arrived so and nobody had
//! asked for them since. Until an object is known it does not go, unless all that are known are
//! gone or in use: then the hand chooses.
//!
//! An order costs eight bytes of RAM an object and what its policy takes, and a lock held for each
//! hit.

use super::files::Core;
use super::segments::SegmentLocation;
use crate::Error;
use crate::index::{Index, IndexedObject, NumberState};
use parking_lot::Mutex;
use shoal_core::Key;
use shoal_policy::{Clock, CyclicPolicy, FifoHand, Handle, Replacement, ReplacementPolicy};

/// The replacement policies of stores of files, by name. The first is what stores have that do not
/// say.
pub const REPLACEMENTS: &[&str] =
    &["clock", "fifo", "lru", "slru", "lfu_da", "gdsf", "s3_fifo", "sieve", "w_tinylfu"];

/// The policy's name as the table has it.
pub(super) fn known(name: &str) -> Result<&'static str, Error> {
    REPLACEMENTS.iter().find(|known| **known == name).copied().ok_or_else(|| {
        let known = REPLACEMENTS.join(", ");
        Error::Unusable(format!("no replacement policy is called {name:?}; known are: {known}"))
    })
}

/// A policy chosen by name: the hand's, and an order where the policy is one of RAM.
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

/// The objects in the order in which a policy gives them up.
///
/// What it says is compared with the index whenever it matters, under its own lock, which is taken
/// before the index's.
pub(super) struct EvictionOrder(Mutex<Known>);

struct Known {
    policy: Box<dyn Replacement>,
    /// By number: the policy's handle, plus 1; 0 for none.
    handles: Vec<u32>,
    /// By handle: the number.
    numbers: Vec<u32>,
    /// Numbers below this have been looked at since opening.
    filled: u32,
}

impl EvictionOrder {
    fn new(policy: Box<dyn Replacement>) -> Self {
        Self(Mutex::new(Known { policy, handles: Vec::new(), numbers: Vec::new(), filled: 0 }))
    }

    /// The object of a number was asked for.
    pub(super) fn hit(&self, number: u32) {
        let mut known = self.0.lock();
        if let Some(handle) = known.handle(number) {
            known.policy.hit(handle);
        }
    }

    /// A number has come to stand for an object.
    pub(super) fn admit(&self, index: &Index, number: u32) {
        self.0.lock().admit(index, number);
    }

    /// A number does not stand for its object any more.
    pub(super) fn forget(&self, number: u32) {
        let mut known = self.0.lock();
        if let Some(handle) = known.take_handle(number) {
            known.policy.remove(handle);
        }
    }

    /// Gives up the object that is worth least and not in use: its number is busy now. `None` when
    /// none is known.
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

    /// Objects that are known.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().policy.len()
    }

    /// Takes in what the index has under the next numbers. False when all have been looked at.
    fn fill(&self, index: &Index) -> bool {
        let mut known = self.0.lock();
        let first = known.filled;
        // Fresh numbers come in as they are used.
        let end = first.saturating_add(FILLED_AT_ONCE).min(index.round() as u32);
        (first..end).for_each(|number| known.admit(index, number));
        known.filled = end.max(first);
        first < end
    }
}

impl Known {
    fn handle(&self, number: u32) -> Option<Handle> {
        self.handles.get(number as usize)?.checked_sub(1).map(Handle::from_number)
    }

    fn take_handle(&mut self, number: u32) -> Option<Handle> {
        let handle = std::mem::take(self.handles.get_mut(number as usize)?);
        handle.checked_sub(1).map(Handle::from_number)
    }

    fn admit(&mut self, index: &Index, number: u32) {
        let NumberState::Stored(found, key) = index.examine(number) else { return };
        // An object in a segment takes no space of its own, and goes when its segment is wanted.
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
    /// The object that goes next, where a policy in RAM has one: its number is busy now.
    pub(super) fn worth_least(&self) -> Option<u32> {
        self.order.as_ref()?.evict(&self.index, |number| self.pins.in_use(number))
    }

    /// Takes objects into the order after opening, some at a time. How many numbers were looked at.
    pub(super) fn fill_order(&self) -> usize {
        match &self.order {
            Some(order) if order.fill(&self.index) => FILLED_AT_ONCE as usize / NUMBERS_PER_FILE,
            _ => 0,
        }
    }

    /// A number has come to stand for an object; those of older ones do not any more.
    pub(super) fn note_stored(&self, number: u32, older: &[u32]) {
        if let Some(order) = &self.order {
            older.iter().for_each(|number| order.forget(*number));
            order.admit(&self.index, number);
        }
    }

    /// A number does not stand for its object any more.
    pub(super) fn note_gone(&self, number: u32) {
        if let Some(order) = &self.order {
            order.forget(number);
        }
    }
}

/// The object of a number, if it is that of the key.
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

/// Victims in use that are passed over before the hand chooses.
const VICTIMS_MAX: usize = 64;
/// Numbers that are taken in at once.
const FILLED_AT_ONCE: u32 = 1024;
/// Numbers that take as long as a file does.
const NUMBERS_PER_FILE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_that_is_offered_is_there_under_its_name() {
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
