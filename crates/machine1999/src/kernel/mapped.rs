//! Memory-mapped files: accesses without system calls, page faults, pages that become dirty.

use super::data::{FILE_BYTES_MAX, pages};
use super::{FileId, Kernel};
use crate::cache::PageKey;
use crate::machine::PAGE_BYTES;
use rustix::io::Errno;

impl Kernel {
    /// Opens a file of this length, or makes it with all its blocks. Counts the mapping as a
    /// handle. "Disk space of the memory-mapped file is allocated once" (Maltzahn 1999, 2.4.2). The
    /// first writing of the file's zeros is not charged: it belongs to the making of the store.
    pub(in super::super) fn map(&mut self, path: &str, bytes: u64) -> Result<FileId, Errno> {
        if bytes > FILE_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        match self.open(path) {
            Err(Errno::NOENT) => self.make_mapped(path, bytes),
            Err(error) => Err(error),
            Ok(file) if self.inode(file).size != bytes => {
                self.close(file);
                Err(Errno::INVAL)
            }
            Ok(file) => {
                self.inode_mut(file).is_mapped = true;
                Ok(file)
            }
        }
    }

    /// Copies bytes out of the mapping. The caller stays within its length.
    pub(in super::super) fn load(&mut self, file: FileId, buffer: &mut [u8], offset: u64) {
        if buffer.is_empty() {
            return;
        }
        for page in pages(offset, buffer.len()) {
            self.fault_in(PageKey { file, page });
        }
        self.inode(file).contents.read(buffer, offset);
        self.spend_copy(buffer.len());
    }

    /// Copies bytes into the mapping. A page that is replaced as a whole is not read: "Objects of
    /// size 8K Bytes replace the entire content of the object's target page. If the object is of a
    /// smaller segment size the target object's page needs to be faulted into memory" (3.3).
    pub(in super::super) fn store(&mut self, file: FileId, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        for number in pages(offset, bytes.len()) {
            let page = PageKey { file, page: number };
            let start = u64::from(number) * PAGE_BYTES as u64;
            let is_whole = offset <= start && end >= start + PAGE_BYTES as u64;
            if is_whole && !self.pages.is_resident(page) {
                self.clean_when_due();
                self.hold_page(page);
            } else {
                self.fault_in(page);
            }
            self.pages.mark_dirty(page);
            let inode = self.inode_mut(file);
            inode.written_pages = inode.written_pages.max(number + 1);
        }
        self.inode_mut(file).contents.write(bytes, offset);
        self.spend_copy(bytes.len());
        self.change_inode(file);
    }

    /// Returns `true` if the page at an offset is in memory.
    pub(in super::super) fn is_resident(&self, file: FileId, offset: u64) -> bool {
        u32::try_from(offset / PAGE_BYTES as u64)
            .is_ok_and(|page| self.pages.is_resident(PageKey { file, page }))
    }

    fn fault_in(&mut self, page: PageKey) {
        self.clean_when_due();
        self.load_page(page, true);
    }

    fn make_mapped(&mut self, path: &str, bytes: u64) -> Result<FileId, Errno> {
        let file = self.create(path)?;
        self.inode_mut(file).is_mapped = true;
        if let Err(error) = self.allocate(file, bytes) {
            self.unlink(path)?;
            self.close(file);
            return Err(error);
        }
        Ok(file)
    }

    fn allocate(&mut self, file: FileId, bytes: u64) -> Result<(), Errno> {
        let blocks = bytes.div_ceil(PAGE_BYTES as u64) as u32;
        for page in 0..blocks {
            self.grow(PageKey { file, page }, PAGE_BYTES as u32)?;
        }
        let inode = self.inode_mut(file);
        inode.size = inode.size.max(bytes);
        self.write_inode(file);
        Ok(())
    }
}
