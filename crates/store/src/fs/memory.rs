//! Files in RAM, for tests and simulations: fast, of limited size, and able to lose power.

use super::{Access, File, FileSystem, Mapping, Space, read_full, write_full};
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// File system in RAM.
#[derive(Debug)]
pub struct MemoryFs {
    tree: Arc<Mutex<Tree>>,
    space: Arc<SpaceUsage>,
}

#[derive(Debug, Default)]
struct Tree {
    folders: BTreeSet<String>,
    files: BTreeMap<String, Arc<Inode>>,
    /// Files as of the last sync, which a power loss leaves for certain.
    synced: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    fn has_folder_above(&self, path: &str) -> bool {
        path.rsplit_once('/').is_none_or(|(folder, _)| self.folders.contains(folder))
    }
}

/// Bytes of a file, alive while it has a name or an open handle.
#[derive(Debug)]
struct Inode {
    bytes: RwLock<Vec<u8>>,
    space: Arc<SpaceUsage>,
}

/// Space of all files in whole blocks, with unlinked files that have open handles.
#[derive(Debug)]
struct SpaceUsage {
    used: AtomicU64,
    limit: AtomicU64,
    most: AtomicU64,
}

impl MemoryFs {
    /// Creates a file system of at most `limit_bytes` bytes, counted in whole blocks.
    pub fn new(limit_bytes: u64) -> Self {
        let (used, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let space = Arc::new(SpaceUsage { used, most, limit: AtomicU64::new(limit_bytes) });
        Self { tree: Arc::default(), space }
    }

    /// Returns the most bytes that files have taken at any time.
    pub fn most_used(&self) -> u64 {
        self.space.most.load(SeqCst)
    }

    /// Returns the bytes that files take now.
    pub fn used(&self) -> u64 {
        self.space.used.load(SeqCst)
    }

    /// Sets another limit; one below the bytes used makes the disk full.
    pub fn resize(&self, limit_bytes: u64) {
        self.space.limit.store(limit_bytes, SeqCst);
    }

    /// Returns the paths of all files.
    pub fn files(&self) -> Vec<String> {
        self.tree.lock().files.keys().cloned().collect()
    }

    /// Changes a file's bytes without a call to the file system.
    pub fn tamper(&self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(inode) = self.tree.lock().files.get(path) {
            inode.change(|bytes| change(bytes));
        }
    }

    /// Returns the contents of the disk after a power loss at this moment. Synced files are whole.
    /// Later changes may be there, or not, or in part, page by page. `choose` decides: it returns a
    /// number below its argument.
    pub fn after_power_loss(&self, mut choose: impl FnMut(u64) -> u64) -> Self {
        let tree = self.tree.lock();
        let lost = Self::new(self.space.limit.load(SeqCst));
        let mut names: BTreeSet<&String> = tree.files.keys().collect();
        names.extend(tree.synced.keys());
        for name in names {
            let now = tree.files.get(name).map(|inode| inode.bytes.read());
            let left = mingle(tree.synced.get(name), now.as_deref(), &mut choose);
            if let Some(bytes) = left {
                let inode = Inode::new(&lost.space);
                inode.change(|content| content.clone_from(&bytes));
                let mut left = lost.tree.lock();
                left.files.insert(name.clone(), inode);
                // The bytes left are on the disk: the next power loss does not take them.
                left.synced.insert(name.clone(), bytes);
            }
        }
        let mut left = lost.tree.lock();
        left.folders.clone_from(&tree.folders);
        // A file that is there again has its folders.
        let files: Vec<String> = left.files.keys().cloned().collect();
        for (path, end) in
            files.iter().flat_map(|path| path.match_indices('/').map(move |(end, _)| (path, end)))
        {
            left.folders.insert(path[..end].to_owned());
        }
        drop(left);
        lost
    }

    fn find(&self, path: &str) -> io::Result<Arc<Inode>> {
        Ok(Arc::clone(self.tree.lock().files.get(path).ok_or(Errno::NOENT)?))
    }
}

/// Returns one file after a power loss, from its synced and its present content.
fn mingle(
    synced: Option<&Vec<u8>>,
    now: Option<&Vec<u8>>,
    choose: &mut impl FnMut(u64) -> u64,
) -> Option<Vec<u8>> {
    if synced == now {
        return now.cloned();
    }
    let empty = Vec::new();
    let (old, new) = match (synced, now) {
        (Some(old), Some(new)) => (old, new),
        // The creation or removal of the name may be lost.
        (Some(old), None) => return (choose(2) == 0).then(|| old.clone()),
        (None, Some(_)) if choose(3) == 0 => return None,
        (None, Some(new)) => (&empty, new),
        (None, None) => return None,
    };
    let length = if choose(4) == 0 { old.len() } else { new.len() };
    let mut bytes = vec![0; length];
    for (page, target) in bytes.chunks_mut(PAGE).enumerate() {
        let (old_page, new_page) = (page_of(old, page, target.len()), page_of(new, page, target.len()));
        // A page unchanged since the sync stays. A changed page is either version, or part of each.
        let left = match choose(4) {
            _ if old_page == new_page => old_page,
            0 => old_page,
            1 => {
                let sectors = choose((PAGE / SECTOR) as u64) as usize;
                let cut = (sectors * SECTOR).min(target.len());
                Cow::Owned([&new_page[..cut], &old_page[cut..]].concat())
            }
            _ => new_page,
        };
        target.copy_from_slice(&left);
    }
    Some(bytes)
}

/// Returns `length` bytes of a page, with zeros behind the content's end.
fn page_of(content: &[u8], page: usize, length: usize) -> Cow<'_, [u8]> {
    let available = content.get(page * PAGE..).unwrap_or(&[]);
    if available.len() >= length {
        return Cow::Borrowed(&available[..length]);
    }
    let mut bytes = available.to_vec();
    bytes.resize(length, 0);
    Cow::Owned(bytes)
}

