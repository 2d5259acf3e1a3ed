//! `shoal trace anonymize`.

use super::sink::{TraceOutputOptions, stream};
use super::source::TraceInputOptions;
use crate::failure::Failure;
use crate::show::counted;
use shoal_trace::{Anonymizer, Queries};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Replace names by keyed hashes that keep their structure
///
/// A host keeps its number of labels and its last label. A path keeps its number of segments and a
/// well-known extension. Hosts of one domain and files of one folder stay together. Clients are
/// hashed; user names and queries are dropped. Times, sizes, methods and statuses stay: a person
/// with knowledge of a request for an object of a rare size may recognise it. Without --key-file a
/// random key is used and discarded, so that nobody, not even you, can hash a name to look for it.
#[derive(clap::Args)]
pub struct TraceAnonymizeOptions {
    /// The trace
    trace: String,
    /// File with the key, for several traces that need the same hashes
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Hash queries instead of dropping them, so that URLs with different queries stay distinct
    #[arg(long)]
    hash_queries: bool,
    #[command(flatten)]
    reading: TraceInputOptions,
    #[command(flatten)]
    writing: TraceOutputOptions,
}

impl TraceAnonymizeOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let key = match &self.key_file {
            Some(path) => bytes_of(path)?,
            None => drawn()?,
        };
        let queries = if self.hash_queries { Queries::Hashed } else { Queries::Dropped };
        let anonymizer = Anonymizer::new(&key, queries);
        let source = self.reading.open(&self.trace)?;
        let mut dropped = 0u64;
        stream(source, &self.writing, |record| {
            dropped += u64::from(queries == Queries::Dropped && record.url.contains('?'));
            Some(anonymizer.apply(record))
        })?;
        if dropped > 0 {
            eprintln!(
                "{} lost their queries, and URLs that differ in them alone are one object now, so that caches hit more; --hash-queries keeps them apart",
                counted(dropped, "request")
            );
        }
        Ok(())
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |why: String| Failure::Runtime(format!("{}: {why}", path.display()));
    let mut key = Vec::new();
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(KEY_BYTES_MAX).read_to_end(&mut key).map_err(|error| failed(error.to_string()))?;
    if key.len() < KEY_BYTES_MIN {
        return Err(failed(format!("a key has {KEY_BYTES_MIN} bytes at least")));
    }
    Ok(key)
}

/// Returns random bytes of the system.
fn drawn() -> Result<Vec<u8>, Failure> {
    let mut key = vec![0; 32];
    File::open("/dev/urandom")
        .and_then(|mut chance| chance.read_exact(&mut key))
        .map_err(|error| Failure::Runtime(format!("cannot draw a key: {error}")))?;
    Ok(key)
}

const KEY_BYTES_MIN: usize = 16;
const KEY_BYTES_MAX: u64 = 4096;
