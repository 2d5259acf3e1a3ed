//! Cylinder group: its free fragments and inodes, and the searches within it.

use crate::machine::FRAGMENTS;

/// Free maps of a group. Fragments and blocks are numbered within the group.
#[derive(Debug)]
pub(super) struct Group {
    /// A bit for each free fragment, a byte for each block.
    free: Vec<u8>,
    /// A bit for each block that is free as a whole.
    free_blocks: Vec<u64>,
    /// Runs of free fragments in blocks that are partly used, by length.
    runs: [u32; FRAGMENTS as usize],
    pub(super) blocks_free: u32,
    pub(super) fragments_free: u32,
    used_inodes: Vec<u64>,
    inodes: u32,
    pub(super) inodes_free: u32,
    pub(super) directories: u32,
    /// Position at which searches without a preference continue.
    block_rotor: u32,
    fragment_rotor: u32,
    inode_rotor: u32,
}

impl Group {
    /// Makes a group with all fragments free except those before the data.
    pub(super) fn new(fragments: u32, before_data: u32, inodes: u32) -> Self {
        let (blocks, reserved) = (fragments / FRAGMENTS, before_data.div_ceil(FRAGMENTS));
        let mut group = Self {
            free: vec![0; blocks as usize],
            free_blocks: vec![0; blocks.div_ceil(64) as usize],
            runs: [0; FRAGMENTS as usize],
            blocks_free: 0,
            fragments_free: 0,
            used_inodes: vec![0; inodes.div_ceil(64) as usize],
            inodes,
            inodes_free: inodes,
            directories: 0,
            block_rotor: 0,
            fragment_rotor: 0,
            inode_rotor: 0,
        };
        for block in reserved..blocks {
            group.set(block, ALL);
        }
        group
    }

    /// Takes a whole block: the preferred one, or the next free one. Without a preference the
    /// search continues where the last one ended.
    pub(super) fn take_block(&mut self, preferred: Option<u32>) -> Option<u32> {
        let start = preferred.unwrap_or(self.block_rotor);
        let block = self.free_block_from(start).or_else(|| self.free_block_from(0))?;
        debug_assert_eq!(self.free[block as usize], ALL, "block {block} is free as a whole");
        if preferred != Some(block) {
            self.block_rotor = block;
        }
        self.set(block, 0);
        Some(block * FRAGMENTS)
    }

    /// Takes adjacent fragments within one block, fewer than a block has. The shortest run that is
    /// long enough gives them ("best fit"), or else a free block that is broken up.
    pub(super) fn take_fragments(&mut self, count: u32, preferred: Option<u32>) -> Option<u32> {
        debug_assert!((1..FRAGMENTS).contains(&count), "{count} fragments are a part of a block");
        let Some(length) = (count..FRAGMENTS).find(|length| self.runs[*length as usize] > 0) else {
            let first = self.take_block(preferred)?;
            self.set(first / FRAGMENTS, mask(count, FRAGMENTS - count));
            return Some(first);
        };
        let start = preferred.unwrap_or(self.fragment_rotor) as usize % self.free.len();
        let blocks = (start..self.free.len()).chain(0..start);
        let found = blocks.map(|block| (block, self.free[block]));
        let (block, first) = found
            .filter(|(_, map)| *map != 0 && *map != ALL)
            .find_map(|(block, map)| run_of(map, length).map(|first| (block as u32, first)))?;
        self.fragment_rotor = block;
        self.set(block, self.free[block as usize] & !mask(first, count));
        Some(block * FRAGMENTS + first)
    }

    /// Takes the fragments behind a tail of `held` fragments, so that it has `wanted`. Returns
    /// `false` if they are in use.
    pub(super) fn extend(&mut self, first: u32, held: u32, wanted: u32) -> bool {
        debug_assert!(held <= wanted, "{held} fragments grow to {wanted}");
        let (block, start) = (first / FRAGMENTS, first % FRAGMENTS);
        if start + wanted > FRAGMENTS {
            return false;
        }
        let more = mask(start + held, wanted - held);
        let map = self.free[block as usize];
        let is_free = map & more == more;
        if is_free {
            self.set(block, map & !more);
        }
        is_free
    }

    /// Gives fragments of one block back.
    pub(super) fn release(&mut self, first: u32, count: u32) {
        let block = first / FRAGMENTS;
        let freed = mask(first % FRAGMENTS, count);
        debug_assert_eq!(self.free[block as usize] & freed, 0, "freed twice");
        self.set(block, self.free[block as usize] | freed);
    }

    /// Takes an inode: the preferred one, or the next free one from the end of the last search.
    pub(super) fn take_inode(&mut self, preferred: Option<u32>) -> Option<u32> {
        let is_free = |inode: u32| self.used_inodes[inode as usize / 64] >> (inode % 64) & 1 == 0;
        let inode = match preferred.filter(|inode| is_free(*inode)) {
            Some(inode) => inode,
            None => {
                (self.inode_rotor..self.inodes).chain(0..self.inode_rotor).find(|inode| is_free(*inode))?
            }
        };
        debug_assert!(inode < self.inodes, "inode {inode} of {}", self.inodes);
        self.inode_rotor = inode;
        self.used_inodes[inode as usize / 64] |= 1 << (inode % 64);
        self.inodes_free -= 1;
        Some(inode)
    }

    /// Gives an inode back.
    pub(super) fn release_inode(&mut self, inode: u32) {
        debug_assert_eq!(self.used_inodes[inode as usize / 64] >> (inode % 64) & 1, 1, "freed twice");
        self.used_inodes[inode as usize / 64] &= !(1 << (inode % 64));
        self.inodes_free += 1;
        self.inode_rotor = self.inode_rotor.min(inode);
    }

