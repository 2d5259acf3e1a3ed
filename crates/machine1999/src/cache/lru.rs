//! Table in order of use: the base of all caches of the model. Every operation takes constant time.

use super::Mixed;
use std::collections::HashMap;
use std::hash::Hash;

/// Keys with values, in order of use. The table has no limit; its owner has one.
#[derive(Debug)]
pub(in super::super) struct Lru<K, V> {
    places: HashMap<K, u32, Mixed>,
    nodes: Vec<Node<K, V>>,
    free: Vec<u32>,
    /// Least recently used.
    oldest: u32,
    newest: u32,
}

#[derive(Debug)]
struct Node<K, V> {
    key: K,
    value: V,
    older: u32,
    newer: u32,
}

impl<K: Copy + Eq + Hash, V> Lru<K, V> {
    pub(in super::super) fn new() -> Self {
        Self { places: HashMap::default(), nodes: Vec::new(), free: Vec::new(), oldest: NONE, newest: NONE }
    }

    pub(in super::super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(in super::super) fn contains(&self, key: K) -> bool {
        self.places.contains_key(&key)
    }

    /// Returns the value, without counting a use.
    pub(in super::super) fn peek(&self, key: K) -> Option<&V> {
        self.places.get(&key).map(|place| &self.nodes[*place as usize].value)
    }

    /// Returns the value, and makes its key the most recently used.
    pub(in super::super) fn touch(&mut self, key: K) -> Option<&mut V> {
        let place = *self.places.get(&key)?;
        if place != self.newest {
            self.unlink(place);
            self.link(place);
        }
        Some(&mut self.nodes[place as usize].value)
    }

    /// Inserts an absent key as the most recently used.
    pub(in super::super) fn insert(&mut self, key: K, value: V)
    where
        V: Default,
    {
        let node = Node { key, value, older: NONE, newer: NONE };
        let place = match self.free.pop() {
            Some(place) => {
                self.nodes[place as usize] = node;
                place
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        let before = self.places.insert(key, place);
        debug_assert!(before.is_none(), "the caller has looked");
        self.link(place);
        debug_assert_eq!(
            self.places.len() + self.free.len(),
            self.nodes.len(),
            "each node is in use or free"
        );
    }

    /// Removes a key.
    pub(in super::super) fn remove(&mut self, key: K) -> Option<V>
    where
        V: Default,
    {
        let place = self.places.remove(&key)?;
        self.unlink(place);
        self.free.push(place);
        debug_assert_eq!(self.places.is_empty(), self.oldest == NONE, "an empty list has no oldest");
        Some(std::mem::take(&mut self.nodes[place as usize].value))
    }

    /// Returns the least recently used key.
    pub(in super::super) fn oldest(&self) -> Option<K> {
        self.nodes.get(self.oldest as usize).map(|node| node.key)
    }

    fn unlink(&mut self, place: u32) {
        let Node { older, newer, .. } = self.nodes[place as usize];
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
    }

    fn link(&mut self, place: u32) {
        let newest = self.newest;
        let node = &mut self.nodes[place as usize];
        (node.older, node.newer) = (newest, NONE);
        match self.nodes.get_mut(newest as usize) {
            Some(node) => node.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }
}

/// Index that stands for no node.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_list_in_order_of_use() {
        let (mut lru, mut list) = (Lru::new(), Vec::<(u32, u32)>::new());
        let mut state = 1u64;
        for step in 0..20_000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = (state >> 33) as u32 % 50;
            let place = list.iter().position(|(known, _)| *known == key);
            match (state >> 60) % 4 {
                0 => assert_eq!(lru.remove(key), place.map(|place| list.remove(place).1)),
                1 => assert_eq!(lru.peek(key).copied(), place.map(|place| list[place].1)),
                _ => match place {
                    Some(place) => {
                        let entry = list.remove(place);
                        assert_eq!(lru.touch(key).copied(), Some(entry.1));
                        list.push(entry);
                    }
                    None => {
                        assert!(lru.touch(key).is_none());
                        lru.insert(key, step);
                        list.push((key, step));
                    }
                },
            }
            assert_eq!((lru.len(), lru.oldest()), (list.len(), list.first().map(|entry| entry.0)));
        }
    }
}
