//! Names as numbers: each distinct name is kept once and numbered in order of first appearance.
//!
//! All names lie in one buffer, one after another. An open-addressed table of numbers finds a name.
//! A name costs its own bytes, 8 bytes, and 4 to 8 bytes in the table. A lookup costs one hash and
//! about 1.5 comparisons.

use shoal_core::Key;

/// Distinct names.
#[derive(Clone, Default)]
pub struct Dictionary {
    text: String,
    /// End of each name in `text`.
    ends: Vec<u64>,
    /// Numbers plus one by hash, 0 for a free slot. The length is a power of two; at most three
    /// quarters of the slots are used.
    table: Vec<u32>,
}

impl Dictionary {
    /// Returns the number of a name and adds a new name. Returns `None` when no number is left.
    pub fn number(&mut self, name: &str) -> Option<u32> {
        if (self.ends.len() + 1) * 4 > self.table.len() * 3 {
            self.grow();
        }
        let slot = self.slot(name);
        if let Some(known) = self.table[slot].checked_sub(1) {
            return Some(known);
        }
        let number = u32::try_from(self.ends.len()).ok().filter(|number| *number < u32::MAX)?;
        self.text.push_str(name);
        self.ends.push(self.text.len() as u64);
        self.table[slot] = number + 1;
        debug_assert_eq!(self.name(number), name, "the name reads back");
        Some(number)
    }

    /// Returns the number of a known name.
    pub fn find(&self, name: &str) -> Option<u32> {
        if self.table.is_empty() {
            return None;
        }
        self.table[self.slot(name)].checked_sub(1)
    }

    /// Returns the name of a number, or an empty name for an unused number.
    pub fn name(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        match (start, self.ends.get(number)) {
            (Some(start), Some(end)) => &self.text[start as usize..*end as usize],
            _ => "",
        }
    }

    /// Returns the number of names. Their numbers begin at 0.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns `true` if the dictionary has no names.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the names in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len() as u32).map(|number| self.name(number))
    }

    /// Returns the slot of the name, or the free slot where the name would go.
    fn slot(&self, name: &str) -> usize {
        debug_assert!(self.table.len().is_power_of_two(), "the mask takes a power of two");
        debug_assert!(self.ends.len() < self.table.len(), "a free slot ends the search");
        let mask = self.table.len() - 1;
        let mut slot = Key::unkeyed(name.as_bytes()).low() as usize & mask;
        while let Some(known) = self.table[slot].checked_sub(1) {
            if self.name(known) == name {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        self.table = vec![0; (self.table.len() * 2).max(64)];
        for number in 0..self.ends.len() as u32 {
            let slot = self.slot_of_new(self.name(number));
            self.table[slot] = number + 1;
        }
    }

    /// Returns the free slot for a name that is not in the table.
    fn slot_of_new(&self, name: &str) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = Key::unkeyed(name.as_bytes()).low() as usize & mask;
        while self.table[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn numbers_are_those_of_an_obvious_table() {
        let mut dictionary = Dictionary::default();
        let mut obvious: HashMap<String, u32> = HashMap::new();
        for step in 0..20_000u64 {
            let name = format!("name {}", (step * step) % 7919);
            let next = obvious.len() as u32;
            let expected = *obvious.entry(name.clone()).or_insert(next);
            assert_eq!(dictionary.number(&name), Some(expected));
            assert_eq!(dictionary.name(expected), name);
        }
        assert_eq!(dictionary.len(), obvious.len());
        assert!(obvious.iter().all(|(name, number)| dictionary.find(name) == Some(*number)));
        assert_eq!(dictionary.find("absent"), None);
        assert_eq!(dictionary.name(dictionary.len() as u32), "");
        assert_eq!(Dictionary::default().find(""), None);
    }
}
