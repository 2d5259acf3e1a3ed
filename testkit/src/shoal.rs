//! The binary under test: built when needed, started with its own folder and addresses, ended on
//! drop.

mod binary;
mod process;
mod room;
mod setup;

pub use binary::binary;
pub use process::{Shoal, resident_bytes};
pub use setup::Setup;
