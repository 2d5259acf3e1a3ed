//! Futures built in place in their box.

use std::pin::Pin;

/// Boxes the result of `make`, built in place. [`Box::pin`] builds the future on the stack and then
/// copies all of it. The copy includes the room for later states of the future: some kilobytes.
#[inline(always)]
pub fn in_place<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}
