//! Journal: the vector and the latest purges on disk, written before a purge is acknowledged.
//!
//! Records are appended and synced. At each start, and when it has grown, the file is replaced by a
//! short one with the same state. Each record has a check that depends on its place. A file with
//! any damage says nothing: all that was stored before it needs validation. `docs/FORMATS.md` has
//! the tables.

use shoal_cooperation::NodeId;
use shoal_cooperation::invalidation::{Purge, PurgeLedger, Vector, decode_purges, encode_purges};
use shoal_core::Timestamp;
use shoal_store::fs::private;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Open journal.
pub struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    node: NodeId,
}

/// State that a journal holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalState {
    /// Purges that the node has applied.
    pub vector: Vector,
    /// Latest purges, in the order of their application.
    pub purges: Vec<Purge>,
    /// Responses requested before this number need validation.
    pub validate_before: u64,
    /// Time of the last comparison, by the node's clock.
    pub compared: Option<Timestamp>,
    /// `true` if a disk could not remove a purged response: the next start validates all.
    pub is_uncertain: bool,
    /// Latest life of the node.
    pub life: u64,
}

/// Change of the state.
#[derive(Clone, Debug)]
pub enum JournalRecord {
    /// A vector in place of the one before.
    Vector(Vector),
    /// Purges that the node has applied.
    Applied(Vec<Purge>),
    /// Purges that the vector covers already.
    Earlier(Vec<Purge>),
    /// Responses requested before this number need validation.
    ValidateBefore(u64),
    /// Time of a comparison with a peer.
    Compared(Timestamp),
    /// A disk could not remove a purged response.
    Uncertain,
    /// Start of the node.
    Life(u64),
}

impl Journal {
    /// Reads the file of this node; `None` if it is absent, damaged or another node's.
    pub fn read(path: &Path, node: NodeId) -> io::Result<Option<JournalState>> {
        // Anything but a file, such as a pipe, is replaced. Reading it might not end.
        if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            return Ok(None);
        }
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok(parse(&bytes, node))
    }

    /// Replaces the file by one with this state. Returns when it is on the disk.
    pub fn create(path: &Path, node: NodeId, state: &JournalState) -> io::Result<Self> {
        let mut bytes = header(node);
        let fixed = [
            JournalRecord::Life(state.life),
            JournalRecord::Vector(state.vector.clone()),
            JournalRecord::ValidateBefore(state.validate_before),
        ];
        let earlier =
            state.purges.chunks(RECORD_PURGES).map(|purges| JournalRecord::Earlier(purges.to_vec()));
        let compared = state.compared.map(JournalRecord::Compared);
        let uncertain = state.is_uncertain.then_some(JournalRecord::Uncertain);
        for record in fixed.into_iter().chain(earlier).chain(compared).chain(uncertain) {
            append(&record, &mut bytes, 0);
        }
        debug_assert_eq!(parse(&bytes, node).as_ref(), Some(state), "a journal that reads otherwise");
        let beside = path.with_extension("cluster-new");
        let mut file = private::emptied(&beside)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(Self { path: path.to_owned(), file, bytes: bytes.len() as u64, node })
    }

    /// Appends records. Returns when they are on the disk. After a failure the file is replaced by
    /// the next call that finds it too long or broken.
    pub fn append(&mut self, records: &[JournalRecord]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for record in records {
            append(record, &mut bytes, self.bytes);
        }
        self.file.write_all(&bytes)?;
        self.bytes += bytes.len() as u64;
        self.file.sync_data()
    }

    /// Returns `true` if the file has grown so much that it is to be replaced.
    pub fn is_long(&self) -> bool {
        self.bytes > REPLACED_FROM
    }

    /// Replaces the file by a short one with this state.
    pub fn replace(&mut self, state: &JournalState) -> io::Result<()> {
        *self = Self::create(&self.path, self.node, state)?;
        Ok(())
    }
}

impl JournalState {
    /// Returns the state of a ledger. The rest is that of `self`.
    pub fn with_ledger(&self, ledger: &PurgeLedger) -> Self {
        let purges = ledger.log().entries().map(|(purge, _)| purge.clone()).collect();
        Self { vector: ledger.vector().clone(), purges, life: ledger.life(), ..self.clone() }
    }

    fn apply(&mut self, record: JournalRecord) {
        match record {
            JournalRecord::Vector(vector) => self.vector = vector,
            JournalRecord::Applied(purges) => {
                for purge in purges {
                    let _ = self.vector.advance(purge.id, &purge.scope);
                    self.purges.push(purge);
                }
            }
            JournalRecord::Earlier(purges) => self.purges.extend(purges),
            JournalRecord::ValidateBefore(number) => self.validate_before = self.validate_before.max(number),
            JournalRecord::Compared(time) => self.compared = Some(time),
            JournalRecord::Uncertain => self.is_uncertain = true,
            JournalRecord::Life(life) => self.life = self.life.max(life),
        }
    }
}

fn header(node: NodeId) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(node.0.to_le_bytes());
    let check = xxh3_64_with_seed(&bytes, 0);
    bytes.extend(check.to_le_bytes());
    debug_assert_eq!(bytes.len(), HEADER_BYTES);
    bytes
}

