//! File or device of a volume: its bytes, its seal, and the health of its disk.

use super::FAILURES_MAX;
use super::format::VolumeGeometry;
use crate::architectures::seal::Seal;
use crate::fs::{File, WriteGate};
use crate::{Error, InsertRefusal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use tracing::{debug, error};

/// File of a volume.
pub(super) struct VolumeFile {
    pub(super) data: Box<dyn File>,
    pub(super) geometry: VolumeGeometry,
    pub(super) seal: Seal,
    /// First sealed chunk: records are sealed in stripes that begin with this chunk or a later one.
    pub(super) sealed_from: AtomicU64,
    pub(super) health: Health,
    /// Gate that every write to the volume and its index passes.
    pub(super) gate: Arc<WriteGate>,
}

/// Health of the disk.
#[derive(Default)]
pub(super) struct Health {
    /// Consecutive disk failures.
    failures: AtomicU32,
    /// Failures without a waiting caller.
    pub(super) in_background: AtomicU64,
    has_been_said: AtomicBool,
    out_of_service: AtomicBool,
}

impl VolumeFile {
    pub(super) fn sync_data(&self) -> Result<(), Error> {
        self.data.sync().map_err(|source| self.failed("bring the volume to disk", source))
    }

    /// Records a disk failure, logs the first one, and takes the disk out of service after
    /// `FAILURES_MAX` in a row.
    pub(super) fn failed(&self, action: &'static str, source: std::io::Error) -> Error {
        if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem && self.gate.is_closed() {
            return Error::Declined(InsertRefusal::OutOfService);
        }
        let failures = self.health.failures.fetch_add(1, Relaxed) + 1;
        if !self.health.has_been_said.swap(true, Relaxed) {
            error!(
                action,
                error = %source,
                "the disk failed; what cannot be read or written is fetched again. Further failures are counted"
            );
        }
        if failures >= FAILURES_MAX && !self.health.out_of_service.swap(true, Relaxed) {
            // A caller with several disks logs this with the name of the disk.
            debug!(action, error = %source, "the disk goes on failing and is left alone until it is opened again");
        }
        Error::Disk { action, source }
    }

    /// Counts a failure that no caller gets to see.
    pub(super) fn note_in_background<T>(&self, outcome: Result<T, Error>) -> Option<T> {
        if matches!(outcome, Err(Error::Disk { .. })) {
            self.health.in_background.fetch_add(1, Relaxed);
        }
        outcome.ok()
    }

    pub(super) fn succeeded(&self) {
        if self.health.failures.load(Relaxed) != 0 {
            self.health.failures.store(0, Relaxed);
        }
    }

    pub(super) fn check_service(&self) -> Result<(), Error> {
        match self.health.out_of_service.load(Relaxed) {
            true => Err(Error::Declined(InsertRefusal::OutOfService)),
            false => Ok(()),
        }
    }
}
