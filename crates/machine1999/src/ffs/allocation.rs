//! Blocks for files: 4.4BSD's `ffs_balloc`, `ffs_blkpref` and `ffs_realloccg`.
//!
//! A file's data begin in its inode's group, one block behind the other. After every
//! `blocks_per_group_and_file` blocks, and with each indirect block, the file continues in another
//! group with above-average free space. One large file thus does not fill the group of its
//! directory. The last block of a short file is only as many fragments as it needs.

use super::inode::{DIRECT, Extent, POINTERS, slots};
use super::volume::{Full, Volume};
use crate::machine::{FRAGMENT_BYTES, FRAGMENTS};

impl Volume {
    /// Gives a block of a file room for its first `bytes` bytes. Makes a fragmented last block
    /// before it whole first.
    pub(in super::super) fn grow(&mut self, inode: u32, block: u32, bytes: u32) -> Result<(), Full> {
        let last = self.inode(inode).blocks.len() as u32;
        if last > 0 && last - 1 < block && self.inode(inode).extent(last - 1).is_some() {
            self.grow_extent(inode, last - 1, FRAGMENTS)?;
        }
        let is_short = block < DIRECT && block + 1 >= last;
        let wanted = if is_short { bytes.div_ceil(FRAGMENT_BYTES) } else { FRAGMENTS };
        self.grow_extent(inode, block, wanted.clamp(1, FRAGMENTS))
    }

    /// Frees all space behind `length` bytes.
    pub(in super::super) fn truncate_blocks(&mut self, inode: u32, length: u64) {
        let bytes = u64::from(FRAGMENTS * FRAGMENT_BYTES);
        let kept = length.div_ceil(bytes) as usize;
        let file = self.inode_mut(inode);
        let mut gone = file.blocks.split_off(kept.min(file.blocks.len()));
        let tail =
            (length - (kept as u64).saturating_sub(1) * bytes).div_ceil(u64::from(FRAGMENT_BYTES)) as u32;
        if kept > 0
            && kept as u32 <= DIRECT
            && let Some(last) = file.blocks.get_mut(kept - 1)
            && last.fragments > tail
        {
            gone.push(Extent { address: last.address + tail, fragments: last.fragments - tail });
            last.fragments = tail;
        }
        let needed = |slot: &u32| kept > 0 && slots_below(kept as u32).contains(slot);
        let unneeded: Vec<u32> = file.indirect.keys().filter(|slot| !needed(slot)).copied().collect();
        for slot in unneeded {
            gone.extend(file.indirect.remove(&slot).map(|address| Extent { address, fragments: FRAGMENTS }));
        }
        gone.into_iter().filter(|extent| extent.fragments > 0).for_each(|extent| self.release(extent));
    }

    fn grow_extent(&mut self, inode: u32, block: u32, wanted: u32) -> Result<(), Full> {
        let held = self.inode(inode).extent(block).unwrap_or_default();
        if held.fragments >= wanted {
            return Ok(());
        }
        if u64::from(wanted - held.fragments) > self.available() {
            return Err(Full);
        }
        if held.fragments > 0 && self.extend(held, wanted) {
            self.inode_mut(inode).blocks[block as usize].fragments = wanted;
            return Ok(());
        }
        self.make_way(inode, block)?;
        let preferred = self.preferred_place(inode, block);
        // A tail that grows gets a whole block, and the rest is given back: the tail may grow again
        // (`FS_OPTTIME`).
        let asked = if held.fragments > 0 { FRAGMENTS } else { wanted };
        let address = self.take(preferred, asked)?;
        if asked > wanted {
            self.release(Extent { address: address + wanted, fragments: asked - wanted });
        }
        if held.fragments > 0 {
            self.release(held);
        }
        let blocks = &mut self.inode_mut(inode).blocks;
        if blocks.len() <= block as usize {
            blocks.resize(block as usize + 1, Extent::default());
        }
        blocks[block as usize] = Extent { address, fragments: wanted };
        debug_assert!(address % FRAGMENTS + wanted <= FRAGMENTS, "an extent lies within a block");
        Ok(())
    }

