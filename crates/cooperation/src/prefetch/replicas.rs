//! File-alias directory: the nodes with a file on disk, and the page's number on each.
//!
//! Voelker 2000, section 4.3.2. A page is named by its place on the file's primary disk. The
//! directory (FAD) lists the other nodes with a copy of the file, under names of their own. It
//! serves two purposes: it limits the nodes that may be asked to prefetch a page, and it names the
//! page on each of them. The page's manager holds the file's entry.
//!
//! ```text
//!  page of file 7 ─► manager ─► FAD: primary A:/data/x, copies C:/mirror/x, D:/x
//!                                 └─► Aggressive draws among C and D, by the epoch's weights
//! ```
//!
//! Files and nodes come from messages, so that both are bounded. O(1) a look-up.

use crate::NodeId;
use std::collections::HashMap;

/// Directory of the files that a node manages.
#[derive(Clone, Debug, Default)]
pub struct FileAliases {
    files: HashMap<u64, Vec<FileCopy>>,
}

/// Copy of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCopy {
    /// Node with the copy on disk.
    pub node: NodeId,
    /// Name of the file on that node: its inode.
    pub local_file: u64,
}

impl FileAliases {
    /// Records a copy of a file. The first one is the primary, which names the file's pages. The
    /// same node again replaces its copy's name. Returns `false` if there is no room.
    pub fn add(&mut self, file: u64, copy: FileCopy) -> bool {
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&file) {
            return false;
        }
        let copies = self.files.entry(file).or_default();
        if let Some(known) = copies.iter_mut().find(|known| known.node == copy.node) {
            known.local_file = copy.local_file;
            return true;
        }
        let has_room = copies.len() < COPIES_MAX;
        if has_room {
            copies.push(copy);
        }
        debug_assert!(copies.len() <= COPIES_MAX);
        has_room
    }

    /// Returns the copies of a file, the primary first; none for an unknown file.
    pub fn copies(&self, file: u64) -> &[FileCopy] {
        self.files.get(&file).map_or(&[], Vec::as_slice)
    }

    /// Returns the primary's node.
    pub fn primary(&self, file: u64) -> Option<NodeId> {
        self.copies(file).first().map(|copy| copy.node)
    }

    /// Returns the name of a file on a node, if its disk has a copy.
    pub fn on(&self, file: u64, node: NodeId) -> Option<u64> {
        self.copies(file).iter().find(|copy| copy.node == node).map(|copy| copy.local_file)
    }

    /// Forgets the copies of a node that is gone. A file keeps its primary's name for its pages, so
    /// that a file goes with its primary.
    pub fn lose(&mut self, gone: NodeId) {
        self.files.retain(|_, copies| copies.first().is_some_and(|primary| primary.node != gone));
        self.files.values_mut().for_each(|copies| copies.retain(|copy| copy.node != gone));
        debug_assert!(self.files.values().all(|copies| !copies.is_empty()));
    }
}

/// Most files of a directory.
pub const FILES_MAX: usize = 1 << 16;
/// Most copies of a file.
pub const COPIES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(node: u64, local_file: u64) -> FileCopy {
        FileCopy { node: NodeId(node), local_file }
    }

    #[test]
    fn page_has_its_name_on_each_disk() {
        let mut aliases = FileAliases::default();
        for (node, name) in [(1, 70), (3, 71), (4, 72)] {
            assert!(aliases.add(7, copy(node, name)));
        }
        assert_eq!((aliases.primary(7), aliases.on(7, NodeId(3))), (Some(NodeId(1)), Some(71)));
        assert!(aliases.on(7, NodeId(2)).is_none() && aliases.copies(8).is_empty());
        assert!(aliases.add(7, copy(3, 99)));
        assert_eq!((aliases.copies(7).len(), aliases.on(7, NodeId(3))), (3, Some(99)));
        aliases.lose(NodeId(3));
        assert_eq!(aliases.copies(7), [copy(1, 70), copy(4, 72)]);
        aliases.lose(NodeId(1));
        assert!(aliases.copies(7).is_empty(), "pages are named by the primary");
    }

    #[test]
    fn files_and_copies_are_bounded() {
        let mut aliases = FileAliases::default();
        let added = (0..1000).filter(|node| aliases.add(1, copy(*node, *node))).count();
        assert_eq!(added, COPIES_MAX);
        assert_eq!(aliases.copies(1).len(), COPIES_MAX);
        let added = (0..FILES_MAX as u64 + 9).filter(|file| aliases.add(*file, copy(1, *file))).count();
        assert_eq!(added, FILES_MAX);
        assert_eq!(aliases.files.len(), FILES_MAX);
    }
}
