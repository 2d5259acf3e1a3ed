//! File system on a disk: its inodes, its groups, and the changes to charge.

use super::directory::Directory;
use super::group::Group;
use super::inode::Inode;
use super::shape::FfsShape;
use crate::cache::Mixed;
use crate::disk::DiskModel;
use crate::machine::{DirectoryPreference, FRAGMENTS, FileSystemShape};
use std::collections::HashMap;

/// File system on a disk. It knows all positions and does no I/O. Changes of an allocation are
/// gathered in [`Effects`], and the kernel charges them.
#[derive(Debug)]
pub(in super::super) struct Volume {
    pub(super) shape: FfsShape,
    pub(super) parameters: FileSystemShape,
    pub(super) groups: Vec<Group>,
    inodes: HashMap<u32, Inode, Mixed>,
    pub(super) fragments_free: u64,
    inodes_free: u64,
    pub(super) effects: Effects,
}

/// Changes made by allocating and freeing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Effects {
    /// Groups with changed maps.
    pub(in super::super) groups: Vec<u32>,
    /// Indirect blocks that were made.
    pub(in super::super) new_indirect: Vec<u32>,
}

/// No fragments or inodes are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Full;

impl Volume {
    /// Makes a file system with an empty root. The root's chunk of entries is in the first group.
    pub(in super::super) fn new(model: &DiskModel, parameters: &FileSystemShape) -> Self {
        let shape = FfsShape::new(model, parameters);
        let group =
            || Group::new(shape.fragments_per_group, shape.fragments_before_data(), shape.inodes_per_group);
        let mut volume = Self {
            shape,
            parameters: *parameters,
            groups: (0..shape.groups).map(|_| group()).collect(),
            inodes: HashMap::default(),
            fragments_free: shape.data_fragments(),
            inodes_free: u64::from(shape.groups) * u64::from(shape.inodes_per_group),
            effects: Effects::default(),
        };
        for reserved in 0..=ROOT {
            volume.groups[0].take_inode(Some(reserved));
            volume.inodes_free -= 1;
        }
        volume.groups[0].directories = 1;
        let root = Inode { directory: Some(Directory::new()), ..Inode::default() };
        volume.inodes.insert(ROOT, root);
        // The first allocation on an empty disk; a disk of a single group has room for it.
        if volume.grow(ROOT, 0, 512).is_ok() {
            volume.inode_mut(ROOT).size = 512;
        }
        volume.effects = Effects::default();
        volume
    }

    /// Returns an inode in use.
    pub(in super::super) fn inode(&self, inode: u32) -> &Inode {
        self.inodes.get(&inode).expect("the kernel names only inodes that it was given and has not freed")
    }

    /// Returns an inode in use.
    pub(in super::super) fn inode_mut(&mut self, inode: u32) -> &mut Inode {
        self.inodes.get_mut(&inode).expect("the kernel names only inodes that it was given and has not freed")
    }

    /// Takes an inode for a new file or directory in `parent`. A file's inode is next to its
    /// directory's; the preference chooses a directory's.
    pub(in super::super) fn new_inode(&mut self, parent: u32, is_directory: bool) -> Result<u32, Full> {
        let parent_group = self.shape.group_of_inode(parent);
        let (group, preferred) = match is_directory {
            true => (self.directory_group(parent_group), None),
            false => (parent_group, Some(parent % self.shape.inodes_per_group)),
        };
        let taken = self.search_groups(group, |volume, candidate| {
            let preferred = preferred.filter(|_| candidate == group);
            volume.groups[candidate as usize].take_inode(preferred)
        });
        let (group, place) = taken.ok_or(Full)?;
        self.inodes_free -= 1;
        self.groups[group as usize].directories += u32::from(is_directory);
        self.touch(group);
        let inode = group * self.shape.inodes_per_group + place;
        let directory = is_directory.then(Directory::new);
        let before = self.inodes.insert(inode, Inode { directory, ..Inode::default() });
        assert!(before.is_none(), "inode {inode} is in use");
        Ok(inode)
    }

    /// Frees an inode and its blocks.
    pub(in super::super) fn free_inode(&mut self, inode: u32) {
        self.truncate_blocks(inode, 0);
        let Some(gone) = self.inodes.remove(&inode) else { return };
        debug_assert_eq!(gone.fragments(), 0, "inode {inode} goes with its blocks");
        let group = self.shape.group_of_inode(inode);
        self.groups[group as usize].release_inode(inode % self.shape.inodes_per_group);
        self.groups[group as usize].directories -= u32::from(gone.directory.is_some());
        self.inodes_free += 1;
        self.touch(group);
    }

