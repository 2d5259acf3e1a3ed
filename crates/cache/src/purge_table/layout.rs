//! Layout of the tables' file: its pieces, byte by byte, and their offsets. `docs/FORMATS.md` has
//! the table.
//!
//! Each piece has its own check, seeded with the table's number and the piece's place. A damaged
//! piece is therefore detected, and a piece of another file is rejected. All pieces except groups
//! are sectors of 512 bytes, which a disk writes whole or not at all.

use super::eras::{EARLIER_END, ERAS_MAX, Era, Eras};
use super::groups::{self, ENTRY_BYTES, PLACES};
use super::{SLOTS, Tables};
use crate::clock::{self, ClockState};
use shoal_store::fs::private;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Contents of a file. A damaged piece is `None`, or an error.
pub(super) struct Content {
    /// Number of the table; 0 in earlier versions.
    pub id: u64,
    /// Reading of the cache's clock at the last write.
    pub clock: ClockState,
    pub eras: Eras,
    pub slots: Box<[Option<u64>]>,
    pub groups: Vec<Result<Option<groups::Entry>, ()>>,
    /// `true` if the file has this version's format, and may be written piece by piece.
    pub is_current: bool,
}

impl Content {
    /// Returns empty contents, for a new file or a file without reliable data.
    fn nothing() -> Self {
        let slots = vec![Some(0); SLOTS].into();
        Self {
            id: 0,
            clock: ClockState::default(),
            eras: Eras::default(),
            slots,
            groups: Vec::new(),
            is_current: false,
        }
    }

    fn read(bytes: &[u8]) -> Self {
        match bytes.len() as u64 {
            BYTES => Self::current(bytes).unwrap_or_else(Self::nothing),
            EARLIER_BYTES | EARLIEST_BYTES => Self::earlier(bytes),
            _ => Self::nothing(),
        }
    }

    fn current(bytes: &[u8]) -> Option<Self> {
        let header = content(sector(bytes, HEADER), 0)?;
        if &header[..8] != MAGIC || header[8..12] != VERSION.to_le_bytes() {
            return None;
        }
        let id = word(&header[16..]);
        let clock = ClockState {
            time_ms: word(&header[24..]),
            boot: word(&header[32..]),
            up_ms: word(&header[40..]),
        };
        let content = |number: u32| content(sector(bytes, number), id ^ u64::from(number));
        let era = |bytes: &[u8]| Era { start: word(bytes), ceiling: word(&bytes[8..]) };
        let eras =
            (ERA_SECTORS..SLOT_SECTORS).filter_map(content).flat_map(|eras| eras[..496].chunks_exact(16));
        let eras = Eras::of(eras.map(era).filter(|era| era.ceiling > 0));
        let slots = (SLOT_SECTORS..PLACES_FROM).flat_map(|number| {
            let slots = content(number);
            (0..SLOTS_A_SECTOR).map(move |at| slots.map(|slots| word(&slots[8 * at..])))
        });
        let slots = slots.take(SLOTS).collect();
        let groups = (0..).zip(bytes[PLACES_AT..].chunks_exact(ENTRY_BYTES));
        let groups = groups.map(|(place, bytes)| groups::decode(bytes, place, id)).collect();
        Some(Self { id, clock, eras, slots, groups, is_current: true })
    }

    /// Reads an earlier version: times in milliseconds and, in the later of these versions, groups
    /// behind them.
    fn earlier(bytes: &[u8]) -> Self {
        let (times, groups) = bytes.split_at(EARLIEST_BYTES as usize);
        let slots =
            times.chunks_exact(8).map(word).map(|time| (time <= EARLIER_END).then_some(time)).collect();
        let groups = (0..).zip(groups.chunks_exact(ENTRY_BYTES));
        let groups = groups.map(|(place, bytes)| groups::decode(bytes, place, 0)).collect();
        let eras = Eras::of([Era::of_times()]);
        Self { id: 0, clock: ClockState::default(), eras, slots, groups, is_current: false }
    }

    /// Returns the greatest number in the file.
    pub fn highest(&self) -> u64 {
        let slots = self.slots.iter().flatten().copied();
        let groups = self.groups.iter().flatten().flatten().map(|entry| entry.time);
        slots.chain(groups).chain(self.eras.last().map(|era| era.ceiling)).max().unwrap_or(0)
    }
}

