//! Several traces merged by time.
//!
//! Each trace must be in order of its times. A request without a time, or with an earlier time than
//! its predecessor's, stays behind its predecessor. Requests of equal times follow the order of the
//! traces. Cost: one heap step a request.

use crate::reader::{Error, Reader};
use crate::record::Record;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;

/// Merge of readers.
pub struct Merge<R> {
    readers: Vec<Reader<R>>,
    /// Next request of each reader.
    next: Vec<Option<Record<'static>>>,
    /// Time of each next request, with the number of its reader.
    due: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<R: Read> Merge<R> {
    /// Merges these readers.
    ///
    /// # Errors
    /// Returns the readers' errors.
    pub fn new(readers: Vec<Reader<R>>) -> Result<Self, Error> {
        let count = readers.len();
        let mut merge = Self { readers, next: (0..count).map(|_| None).collect(), due: BinaryHeap::new() };
        (0..count).try_for_each(|reader| merge.advance(reader, 0))?;
        Ok(merge)
    }

    /// Returns the next request.
    ///
    /// # Errors
    /// Returns the readers' errors.
    pub fn next_record(&mut self) -> Result<Option<Record<'static>>, Error> {
        let Some(Reverse((time, reader))) = self.due.pop() else { return Ok(None) };
        let record = self.next[reader].take();
        assert!(record.is_some(), "a reader that is due has a record");
        self.advance(reader, time)?;
        Ok(record)
    }

    /// Returns the readers, for their accounts.
    pub fn readers(&self) -> &[Reader<R>] {
        &self.readers
    }

    fn advance(&mut self, reader: usize, not_before: u64) -> Result<(), Error> {
        self.next[reader] = self.readers[reader].next(|record| record.clone().into_owned())?;
        if let Some(record) = &self.next[reader] {
            self.due.push(Reverse((record.time_ms.unwrap_or(0).max(not_before), reader)));
            debug_assert!(self.due.len() <= self.readers.len(), "each reader is due once");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::ReadOptions;

    #[test]
    fn requests_come_by_time_and_nothing_is_lost() {
        let texts = ["time_s,url\n1,a\n5,b\n3,c\n9,d\n", "time_s,url\n2,e\n5,f\n-,g\n6,h\n", "time_s,url\n"];
        let reader =
            |text: &'static str| Reader::new(text.as_bytes(), &ReadOptions::default()).expect("a table");
        let mut merge = Merge::new(texts.map(reader).into()).expect("readable");
        let mut found = String::new();
        while let Some(record) = merge.next_record().expect("readable") {
            found.push_str(&record.url);
        }
        assert_eq!(found, "aebcfghd");
        assert_eq!(merge.readers().iter().map(|reader| reader.reading().requests).sum::<u64>(), 8);
    }
}
