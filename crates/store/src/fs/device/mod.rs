//! Whole block device as a file system of a few large files, without a kernel file system between
//! the store and the disk.
//!
//! ```text
//! 0        4 KiB    8 KiB         1 MiB
//! ┌────────┬────────┬─ ─ ─ ─ ─ ─ ─┬──────────────┬───────────┬──────────────────────────────┐
//! │ table  │ table  │ zeros       │ architecture │ index     │ volume                       │
//! └────────┴────────┴─ ─ ─ ─ ─ ─ ─┴──────────────┴───────────┴──────────────────────────────┘
//! ```
//!
//! Extents are few, have names, and get their space at once; the table has their positions (see
//! `table`). A device with any foreign contents is refused.
//!
//! Made for the architecture `volume`, which has three files. There are no folders. An extent grows
//! beyond its space only if it is asked to ([`File::reserve`]) and the space behind it is free. An
//! extent's space may go to another one as soon as its name is removed: no file is open there then.
//!
//! A device that is larger than its table says has grown, and the rest of it is free. An extent
//! with the ending `.next` gets the end of the device, so that the volume can grow up to it.

mod foreign;
mod table;
#[cfg(test)]
mod tests;

use super::{Access, File, FileSystem, LoadedWords, Mapping, Space, read_full, write_full};
use crate::Error;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use table::{ALIGN, COPY_BYTES, DeviceContents, EXTENTS_MAX, Extent, FIRST_AT, NAME_MAX, Table};
use tracing::info;

/// Access to a device.
pub trait DeviceIo: Send + Sync {
    /// Returns the size of the device in bytes.
    fn bytes(&self) -> u64;

    /// Returns the device as a file that is read through the page cache.
    fn buffered(&self) -> &dyn File;

    /// Returns the device as a file that bypasses the page cache if possible: see
    /// [`FileSystem::open_direct`].
    fn direct(&self) -> &dyn File;

    /// Returns a stretch of the device as words in memory: see [`FileSystem::load`].
    fn load(&self, at: u64, bytes: u64) -> io::Result<Box<dyn LoadedWords>>;
}

/// Device with its table.
pub struct DeviceFs {
    shared: Arc<DeviceState>,
}

struct DeviceState {
    medium: Box<dyn DeviceIo>,
    table: Mutex<Table>,
}

impl DeviceFs {
    /// Bytes of a device outside all extents: the table, and the loss of three extents to
    /// alignment.
    pub const OWN_BYTES: u64 = FIRST_AT + 4 * ALIGN;

    /// Opens a device. A blank one gets a table, unless it is only to be read.
    ///
    /// # Errors
    /// [`Error::Unusable`] with the device's foreign contents, and the way out.
    pub fn open(medium: Box<dyn DeviceIo>, access: Access) -> Result<Self, Error> {
        let table = match found(&*medium)? {
            (DeviceContents::Table(table), _) => checked(table, medium.bytes())?,
            (DeviceContents::Unusable(why), _) => {
                return Err(refused(&format!("its contents are {why}")));
            }
            (DeviceContents::Nothing, Some(what)) => return Err(refused(&format!("it holds {what}"))),
            (DeviceContents::Nothing, None) if access == Access::Read => {
                return Err(Error::Unusable("the device is blank".into()));
            }
            (DeviceContents::Nothing, None) => {
                write_fresh(&*medium)?;
                Table::new(medium.bytes())
            }
        };
        let (bytes, before) = (medium.bytes(), table.device_bytes);
        let shared = Arc::new(DeviceState { medium, table: Mutex::new(table) });
        if bytes > before && access == Access::Write {
            let failed = |source| Error::Disk { action: "write to the device", source };
            let grow = |table: &mut Table| {
                table.device_bytes = bytes;
                Ok(())
            };
            shared.change(grow).map_err(failed)?;
            info!(bytes, before, "the device is larger than before");
        }
        Ok(Self { shared })
    }

    /// Makes a device empty and ours. Its contents are lost, if `erases` allows that.
    ///
    /// # Errors
    /// [`Error::Unusable`] with the device's contents.
    pub fn format(medium: &dyn DeviceIo, erases: bool) -> Result<(), Error> {
        let holds = match found(medium)? {
            (DeviceContents::Nothing, None) => None,
            (DeviceContents::Nothing, Some(what)) => Some(what),
            (DeviceContents::Table(_) | DeviceContents::Unusable(_), _) => Some("a store of Shoal"),
        };
        match holds {
            Some(what) if !erases => Err(Error::Unusable(format!(
                "the device holds {what}, which would be lost: --erase allows that"
            ))),
            _ => write_fresh(medium),
        }
    }
}