    /// Returns the block that holds an inode.
    pub(in super::super) fn inode_block(&self, inode: u32) -> u32 {
        self.shape.inode_block(inode)
    }

    /// Returns the block that holds a group's maps.
    pub(in super::super) fn group_block(&self, group: u32) -> u32 {
        self.shape.group_block(group)
    }

    /// Returns the changes since the previous call.
    pub(in super::super) fn take_effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    /// Returns the number of fragments that may still be allocated.
    pub(in super::super) fn available(&self) -> u64 {
        let reserved = self.shape.data_fragments() * u64::from(self.parameters.reserved_percent) / 100;
        self.fragments_free.saturating_sub(reserved)
    }

    /// Returns the group for a new directory.
    fn directory_group(&self, parent_group: u32) -> u32 {
        match self.parameters.directory_preference {
            DirectoryPreference::WithParent => parent_group,
            DirectoryPreference::FewestDirectories => {
                let average = self.inodes_free / u64::from(self.shape.groups);
                let has_room = |(_, group): &(u32, &Group)| u64::from(group.inodes_free) >= average;
                let groups = (0..).zip(&self.groups).filter(has_room);
                groups.min_by_key(|(_, group)| group.directories).map_or(0, |(number, _)| number)
            }
        }
    }

    /// Notes that a group's maps have changed.
    pub(super) fn touch(&mut self, group: u32) {
        if !self.effects.groups.contains(&group) {
            self.effects.groups.push(group);
        }
    }

    /// Tries groups until `take` succeeds: the preferred one, then at doubling distances, then one
    /// after the other (4.4BSD's `ffs_hashalloc`).
    pub(super) fn search_groups<T>(
        &mut self,
        preferred: u32,
        mut take: impl FnMut(&mut Self, u32) -> Option<T>,
    ) -> Option<(u32, T)> {
        let groups = self.shape.groups;
        let doubling =
            std::iter::successors(Some(1u32), |step| step.checked_mul(2)).take_while(|step| *step < groups);
        let near = doubling.scan(preferred, move |at, step| {
            *at = (*at + step) % groups;
            Some(*at)
        });
        let every = (0..groups).map(move |step| (preferred + step) % groups);
        let mut order = std::iter::once(preferred).chain(near).chain(every);
        order.find_map(|group| take(self, group).map(|found| (group, found)))
    }
}

/// The root's inode, as in every UFS.
pub(in super::super) const ROOT: u32 = 2;

const _: () = assert!(FRAGMENTS == 8, "a byte holds the free map of a block");

#[cfg(test)]
mod tests {
    use super::*;

    fn volume() -> Volume {
        // 5 groups of 250 blocks.
        let model = DiskModel { cylinders: 80, heads: 5, sectors_per_track: 50, ..DiskModel::rz28() };
        Volume::new(&model, &FileSystemShape::default())
    }

    #[test]
    fn directories_spread_and_files_stay_with_them() {
        let mut volume = volume();
        assert_eq!(volume.shape.groups, 5);
        let group_of = |volume: &Volume, inode| volume.shape.group_of_inode(inode);
        let directories: Vec<_> = (0..5).map(|_| volume.new_inode(ROOT, true).unwrap()).collect();
        // The first group, with the three reserved inodes, has fewer free ones than the average.
        assert_eq!(
            directories.iter().map(|inode| group_of(&volume, *inode)).collect::<Vec<_>>(),
            [1, 2, 3, 4, 1]
        );
        for directory in directories {
            let file = volume.new_inode(directory, false).unwrap();
            assert_eq!(group_of(&volume, file), group_of(&volume, directory));
        }
    }

    #[test]
    fn inodes_overflow_to_other_groups_and_run_out() {
        let mut volume = volume();
        let all = volume.inodes_free;
        let taken: Vec<_> = (0..all).map(|_| volume.new_inode(ROOT, false).unwrap()).collect();
        assert_eq!(volume.new_inode(ROOT, false), Err(Full));
        taken.iter().for_each(|inode| volume.free_inode(*inode));
        assert_eq!(volume.inodes_free, all);
    }
}
