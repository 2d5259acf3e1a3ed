//! Layout of the Fast File System: positions on a disk, and the choice of places for new data.
//!
//! McKusick, Joy, Leffler and Fabry, "A Fast File System for UNIX" (ACM TOCS, August 1984).
//! Constants and the order of choices are those of 4.4BSD-Lite (`ffs_alloc.c`, `ffs_balloc.c`,
//! `ufs_lookup.c`). Blocks have 8 KB, fragments 1 KB, inodes 128 bytes. Rotational layout within a
//! cylinder is left out. With a drive that reads ahead, `rotdelay` was 0 and successive blocks were
//! placed one after the other, as here.
//!
//! The order of creations and removals alone determines the results of this part: the adjacency of
//! blocks, and the growth of fragmentation.

mod allocation;
mod contents;
mod directory;
mod group;
mod inode;
mod shape;
mod volume;

pub(super) use directory::{CHUNK_BYTES, NAME_BYTES_MAX};
pub(super) use inode::{DIRECT, Inode};
pub(super) use volume::{Effects, ROOT, Volume};
