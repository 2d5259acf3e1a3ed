//! Versions and times of a document, within bounds: a small document that is coded may hold names
//! without end.

use crate::json::{Visitor, Walk};
use crate::{BadDocument, Facts, Survey};

/// Bound of the names that a survey keeps.
#[derive(Default)]
pub struct NameBound {
    names: usize,
    bytes: usize,
}

impl NameBound {
    /// Counts one more name of this length. Returns `true` if it may be kept.
    pub fn take(&mut self, bytes: usize) -> bool {
        self.names += 1;
        self.bytes += bytes;
        self.holds()
    }

    fn holds(&self) -> bool {
        self.names <= NAMES_MAX && self.bytes <= BYTES_MAX
    }

    /// Returns an error once more was counted than may be kept.
    pub fn check(&self) -> Result<(), BadDocument> {
        match self.holds() {
            true => Ok(()),
            false => Err(BadDocument { at: 0, why: "more versions than any package has" }),
        }
    }
}

/// Visitor that gathers versions and times.
pub trait Times: Visitor + Default {
    /// Returns the bound of the names.
    fn bound(&self) -> &NameBound;

    /// Returns the versions and times.
    fn facts(self) -> Facts;
}

/// Reader of versions and times in a JSON document.
pub struct JsonSurvey<V> {
    walk: Walk<V>,
    unread: Vec<u8>,
}

impl<V: Times> JsonSurvey<V> {
    /// Creates a reader.
    pub fn new() -> Self {
        Self { walk: Walk::new(V::default()), unread: Vec::new() }
    }
}

impl<V: Times> Survey for JsonSurvey<V> {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        for piece in input.chunks(STEP) {
            self.unread.clear();
            self.walk.push(piece, &mut self.unread)?;
            self.walk.visitor.bound().check()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Facts, BadDocument> {
        self.walk.finish(&mut self.unread)?;
        let visitor = std::mem::take(&mut self.walk.visitor);
        visitor.bound().check()?;
        let facts = visitor.facts();
        debug_assert!(facts.versions.len() + facts.tags.len() <= NAMES_MAX, "the bound holds");
        Ok(facts)
    }
}

/// Bytes of a document that are read at a time.
const STEP: usize = 64 << 10;
/// Most names of a package: versions, files, tags, times.
const NAMES_MAX: usize = 200_000;
/// Most bytes of all of them.
const BYTES_MAX: usize = 24 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bytes_are_bounded() {
        let mut bound = NameBound::default();
        assert!(bound.take(BYTES_MAX) && bound.check().is_ok());
        assert!(!bound.take(1) && bound.check().is_err());
        let mut bound = NameBound::default();
        assert!((0..NAMES_MAX).all(|_| bound.take(0)));
        assert!(!bound.take(0));
    }
}