    /// Makes the indirect blocks that lead to a block.
    fn make_way(&mut self, inode: u32, block: u32) -> Result<(), Full> {
        for slot in slots(block) {
            if self.inode(inode).indirect.contains_key(&slot) {
                continue;
            }
            let preferred = self.next_group(inode, block);
            let address = self.take(preferred, FRAGMENTS)?;
            self.inode_mut(inode).indirect.insert(slot, address);
            self.effects.new_indirect.push(address);
        }
        Ok(())
    }

    /// Returns the preferred place of a block, as a fragment's address.
    fn preferred_place(&self, inode: u32, block: u32) -> u32 {
        let file = self.inode(inode);
        let before = block.checked_sub(1).and_then(|before| file.extent(before));
        let place = if block < DIRECT { block } else { (block - DIRECT) % POINTERS };
        let moves_on = place % self.parameters.blocks_per_group_and_file.max(1) == 0;
        match before {
            Some(before) if !moves_on => before.address + FRAGMENTS,
            _ if block < DIRECT => self.shape.group_start(self.shape.group_of_inode(inode)),
            // The first block behind an indirect one follows it; the indirect one is in the new
            // group already.
            _ if place == 0 => file.way_to(block).last().map_or(0, |indirect| indirect + FRAGMENTS),
            _ => self.next_group(inode, block),
        }
    }

    /// Returns the next group with above-average free space, from that of the previous block on.
    fn next_group(&self, inode: u32, block: u32) -> u32 {
        let before = block.checked_sub(1).and_then(|before| self.inode(inode).extent(before));
        let start = match before {
            Some(before) => self.shape.group_of_fragment(before.address) + 1,
            None => {
                self.shape.group_of_inode(inode) + block / self.parameters.blocks_per_group_and_file.max(1)
            }
        };
        let groups = self.shape.groups;
        let free: u64 = self.groups.iter().map(|group| u64::from(group.blocks_free)).sum();
        let average = free / u64::from(groups);
        let order = (0..groups).map(|step| (start + step) % groups);
        let group = { order }.find(|group| u64::from(self.groups[*group as usize].blocks_free) >= average);
        self.shape.group_start(group.unwrap_or(start % groups))
    }

    /// Takes adjacent fragments at or near a place.
    fn take(&mut self, preferred: u32, count: u32) -> Result<u32, Full> {
        if u64::from(count) > self.fragments_free {
            return Err(Full);
        }
        let home = self.shape.group_of_fragment(preferred) % self.shape.groups;
        let place = (preferred - self.shape.group_start(home)) / FRAGMENTS;
        let taken = self.search_groups(home, |volume, candidate| {
            let place = (candidate == home).then_some(place);
            let group = &mut volume.groups[candidate as usize];
            match count {
                FRAGMENTS => group.take_block(place),
                _ => group.take_fragments(count, place),
            }
        });
        let (group, fragment) = taken.ok_or(Full)?;
        debug_assert!(
            fragment + count <= self.shape.fragments_per_group,
            "fragment {fragment} of group {group}"
        );
        self.fragments_free -= u64::from(count);
        self.touch(group);
        Ok(self.shape.group_start(group) + fragment)
    }

    fn extend(&mut self, held: Extent, wanted: u32) -> bool {
        let group = self.shape.group_of_fragment(held.address);
        let first = held.address - self.shape.group_start(group);
        let extended = self.groups[group as usize].extend(first, held.fragments, wanted);
        if extended {
            self.fragments_free -= u64::from(wanted - held.fragments);
            self.touch(group);
        }
        extended
    }

    fn release(&mut self, extent: Extent) {
        debug_assert!((1..=FRAGMENTS).contains(&extent.fragments), "{extent:?} is released");
        let group = self.shape.group_of_fragment(extent.address);
        self.groups[group as usize].release(extent.address - self.shape.group_start(group), extent.fragments);
        self.fragments_free += u64::from(extent.fragments);
        debug_assert!(self.fragments_free <= self.shape.data_fragments(), "more is free than there is");
        self.touch(group);
    }
}