impl FileSystem for MemoryFs {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let mut tree = self.tree.lock();
        if !tree.has_folder_above(path) {
            return Err(Errno::NOENT.into());
        }
        if tree.files.contains_key(path) {
            return Err(Errno::EXIST.into());
        }
        let inode = Inode::new(&self.space);
        tree.files.insert(path.to_owned(), Arc::clone(&inode));
        let tree = Arc::clone(&self.tree);
        Ok(Box::new(MemoryHandle { inode, access: Access::Write, tree }))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        Ok(Box::new(MemoryHandle { inode: self.find(path)?, access, tree: Arc::clone(&self.tree) }))
    }

    fn length(&self, path: &str) -> io::Result<u64> {
        Ok(self.find(path)?.bytes.read().len() as u64)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        let inode = self.tree.lock().files.remove(path);
        Ok(inode.map(drop).ok_or(Errno::NOENT)?)
    }

    fn make_folder(&self, path: &str) -> io::Result<bool> {
        let mut tree = self.tree.lock();
        if !tree.has_folder_above(path) {
            return Err(Errno::NOENT.into());
        }
        Ok(tree.folders.insert(path.to_owned()))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut tree = self.tree.lock();
        if !tree.has_folder_above(to) {
            return Err(Errno::NOENT.into());
        }
        let inode = tree.files.remove(from).ok_or(Errno::NOENT)?;
        tree.files.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        let mut tree = self.tree.lock();
        let prefix = format!("{path}/");
        let is_inside = |name: Option<&String>| name.is_some_and(|name| name.starts_with(&prefix));
        let has_files = is_inside(tree.files.range(prefix.clone()..).next().map(|(name, _)| name));
        if has_files || is_inside(tree.folders.range(prefix.clone()..).next()) {
            return Err(Errno::NOTEMPTY.into());
        }
        if tree.folders.remove(path) { Ok(()) } else { Err(Errno::NOENT.into()) }
    }

    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let tree = self.tree.lock();
        if !path.is_empty() && !tree.folders.contains(path) {
            return Err(Errno::NOENT.into());
        }
        let files = tree.files.range(prefix.clone()..).map(|(name, _)| name);
        let folders = tree.folders.range(prefix.clone()..);
        let below = |name: &'_ String| name.strip_prefix(&prefix).map(str::to_owned);
        let names = files.map_while(below).chain(folders.map_while(below));
        let inside = names.filter(|name| !name.is_empty() && !name.contains('/'));
        Ok(inside.take(limit).collect())
    }

    fn space(&self) -> io::Result<Space> {
        let free_bytes = self.space.limit.load(SeqCst).saturating_sub(self.used());
        Ok(Space { block_bytes: PAGE as u64, free_bytes })
    }

    fn map(&self, path: &str, bytes: u64) -> io::Result<Box<dyn Mapping>> {
        let inode = match self.find(path) {
            Ok(inode) => inode,
            Err(_) => {
                let made = self.create(path)?;
                if let Err(error) = made.set_length(bytes) {
                    self.unlink(path)?;
                    return Err(error);
                }
                self.find(path)?
            }
        };
        if inode.bytes.read().len() as u64 != bytes {
            return Err(Errno::INVAL.into());
        }
        Ok(Box::new(MemoryHandle { inode, access: Access::Write, tree: Arc::clone(&self.tree) }))
    }

    fn sync(&self) -> io::Result<()> {
        let mut tree = self.tree.lock();
        let synced = tree.files.iter().map(|(name, inode)| (name.clone(), inode.bytes.read().clone()));
        tree.synced = synced.collect();
        Ok(())
    }
}

