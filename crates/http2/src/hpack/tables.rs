//! Static and dynamic table (RFC 7541 section 2.3).

use super::fields::FIELD_OVERHEAD;
use std::collections::VecDeque;

/// Table that a client builds up: its latest fields, at most [`TABLE_BYTES_MAX`] as section 4.1
/// counts.
///
/// The text of the entries is one piece, oldest first. Evicted text is removed when it exceeds half
/// of the piece. So an empty table holds nothing, and a full one at most twice its bytes.
#[derive(Debug)]
pub(super) struct Dynamic {
    text: Vec<u8>,
    /// Entries, newest last.
    entries: VecDeque<Entry>,
    /// Bytes at the front of the text that belong to evicted entries.
    unused: usize,
    /// Size as section 4.1 counts.
    size: usize,
    size_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Offset of the entry's first byte in the text.
    start: usize,
    name_bytes: u16,
    value_bytes: u16,
}

impl Default for Dynamic {
    fn default() -> Self {
        Self { text: Vec::new(), entries: VecDeque::new(), unused: 0, size: 0, size_max: TABLE_BYTES_MAX }
    }
}

impl Dynamic {
    /// Returns name and value of the entry `index` places behind the newest.
    pub fn entry(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let entry = self.entries.get(self.entries.len().checked_sub(index + 1)?)?;
        let (name, value) = (usize::from(entry.name_bytes), usize::from(entry.value_bytes));
        let text = &self.text[entry.start..entry.start + name + value];
        Some(text.split_at(name))
    }

    /// Adds a field as the newest entry and evicts the oldest. A field larger than the table
    /// empties the table and is not added.
    pub fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + FIELD_OVERHEAD;
        self.evict_to(self.size_max.saturating_sub(size));
        if size > self.size_max {
            return;
        }
        let start = self.text.len();
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        // Both are shorter than the table.
        let (name_bytes, value_bytes) = (name.len() as u16, value.len() as u16);
        self.entries.push_back(Entry { start, name_bytes, value_bytes });
        self.size += size;
        debug_assert_eq!(self.entry(0), Some((name, value)), "the newest is in front");
        self.invariants();
    }

    /// Checks all that is said of the fields, in debug builds.
    fn invariants(&self) {
        debug_assert!(self.size <= self.size_max);
        debug_assert!(self.size_max <= TABLE_BYTES_MAX);
        if cfg!(debug_assertions) {
            let mut end = self.unused;
            for entry in &self.entries {
                assert_eq!(entry.start, end, "entries stand one behind the other");
                end += usize::from(entry.name_bytes) + usize::from(entry.value_bytes);
            }
            assert_eq!(end, self.text.len());
            assert_eq!(end - self.unused + self.entries.len() * FIELD_OVERHEAD, self.size);
        }
    }

    /// Changes the table's size (section 6.3). `None` for more than this side allows.
    pub fn resize(&mut self, size_max: usize) -> Option<()> {
        if size_max > TABLE_BYTES_MAX {
            return None;
        }
        self.size_max = size_max;
        self.evict_to(size_max);
        self.invariants();
        Some(())
    }

    fn evict_to(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_front()
        {
            let bytes = usize::from(entry.name_bytes) + usize::from(entry.value_bytes);
            debug_assert!(self.size >= bytes + FIELD_OVERHEAD);
            self.size -= bytes + FIELD_OVERHEAD;
            self.unused += bytes;
        }
        debug_assert!(self.size <= size);
        debug_assert!(self.unused <= self.text.len());
        if self.unused > self.text.len() / 2 {
            let unused = std::mem::take(&mut self.unused);
            self.text.drain(..unused);
            self.entries.iter_mut().for_each(|entry| entry.start -= unused);
        }
    }
}

/// Default of SETTINGS_HEADER_TABLE_SIZE (RFC 9113 section 6.5.2).
pub(super) const TABLE_BYTES_MAX: usize = 4096;

/// Static table (RFC 7541 appendix A), from index 1 on.
pub(super) static STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

const _: () = {
    // Lengths of names and values are 16 bits.
    assert!(TABLE_BYTES_MAX <= u16::MAX as usize);
    assert!(TABLE_BYTES_MAX > FIELD_OVERHEAD);
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares the table with a list of fields that drops the oldest while it is too large.
        #[test]
        fn the_table_is_a_bounded_list(
            steps in prop::collection::vec((0usize..3000, 0usize..2000, prop::option::weighted(0.1, 0usize..5000)), 0..60)
        ) {
            let mut table = Dynamic::default();
            let mut list: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let mut size_max = TABLE_BYTES_MAX;
            let keep = |list: &mut Vec<(Vec<u8>, Vec<u8>)>, size_max: usize| {
                while list.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>() > size_max {
                    list.pop();
                }
            };
            for (at, (name, value, resize)) in steps.into_iter().enumerate() {
                if let Some(size) = resize {
                    prop_assert_eq!(table.resize(size).is_some(), size <= TABLE_BYTES_MAX);
                    size_max = if size <= TABLE_BYTES_MAX { size } else { size_max };
                    keep(&mut list, size_max);
                }
                let (name, value) = (vec![at as u8; name], vec![!(at as u8); value]);
                table.insert(&name, &value);
                list.insert(0, (name, value));
                keep(&mut list, size_max);
                for (index, (name, value)) in list.iter().enumerate() {
                    prop_assert_eq!(table.entry(index), Some((&name[..], &value[..])));
                }
                prop_assert_eq!(table.entry(list.len()), None);
                prop_assert!(table.text.len() <= 2 * TABLE_BYTES_MAX);
            }
        }
    }
}