    fn free_block_from(&self, start: u32) -> Option<u32> {
        let first = start as usize / 64;
        let head = self.free_blocks.get(first)? & (u64::MAX << (start % 64));
        if head != 0 {
            return Some(first as u32 * 64 + head.trailing_zeros());
        }
        let rest = self.free_blocks.iter().enumerate().skip(first + 1);
        rest.filter(|(_, word)| **word != 0).map(|(at, word)| at as u32 * 64 + word.trailing_zeros()).next()
    }

    /// Sets a block's free map and keeps the sums.
    fn set(&mut self, block: u32, map: u8) {
        let before = std::mem::replace(&mut self.free[block as usize], map);
        for (map, is_gain) in [(before, false), (map, true)] {
            let change = |sum: &mut u32, by: u32| if is_gain { *sum += by } else { *sum -= by };
            if map == ALL {
                change(&mut self.blocks_free, 1);
                self.free_blocks[block as usize / 64] ^= 1 << (block % 64);
            } else {
                change(&mut self.fragments_free, map.count_ones());
                runs(map).for_each(|(_, length)| change(&mut self.runs[length as usize], 1));
            }
        }
    }
}

/// Returns the bits of fragments `first` to `first + count` of a block.
fn mask(first: u32, count: u32) -> u8 {
    debug_assert!(first + count <= FRAGMENTS, "{count} fragments from {first} on");
    (((1u32 << count) - 1) << first) as u8
}

/// Returns the runs of free fragments in a map, as first fragment and length.
fn runs(map: u8) -> impl Iterator<Item = (u32, u32)> {
    let mut rest = u32::from(map);
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let first = rest.trailing_zeros();
        let length = (rest >> first).trailing_ones();
        rest &= !(((1 << length) - 1) << first);
        Some((first, length))
    })
}

/// Returns the first fragment of a run of exactly this length.
fn run_of(map: u8, length: u32) -> Option<u32> {
    runs(map).find(|(_, found)| *found == length).map(|(first, _)| first)
}

/// Map of a block that is free as a whole.
const ALL: u8 = u8::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a group of four blocks, the first of which is not for data.
    fn group() -> Group {
        Group::new(4 * FRAGMENTS, FRAGMENTS, 64)
    }

    #[test]
    fn blocks_follow_the_preference() {
        let mut group = group();
        assert_eq!(group.take_block(Some(2)), Some(16));
        assert_eq!(group.take_block(Some(2)), Some(24), "the next one");
        assert_eq!(group.take_block(Some(2)), Some(8), "from the start again");
        assert_eq!(group.take_block(None), None);
        group.release(16, 8);
        assert_eq!((group.blocks_free, group.fragments_free), (1, 0));
    }

    #[test]
    fn fragments_fit_best() {
        let mut group = group();
        // Breaks up the first block, then fills it from its front.
        assert_eq!(group.take_fragments(3, None), Some(8));
        assert_eq!(group.take_fragments(2, None), Some(11));
        assert_eq!((group.blocks_free, group.fragments_free), (2, 3));
        assert_eq!(group.take_fragments(7, None), Some(16), "a run of 3 is too short");
        // Runs of 3 (13..16) and of 1 (23): one fragment goes into the shorter.
        assert_eq!(group.take_fragments(1, None), Some(23));
        assert_eq!(group.take_fragments(2, None), Some(13));
        group.release(8, 3);
        group.release(11, 2);
        group.release(13, 2);
        assert_eq!((group.blocks_free, group.fragments_free), (2, 0), "the block is whole again");
    }

    #[test]
    fn tails_extend_in_place_where_there_is_room() {
        let mut group = group();
        assert_eq!(group.take_fragments(3, None), Some(8));
        assert!(group.extend(8, 3, 5));
        assert_eq!(group.take_fragments(1, None), Some(13));
        assert!(!group.extend(8, 5, 6));
        assert!(!group.extend(13, 1, 4), "not beyond the block");
        assert!(group.extend(13, 1, 3));
        assert_eq!(group.fragments_free, 0);
    }

    #[test]
    fn inodes_are_taken_in_order() {
        let mut group = group();
        assert_eq!([None, None, Some(40), None].map(|wish| group.take_inode(wish)), [0, 1, 40, 41].map(Some));
        group.release_inode(1);
        assert_eq!((group.take_inode(Some(40)), group.inodes_free), (Some(1), 60));
    }

    #[test]
    fn the_sums_agree_with_the_maps() {
        let mut group = Group::new(64 * FRAGMENTS, 5 * FRAGMENTS, 64);
        let (mut held, mut state) = (Vec::new(), 7u64);
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let random = (state >> 33) as u32;
            if random % 5 < 2 && !held.is_empty() {
                let (first, count) = held.swap_remove(random as usize / 5 % held.len());
                group.release(first, count);
                continue;
            }
            let count = random / 8 % FRAGMENTS + 1;
            let taken = match count {
                FRAGMENTS => group.take_block(None),
                _ => group.take_fragments(count, None),
            };
            if let Some(first) = taken {
                assert!(first >= 5 * FRAGMENTS && first % FRAGMENTS + count <= FRAGMENTS);
                let apart = |(other, length): &(u32, u32)| first + count <= *other || other + length <= first;
                assert!(held.iter().all(apart), "given twice");
                held.push((first, count));
            }
        }
        let used: u32 = held.iter().map(|(_, count)| count).sum();
        assert_eq!(group.blocks_free * FRAGMENTS + group.fragments_free, 59 * FRAGMENTS - used);
        let counted: u32 = (0..FRAGMENTS).map(|length| length * group.runs[length as usize]).sum();
        assert_eq!(counted, group.fragments_free);
    }
}
