//! Futures put together where they will stand.

use std::pin::Pin;

/// What `make` gives, in a box. [`Box::pin`] has it put together on the stack, and then copies all
/// of it, with the room for what a future has not come to yet: some kilobytes.
#[inline(always)]
pub(crate) fn in_place<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}