/// An open file.
struct MemoryHandle {
    inode: Arc<Inode>,
    access: Access,
    tree: Arc<Mutex<Tree>>,
}

impl File for MemoryHandle {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.inode.bytes.read();
        let available = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or(&[]);
        let read = available.len().min(buffer.len());
        buffer[..read].copy_from_slice(&available[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if self.access == Access::Read {
            return Err(Errno::BADF.into());
        }
        let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(bytes.len()));
        let end = end.ok_or(Errno::FBIG)?;
        let mut content = self.inode.bytes.write();
        let length = end.max(content.len());
        self.inode.resize(&mut content, length)?;
        content[end - bytes.len()..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        if self.access == Access::Read {
            return Err(Errno::INVAL.into());
        }
        let length = usize::try_from(bytes).map_err(|_| Errno::FBIG)?;
        self.inode.resize(&mut self.inode.bytes.write(), length)
    }

    fn sync(&self) -> io::Result<()> {
        let mut tree = self.tree.lock();
        let name = tree.files.iter().find(|(_, inode)| Arc::ptr_eq(inode, &self.inode));
        if let Some(name) = name.map(|(name, _)| name.clone()) {
            let content = self.inode.bytes.read().clone();
            tree.synced.insert(name, content);
        }
        Ok(())
    }
}

impl Mapping for MemoryHandle {
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match read_full(self, buffer, offset)? == buffer.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.inode.bytes.read().len() as u64) {
            return Err(Errno::INVAL.into());
        }
        write_full(self, bytes, offset)
    }

    fn is_resident(&self, _offset: u64) -> bool {
        true
    }
}

impl Inode {
    fn new(space: &Arc<SpaceUsage>) -> Arc<Self> {
        Arc::new(Self { bytes: RwLock::default(), space: Arc::clone(space) })
    }

    /// Gives the bytes another length, with zeros at the end, and takes or returns the space.
    fn resize(&self, bytes: &mut Vec<u8>, length: usize) -> io::Result<()> {
        let space = |length: usize| (length.div_ceil(PAGE) * PAGE) as u64;
        let (before, after) = (space(bytes.len()), space(length));
        if after > before && !self.space.take(after - before) {
            return Err(Errno::NOSPC.into());
        }
        self.space.used.fetch_sub(before.saturating_sub(after), SeqCst);
        match length.checked_sub(bytes.len()) {
            // Without optimization, as in tests, zeros of the allocator come a thousand times as
            // fast as single ones.
            Some(more) => bytes.extend_from_slice(&vec![0; more]),
            None => bytes.truncate(length),
        }
        Ok(())
    }

    /// Changes the bytes without regard to the limit.
    fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes.write();
        self.space.used.fetch_sub((bytes.len().div_ceil(PAGE) * PAGE) as u64, SeqCst);
        change(&mut bytes);
        self.space.used.fetch_add((bytes.len().div_ceil(PAGE) * PAGE) as u64, SeqCst);
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        self.space.used.fetch_sub((self.bytes.get_mut().len().div_ceil(PAGE) * PAGE) as u64, SeqCst);
    }
}

impl SpaceUsage {
    fn take(&self, more: u64) -> bool {
        let limit = self.limit.load(SeqCst);
        let fits = |used: u64| Some(used + more).filter(|sum| *sum <= limit);
        let taken = self.used.fetch_update(SeqCst, SeqCst, fits);
        if let Ok(before) = taken {
            self.most.fetch_max(before + more, SeqCst);
        }
        taken.is_ok()
    }
}

/// Bytes of a block and a page.
const PAGE: usize = 4096;
/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;
