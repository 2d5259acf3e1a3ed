//! A map of few keys: a sorted vector. While it is small, which it mostly is, a lookup is a
//! comparison or two and nothing is allocated for an entry that comes and goes.

/// Values by key.
pub(super) struct Few<K, V>(Vec<(K, V)>);

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> Few<K, V> {
    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.place(key).ok().map(|index| &self.0[index].1)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(key).ok().map(|index| &mut self.0[index].1)
    }

    /// The value of a key, which is put in if it is not there.
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

    /// Takes a key out.
    pub fn remove(&mut self, key: &K) {
        if let Ok(index) = self.place(key) {
            self.0.remove(index);
        }
    }

    /// All keys with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.0.iter()
    }

    /// Whether there is no key.
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
