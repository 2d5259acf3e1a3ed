//! Replacement by a hand that passes over an array: each entry holds a few bits that the policy
//! reads and sets.
//!
//! The bits live where the entry lives, in the store's index, so that the order survives a restart
//! and costs no memory of its own; a hit writes at most one byte, and nothing once the byte says
//! enough. The caller owns the hand; the policy is a pure function of the bits.

/// A policy that decides as the hand passes.
pub trait CyclicPolicy: Send + Sync {
    /// The policy's name, as published.
    fn name(&self) -> &'static str;

    /// The bits of a new object. `hand_is_near` says that the hand will come by within half a
    /// round, which happens when the object takes a place that was given up out of turn.
    fn initial_bits(&self, hand_is_near: bool) -> u8;

    /// The bits after a hit.
    fn hit(&self, bits: u8) -> u8;

    /// What becomes of an object with these bits as the hand passes. Any bits, asked often enough
    /// without a hit in between, must come to [`HandDecision::Evict`] within
    /// [`CyclicPolicy::rounds_max`] passes.
    fn on_pass(&self, bits: u8) -> HandDecision;

    /// Most passes that an object which nobody asks for survives, plus one.
    fn rounds_max(&self) -> u32;
}

/// What the hand does with an object that it passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandDecision {
    /// Keep it, with these bits.
    Keep(u8),
    /// Give it up.
    Evict,
}
