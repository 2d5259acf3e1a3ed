//! The Fast File System's layout: where things stand on a disk, and where new ones go.
//!
//! McKusick, Joy, Leffler and Fabry, "A Fast File System for UNIX" (ACM TOCS, August 1984), with
//! the constants and the order of choices of 4.4BSD-Lite (`ffs_alloc.c`, `ffs_balloc.c`,
//! `ufs_lookup.c`). Blocks of 8 KB, fragments of 1 KB, inodes of 128 bytes. Rotational layout
//! within a cylinder is left out: with a drive that reads ahead, `rotdelay` was 0 and successive
//! blocks were placed one after the other, as here. What depends on nothing but the order of
//! creations and removals comes out of this part: which blocks are adjacent, and how fragmentation
//! grows.

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
