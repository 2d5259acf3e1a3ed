//! Caches in memory: names, inodes, metadata blocks, pages of files.

mod hash;
mod lru;
mod names;
mod pages;
mod sequences;

pub(super) use hash::{Mixed, mix_name};
pub(super) use lru::Lru;
pub(super) use names::{NameCache, Remembered};
pub(super) use pages::{PageKey, Pages};
