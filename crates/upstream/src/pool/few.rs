//! Map of few keys: a sorted vector. While the map is small, as usual, a lookup takes a comparison
//! or two, and short-lived entries allocate nothing.

/// Values by key.
pub(super) struct Few<K, V>(Vec<(K, V)>);

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> Few<K, V> {
    /// Returns the value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.place(key).ok().map(|index| &self.0[index].1)
    }

    /// Returns the value of a key for changes.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(key).ok().map(|index| &mut self.0[index].1)
    }

    /// Returns the value of a key, inserting a default if missing.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let index = match self.place(&key) {
            Ok(index) => index,
            Err(index) => {
                self.0.insert(index, (key, V::default()));
                index
            }
        };
        &mut self.0[index].1
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &K) {
        if let Ok(index) = self.place(key) {
            self.0.remove(index);
        }
    }

    /// Returns all keys with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.0.iter()
    }

    /// Returns `true` if the map has no key.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn place(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.cmp(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_and_go_in_order() {
        let mut few: Few<u8, &str> = Few::default();
        for (key, value) in [(3, "c"), (1, "a"), (2, "b")] {
            *few.get_or_default(key) = value;
        }
        few.remove(&1);
        few.remove(&9);
        assert!(few.iter().eq(&[(2, "b"), (3, "c")]));
        assert_eq!((few.get(&3), few.get(&1)), (Some(&"c"), None));
    }
}
