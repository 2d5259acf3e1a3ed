//! Names as numbers: each distinct name is kept once and numbered in order of first appearance.
//!
//! Names lie one behind the other in one buffer, found through an open-addressed table of numbers:
//! 8 bytes a name plus 4 to 8 in the table plus the name itself, one hash and about 1.5 comparisons
//! a lookup.

use shoal_core::Key;

/// Distinct names.
#[derive(Clone, Default)]
pub struct Dictionary {
    text: String,
    /// Where each name ends.
    ends: Vec<u64>,
    /// Numbers plus one by hash, 0 where free; a power of two, at most three quarters full.
    table: Vec<u32>,
}

impl Dictionary {
    /// The number of a name, which is added when it is new. `None` when there is no number left.
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
        Some(number)
    }

    /// The number of a name that is in.
    pub fn find(&self, name: &str) -> Option<u32> {
        if self.table.is_empty() {
            return None;
        }
        self.table[self.slot(name)].checked_sub(1)
    }

    /// The name of a number; empty when it has none.
    pub fn name(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        match (start, self.ends.get(number)) {
            (Some(start), Some(end)) => &self.text[start as usize..*end as usize],
            _ => "",
        }
    }

    /// How many names there are; their numbers run from 0.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The names in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len() as u32).map(|number| self.name(number))
    }

    /// Where the name is, or would be.
    fn slot(&self, name: &str) -> usize {
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

    /// Where a name goes that is known not to be in the table.
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
