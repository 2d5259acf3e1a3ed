//! Replacement by a hand that passes over an array: each entry holds a few bits that the policy
//! reads and sets.
//!
//! The bits live in the entry, in the store's index, so that the order survives a restart and costs
//! no memory of its own. A hit writes at most one byte, and nothing when the byte needs no change.
//! The caller owns the hand; the policy is a pure function of the bits.

/// Policy that decides as the hand passes.
pub trait CyclicPolicy: Send + Sync {
    /// Returns the policy's name, as published.
    fn name(&self) -> &'static str;

    /// Returns the bits of a new object. `hand_is_near` says that the hand will arrive within half
    /// a round. This happens when the object takes a slot that was freed out of turn.
    fn initial_bits(&self, hand_is_near: bool) -> u8;

    /// Returns the bits after a hit.
    fn hit(&self, bits: u8) -> u8;

    /// Decides about an object with these bits as the hand passes. Repeated calls without a hit in
    /// between must lead any bits to [`HandDecision::Evict`] within [`CyclicPolicy::rounds_max`]
    /// passes.
    fn on_pass(&self, bits: u8) -> HandDecision;

    /// Returns the most passes that an object without requests survives, plus one.
    fn rounds_max(&self) -> u32;
}

/// Decision of the hand about an object that it passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandDecision {
    /// Keep the object, with these bits.
    Keep(u8),
    /// Evict the object.
    Evict,
}