/// Appends a record to `out`, which begins at `at` in the file: length, kind, contents, check.
fn append(record: &JournalRecord, out: &mut Vec<u8>, at: u64) {
    let place = at + out.len() as u64;
    let mut contents = Vec::new();
    match record {
        JournalRecord::Vector(vector) => {
            contents.push(1);
            vector.encode(&mut contents);
        }
        JournalRecord::Applied(purges) => {
            contents.push(2);
            encode_purges(purges, &mut contents);
        }
        JournalRecord::Earlier(purges) => {
            contents.push(3);
            encode_purges(purges, &mut contents);
        }
        JournalRecord::ValidateBefore(number) => {
            contents.push(4);
            contents.extend(number.to_le_bytes());
        }
        JournalRecord::Compared(time) => {
            contents.push(5);
            contents.extend(time.millis().to_le_bytes());
        }
        JournalRecord::Uncertain => contents.push(6),
        JournalRecord::Life(life) => {
            contents.push(7);
            contents.extend(life.to_le_bytes());
        }
    }
    out.extend((contents.len() as u32).to_le_bytes());
    let check = xxh3_64_with_seed(&contents, place);
    out.extend(contents);
    out.extend(check.to_le_bytes());
}

/// Reads a whole file; `None` if any byte is not as it was written.
fn parse(bytes: &[u8], node: NodeId) -> Option<JournalState> {
    if bytes.len() as u64 > FILE_BYTES_MAX || !bytes.starts_with(&header(node)) {
        return None;
    }
    let mut state = JournalState::default();
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let (length, rest) = bytes[at..].split_first_chunk::<4>()?;
        let (contents, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (check, _) = rest.split_first_chunk::<8>()?;
        if xxh3_64_with_seed(contents, at as u64) != u64::from_le_bytes(*check) {
            return None;
        }
        state.apply(record_of(contents)?);
        at += 4 + contents.len() + 8;
    }
    Some(state)
}

fn record_of(contents: &[u8]) -> Option<JournalRecord> {
    let (kind, rest) = contents.split_first()?;
    let number = || Some(u64::from_le_bytes(rest.try_into().ok()?));
    Some(match kind {
        1 => JournalRecord::Vector(Vector::of_bytes(rest)?),
        2 => JournalRecord::Applied(decode_purges(rest)?),
        3 => JournalRecord::Earlier(decode_purges(rest)?),
        4 => JournalRecord::ValidateBefore(number()?),
        5 => JournalRecord::Compared(Timestamp::from_millis(number()?)),
        6 if rest.is_empty() => JournalRecord::Uncertain,
        7 => JournalRecord::Life(number()?),
        _ => return None,
    })
}

const MAGIC: &[u8; 8] = b"SHOALpgv";
const VERSION: u64 = 1;
const HEADER_BYTES: usize = 32;

/// Most purges of a record.
pub const RECORD_PURGES: usize = 1024;

/// Length from which the file is replaced.
const REPLACED_FROM: u64 = 8 << 20;

/// Most bytes that are read of a file. The longest append ends far below.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_cooperation::invalidation::{PurgeId, Scope};

    const NODE: NodeId = NodeId(7);

    fn purge(number: u64) -> Purge {
        let id = PurgeId { origin: NODE, life: 3, number };
        Purge { id, scope: Scope::Tag(format!("t{number}")) }
    }

    /// Writes a file with records of each kind. Returns its path and state.
    fn written(folder: &Path) -> (PathBuf, JournalState) {
        let path = folder.join("purges.cluster");
        let state = JournalState { life: 3, validate_before: 9, ..JournalState::default() };
        let mut journal = Journal::create(&path, NODE, &state).expect("made");
        let records = [
            JournalRecord::Applied(vec![purge(1), purge(2)]),
            JournalRecord::ValidateBefore(12),
            JournalRecord::Compared(Timestamp::from_seconds(5)),
            JournalRecord::Uncertain,
        ];
        journal.append(&records[..1]).expect("written");
        journal.append(&records[1..]).expect("written");
        let state = Journal::read(&path, NODE).expect("read").expect("whole");
        (path, state)
    }

    #[test]
    fn records_read_back_after_each_append() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, state) = written(folder.path());
        assert_eq!(state.vector.number(NODE, 3), 2);
        assert_eq!(state.purges, [purge(1), purge(2)]);
        assert_eq!((state.validate_before, state.is_uncertain, state.life), (12, true, 3));
        assert_eq!(state.compared, Some(Timestamp::from_seconds(5)));
        let mut journal = Journal::create(&path, NODE, &state).expect("replaced");
        assert_eq!(Journal::read(&path, NODE).expect("read"), Some(state));
        journal.append(&[JournalRecord::Applied(vec![purge(3)])]).expect("written");
        let state = Journal::read(&path, NODE).expect("read").expect("whole");
        assert_eq!(state.vector.number(NODE, 3), 3);
        assert_eq!(Journal::read(&path, NodeId(8)).expect("read"), None, "another node's");
        assert_eq!(Journal::read(&folder.path().join("none"), NODE).expect("read"), None);
    }

    #[test]
    fn any_damage_makes_the_file_unknown() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, state) = written(folder.path());
        let whole = std::fs::read(path).expect("there");
        assert_eq!(parse(&whole, NODE), Some(state));
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            assert_eq!(parse(&bytes, NODE), None, "byte {at}");
        }
        // A file that ends with a whole record is one that was not written further.
        let cuts = (0..whole.len()).filter(|at| parse(&whole[..*at], NODE).is_some()).count();
        assert_eq!(cuts, 7, "the header, and all records but the last");
    }
}