/// Returns the table, or the other contents of the device.
fn found(medium: &dyn DeviceIo) -> Result<(DeviceContents, Option<&'static str>), Error> {
    let failed = |source| Error::Disk { action: "read from the device", source };
    if medium.bytes() < LEAST_BYTES {
        return Err(Error::Unusable(format!(
            "the device has {} bytes, and {LEAST_BYTES} are least",
            medium.bytes()
        )));
    }
    let (mut beginning, mut end) = (vec![0; FIRST_AT as usize], vec![0; FIRST_AT as usize]);
    read_full(medium.buffered(), &mut beginning, 0).map_err(failed)?;
    read_full(medium.buffered(), &mut end, medium.bytes() - FIRST_AT).map_err(failed)?;
    Ok((Table::read(&beginning), foreign::looks_like(&beginning, &end)))
}

/// Checks that a table fits its device.
fn checked(table: Table, device_bytes: u64) -> Result<Table, Error> {
    let made_for = table.device_bytes;
    if made_for > device_bytes {
        return Err(Error::Unusable(format!(
            "the device has {device_bytes} bytes and says that it has {made_for}: it is another one, or only part of it; \
             `shoal store format --erase` begins anew"
        )));
    }
    let fits =
        |extent: &Extent| extent.at >= FIRST_AT && extent.capacity <= made_for.saturating_sub(extent.at);
    match table.extents.iter().all(|extent| fits(extent) && extent.length <= extent.capacity) {
        true => Ok(table),
        false => Err(refused("its table of extents makes no sense")),
    }
}

/// Writes two empty tables, and zeros up to the first extent.
fn write_fresh(medium: &dyn DeviceIo) -> Result<(), Error> {
    let failed = |source| Error::Disk { action: "write to the device", source };
    let mut table = Table::new(medium.bytes());
    let mut beginning = table.encode().0;
    table.sequence = 1;
    beginning.extend(table.encode().0);
    beginning.resize(FIRST_AT as usize, 0);
    write_full(medium.buffered(), &beginning, 0).map_err(failed)?;
    medium.buffered().sync().map_err(failed)
}

fn refused(why: &str) -> Error {
    Error::Unusable(format!(
        "the device is not used, since {why}; if that may be lost, `shoal store format --erase` makes it Shoal's"
    ))
}

impl DeviceState {
    /// Changes the table, on disk first. If `change` fails, the table stays as it was.
    fn change<T>(&self, change: impl FnOnce(&mut Table) -> io::Result<T>) -> io::Result<T> {
        let mut table = self.table.lock();
        let mut next = table.clone();
        let outcome = change(&mut next)?;
        next.sequence += 1;
        let (bytes, at) = next.encode();
        debug_assert_eq!(bytes.len(), COPY_BYTES);
        write_full(self.medium.buffered(), &bytes, at)?;
        self.medium.buffered().sync()?;
        *table = next;
        Ok(outcome)
    }

    fn extent(&self, name: &str) -> io::Result<Extent> {
        let table = self.table.lock();
        table.extents.iter().find(|extent| extent.name == name).cloned().ok_or_else(|| Errno::NOENT.into())
    }

    /// Sets an extent's length, and gives space to an extent without any. With `takes_more` its
    /// space may grow in place.
    fn grow(&self, name: &str, bytes: u64, takes_more: bool) -> io::Result<Extent> {
        self.change(|table| {
            let gap = if name.ends_with(LAST_ENDING) { table.last_gap(bytes) } else { table.gap(bytes) };
            let found = table.extents.iter().find(|extent| extent.name == name);
            let behind = found.map(|extent| table.free_until(extent.at));
            let extent = table.extents.iter_mut().find(|extent| extent.name == name).ok_or(Errno::NOENT)?;
            if extent.capacity == 0 {
                (extent.at, extent.capacity) = (gap.ok_or(Errno::NOSPC)?, bytes);
            }
            if bytes > extent.capacity {
                let most = behind.unwrap_or(0).saturating_sub(extent.at);
                if !takes_more || bytes > most {
                    return Err(Errno::NOSPC.into());
                }
                extent.capacity = bytes;
            }
            extent.length = bytes;
            Ok(extent.clone())
        })
    }

    fn zero(&self, at: u64, bytes: u64) -> io::Result<()> {
        let zeros = vec![0; ALIGN.min(bytes) as usize];
        let mut done = 0;
        while done < bytes {
            let count = (bytes - done).min(ALIGN) as usize;
            write_full(self.medium.buffered(), &zeros[..count], at + done)?;
            done += count as u64;
        }
        Ok(())
    }
}