/// Returns the numbers of the indirect blocks that a file of `blocks` blocks needs.
fn slots_below(blocks: u32) -> std::ops::Range<u32> {
    match slots(blocks - 1).last() {
        None => 0..0,
        Some(last) => 0..last + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DiskModel;
    use crate::ffs::ROOT;
    use crate::machine::FileSystemShape;

    fn volume() -> Volume {
        let model = DiskModel { cylinders: 160, heads: 10, sectors_per_track: 50, ..DiskModel::rz28() };
        Volume::new(&model, &FileSystemShape::default())
    }

    fn file_of(volume: &mut Volume, blocks: u32, tail_bytes: u32) -> u32 {
        let inode = volume.new_inode(ROOT, false).unwrap();
        (0..blocks).for_each(|block| volume.grow(inode, block, 8192).unwrap());
        if tail_bytes > 0 {
            volume.grow(inode, blocks, tail_bytes).unwrap();
        }
        inode
    }

    #[test]
    fn files_are_contiguous_on_an_empty_disk() {
        let mut volume = volume();
        let data = volume.shape.fragments_before_data();
        // The root's chunk of entries took the first fragment of the first data block.
        let file = file_of(&mut volume, 3, 2500);
        let extents: Vec<_> = (0..4).map(|block| volume.inode(file).extent(block).unwrap()).collect();
        let at = |block: u32, fragments| Extent { address: data + block * 8, fragments };
        assert_eq!(extents[..3], [at(1, 8), at(2, 8), at(3, 8)]);
        // Best fit puts the tail of three fragments behind the root's one.
        assert_eq!(extents[3], Extent { address: data + 1, fragments: 3 });
        assert_eq!(volume.inode(file).fragments(), 27);
        assert_eq!(volume.take_effects().groups, [0]);
    }

    #[test]
    fn a_tail_grows_in_place_or_moves() {
        let mut volume = volume();
        let data = volume.shape.fragments_before_data();
        let first = file_of(&mut volume, 0, 1000);
        let second = file_of(&mut volume, 0, 1000);
        assert_eq!(volume.inode(second).extent(0), Some(Extent { address: data + 2, fragments: 1 }));
        volume.grow(second, 0, 3000).unwrap();
        assert_eq!(volume.inode(second).extent(0), Some(Extent { address: data + 2, fragments: 3 }));
        volume.grow(first, 0, 2000).unwrap();
        assert_eq!(volume.inode(first).extent(0), Some(Extent { address: data + 8, fragments: 2 }));
        // Growing beyond a block makes the tail whole.
        volume.grow(first, 1, 10).unwrap();
        assert_eq!(volume.inode(first).extent(0).map(|extent| extent.fragments), Some(8));
    }

    #[test]
    fn indirect_blocks_move_to_another_group() {
        let mut volume = volume();
        let file = file_of(&mut volume, 14, 0);
        let group = |volume: &Volume, block| {
            volume.shape.group_of_fragment(volume.inode(file).extent(block).unwrap().address)
        };
        assert_eq!([0, 11, 12, 13].map(|block| group(&volume, block)), [0, 0, 1, 1]);
        let indirect = volume.inode(file).way_to(12);
        assert_eq!(volume.inode(file).extent(12).unwrap().address, indirect[0] + 8);
        assert_eq!(volume.take_effects().new_indirect, indirect);
    }

    #[test]
    fn everything_comes_back() {
        let mut volume = volume();
        let free = volume.fragments_free;
        let files: Vec<_> = (0..40).map(|n| file_of(&mut volume, n, 1 + n * 200)).collect();
        volume.truncate_blocks(files[30], 13 * 8192 + 1);
        assert_eq!(volume.inode(files[30]).fragments(), 14 * 8 + 8, "behind an indirect block all are whole");
        volume.truncate_blocks(files[30], 5000);
        assert_eq!(volume.inode(files[30]).fragments(), 5);
        files.iter().for_each(|file| volume.free_inode(*file));
        assert_eq!(volume.fragments_free, free);
    }

    #[test]
    fn the_reserve_is_kept() {
        let mut volume = volume();
        let file = file_of(&mut volume, 0, 0);
        let mut block = 0;
        while volume.grow(file, block, 8192).is_ok() {
            block += 1;
        }
        let reserve = volume.shape.data_fragments() / 10;
        assert!(volume.fragments_free >= reserve && volume.fragments_free < reserve + 32);
    }
}
