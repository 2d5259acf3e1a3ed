//! Bodies that are being read: their pins, and the end of objects that fail on the way.

use super::UrlTree;
use crate::object::BodyOwner;
use std::io;
use std::sync::Arc;

/// Body that is being read.
pub(super) struct TreeBody {
    pub(super) tree: Arc<UrlTree>,
    pub(super) folder: String,
    pub(super) sequence: u64,
}

impl BodyOwner for TreeBody {
    fn found_corrupt(&self, part: &'static str) {
        // A disk failure has been logged, and the object fails its check again the next time.
        let _ = self.tree.drop_object(&self.folder, Some(self.sequence), part);
    }

    fn failed(&self, error: &io::Error) {
        if is_unreadable(error) {
            self.found_corrupt("unreadable file");
        }
    }
}

impl Drop for TreeBody {
    fn drop(&mut self) {
        if let Some(bytes) = self.tree.bodies.unpin(self.sequence) {
            self.tree.give_back(bytes);
        }
    }
}

/// Returns `true` if the medium cannot return the data; other errors may pass.
pub(super) fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}