impl FileSystem for DeviceFs {
    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        self.shared.change(|table| {
            if path.is_empty() || path.len() > NAME_MAX || path.contains('/') {
                return Err(Errno::NAMETOOLONG.into());
            }
            if table.extents.iter().any(|extent| extent.name == path) {
                return Err(Errno::EXIST.into());
            }
            if table.extents.len() >= EXTENTS_MAX {
                return Err(Errno::NOSPC.into());
            }
            table.extents.push(Extent { name: path.to_owned(), at: FIRST_AT, capacity: 0, length: 0 });
            Ok(())
        })?;
        self.open(path, Access::Write)
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        self.shared.extent(path)?;
        let (shared, name) = (Arc::clone(&self.shared), path.to_owned());
        Ok(Box::new(ExtentFile { shared, name, access, is_direct: false }))
    }

    fn open_direct(&self, path: &str, access: Access) -> io::Result<Box<dyn File>> {
        self.shared.extent(path)?;
        let (shared, name) = (Arc::clone(&self.shared), path.to_owned());
        Ok(Box::new(ExtentFile { shared, name, access, is_direct: true }))
    }

    fn load(&self, path: &str, bytes: u64) -> io::Result<Box<dyn LoadedWords>> {
        let extent = self.shared.extent(path)?;
        match bytes <= extent.length {
            true => self.shared.medium.load(extent.at, bytes),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn length(&self, path: &str) -> io::Result<u64> {
        self.shared.extent(path).map(|extent| extent.length)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        self.shared.change(|table| {
            let at = table.extents.iter().position(|extent| extent.name == path).ok_or(Errno::NOENT)?;
            table.extents.remove(at);
            Ok(())
        })
    }

    fn make_folder(&self, _path: &str) -> io::Result<bool> {
        Err(Errno::OPNOTSUPP.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.shared.change(|table| {
            if to.is_empty() || to.len() > NAME_MAX || from == to {
                return Err(Errno::INVAL.into());
            }
            let is_there = table.extents.iter().any(|extent| extent.name == from);
            table.extents.retain(|extent| !is_there || extent.name != to);
            let renamed = table.extents.iter_mut().find(|extent| extent.name == from);
            renamed.ok_or(Errno::NOENT)?.name = to.to_owned();
            Ok(())
        })
    }

    fn remove_folder(&self, _path: &str) -> io::Result<()> {
        Err(Errno::NOENT.into())
    }

    fn list(&self, path: &str, limit: usize) -> io::Result<Vec<String>> {
        match path {
            "" => Ok(self
                .shared
                .table
                .lock()
                .extents
                .iter()
                .take(limit)
                .map(|extent| extent.name.clone())
                .collect()),
            _ => Err(Errno::NOENT.into()),
        }
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space { block_bytes: COPY_BYTES as u64, free_bytes: self.shared.table.lock().free_bytes() })
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn map(&self, _path: &str, _bytes: u64) -> io::Result<Box<dyn Mapping>> {
        Err(Errno::OPNOTSUPP.into())
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.medium.buffered().sync()
    }
}

/// Open extent.
struct ExtentFile {
    shared: Arc<DeviceState>,
    name: String,
    access: Access,
    is_direct: bool,
}

impl ExtentFile {
    fn medium(&self) -> &dyn File {
        if self.is_direct { self.shared.medium.direct() } else { self.shared.medium.buffered() }
    }

    fn check_access(&self) -> io::Result<()> {
        if self.access == Access::Write { Ok(()) } else { Err(Errno::BADF.into()) }
    }
}

impl File for ExtentFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let extent = self.shared.extent(&self.name)?;
        let count = extent.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        if count == 0 { Ok(0) } else { self.medium().read_at(&mut buffer[..count], extent.at + offset) }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.check_access()?;
        let end = offset.checked_add(bytes.len() as u64).ok_or(Errno::FBIG)?;
        let mut extent = self.shared.extent(&self.name)?;
        if end > extent.length {
            extent = self.shared.grow(&self.name, end, false)?;
        }
        self.medium().write_at(bytes, extent.at + offset)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.check_access()?;
        let before = self.shared.extent(&self.name)?.length;
        let extent = self.shared.grow(&self.name, bytes, false)?;
        self.shared.zero(extent.at + before, bytes.saturating_sub(before))
    }

    fn reserve(&self, bytes: u64, zeros: u64) -> io::Result<()> {
        self.check_access()?;
        let extent = self.shared.grow(&self.name, bytes, true)?;
        self.shared.zero(extent.at, zeros.min(bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.medium().sync()
    }
}

/// Ending of the names of extents at the end of the device.
const LAST_ENDING: &str = ".next";
/// Smallest device, in bytes.
const LEAST_BYTES: u64 = 8 << 20;