impl Tables {
    /// Returns the offset of a piece, and its current bytes.
    pub(super) fn piece(&self, number: u32) -> (u64, Vec<u8>) {
        let id = self.id.load(Ordering::Acquire);
        if number >= PLACES_FROM {
            let place = (number - PLACES_FROM) as u16;
            let at = PLACES_AT + usize::from(place) * ENTRY_BYTES;
            return (at as u64, self.groups.encode(place, id).to_vec());
        }
        let mut bytes = Vec::with_capacity(SECTOR);
        match number {
            HEADER => {
                bytes.extend_from_slice(MAGIC);
                bytes.extend_from_slice(&u64::from(VERSION).to_le_bytes());
                let clock = clock::reading();
                for number in [id, clock.time_ms, clock.boot, clock.up_ms] {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
            }
            ERA_SECTORS..SLOT_SECTORS => {
                let eras = self.eras.load();
                let from = (number - ERA_SECTORS) as usize * ERAS_A_SECTOR;
                let eras = eras.all().iter().skip(from).take(ERAS_A_SECTOR);
                eras.for_each(|era| {
                    bytes.extend_from_slice(&era.start.to_le_bytes());
                    bytes.extend_from_slice(&era.ceiling.to_le_bytes());
                });
            }
            _ => {
                let from = (number - SLOT_SECTORS) as usize * SLOTS_A_SECTOR;
                let slots = from..(from + SLOTS_A_SECTOR).min(SLOTS);
                let times = slots.map(|slot| self.slots.load(slot, Ordering::Acquire));
                times.for_each(|time| bytes.extend_from_slice(&time.to_le_bytes()));
            }
        }
        bytes.resize(SECTOR - 8, 0);
        let seed = if number == HEADER { 0 } else { id ^ u64::from(number) };
        let check = xxh3_64_with_seed(&bytes, seed);
        bytes.extend_from_slice(&check.to_le_bytes());
        (u64::from(number) * SECTOR as u64, bytes)
    }

    /// Writes the whole file in place of the existing one. Returns when it is on the disk.
    pub(super) fn write_whole(&self, path: &Path) -> io::Result<File> {
        let beside = path.with_extension("new");
        let mut file = private::emptied(&beside)?;
        let pieces = (0..PIECES).flat_map(|number| self.piece(number).1);
        file.write_all(&pieces.collect::<Vec<u8>>())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(file)
    }
}

/// Opens the file, and reads it; a new one is empty.
pub(super) fn open(path: &Path) -> io::Result<(File, Content)> {
    let mut file = private::file(path)?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(EARLIER_BYTES + 1).read_to_end(&mut bytes)?;
    Ok((file, Content::read(&bytes)))
}

/// Returns the piece that holds a slot.
pub(super) fn piece_of_slot(slot: usize) -> u32 {
    SLOT_SECTORS + (slot / SLOTS_A_SECTOR) as u32
}

/// Returns the piece of a group's place.
pub(super) fn piece_of_place(place: u16) -> u32 {
    PLACES_FROM + u32::from(place)
}

/// Returns all pieces.
pub(super) fn pieces() -> std::ops::Range<u32> {
    0..PIECES
}

/// Returns the pieces that hold eras.
pub(super) fn pieces_of_eras() -> std::ops::Range<u32> {
    ERA_SECTORS..SLOT_SECTORS
}

fn sector(bytes: &[u8], number: u32) -> &[u8] {
    &bytes[number as usize * SECTOR..][..SECTOR]
}

/// Returns the contents of a sector if its check is correct.
fn content(sector: &[u8], seed: u64) -> Option<&[u8]> {
    let (content, check) = sector.split_at(SECTOR - 8);
    (xxh3_64_with_seed(content, seed) == word(check)).then_some(content)
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// Length of the file. Earlier versions have other lengths.
pub(super) const BYTES: u64 = (PLACES_AT + PLACES * ENTRY_BYTES) as u64;
/// Length of an earlier version with times and groups.
const EARLIER_BYTES: u64 = 1_310_720;
/// Length of the earliest version, with times alone.
const EARLIEST_BYTES: u64 = 524_288;
const MAGIC: &[u8; 8] = b"SHOALprg";
const VERSION: u32 = 2;
const SECTOR: usize = 512;
/// Piece with the table's identity and the clock's reading.
pub(super) const HEADER: u32 = 0;
const ERA_SECTORS: u32 = 1;
const ERAS_A_SECTOR: usize = 31;
const SLOT_SECTORS: u32 = ERA_SECTORS + ERAS_MAX.div_ceil(ERAS_A_SECTOR) as u32;
const SLOTS_A_SECTOR: usize = 63;
/// Number of pieces before the groups' places.
const PLACES_FROM: u32 = SLOT_SECTORS + SLOTS.div_ceil(SLOTS_A_SECTOR) as u32;
const PLACES_AT: usize = PLACES_FROM as usize * SECTOR;
const PIECES: u32 = PLACES_FROM + PLACES as u32;

const _: () = assert!(BYTES < EARLIER_BYTES, "a limit on disk space that was enough is enough");
const _: () = assert!(BYTES != EARLIEST_BYTES, "a version is known by its length");
