//! Index of the rules that can match a host and a path, without a look at each rule.
//!
//! A rule stands under each of its hosts and, there, under the text of each of its paths before the
//! first star. A look-up takes the exact host, each of its parents and "any"; in each, one hash for
//! each length of prefix that some rule has. Cost: the product of labels and lengths, whatever the
//! number of rules.

use smallvec::SmallVec;
use std::collections::HashMap;

/// Numbers of rules, in the order of the file.
pub type Numbers = SmallVec<[u32; 16]>;

/// Rules by host and path prefix.
#[derive(Clone, Debug, Default)]
pub struct Index {
    exact: HashMap<Box<str>, Prefixes>,
    /// By suffix, with its leading dot.
    suffixes: HashMap<Box<str>, Prefixes>,
    any: Prefixes,
}

/// Rules by path prefix.
#[derive(Clone, Debug, Default)]
struct Prefixes {
    rules: HashMap<Box<str>, Vec<u32>>,
    /// Lengths of the prefixes, rising.
    lengths: Vec<usize>,
}

impl Index {
    /// Adds a rule for the hosts `host` (a name, `*.suffix` or `*`) and paths that begin with
    /// `prefix`.
    pub fn add(&mut self, host: &str, prefix: &str, rule: u32) {
        let prefixes = match host.strip_prefix('*') {
            Some("") => &mut self.any,
            Some(suffix) => self.suffixes.entry(suffix.into()).or_default(),
            None => self.exact.entry(host.into()).or_default(),
        };
        prefixes.add(prefix, rule);
    }

    /// Returns the rules that can match, each once, in order. `host` is in lower case.
    pub fn candidates(&self, host: &str, path: &str) -> Numbers {
        let mut found = Numbers::new();
        if let Some(prefixes) = self.exact.get(host) {
            prefixes.find(path, &mut found);
        }
        if !self.suffixes.is_empty() {
            for (dot, _) in host.match_indices('.') {
                if let Some(prefixes) = self.suffixes.get(&host[dot..]) {
                    prefixes.find(path, &mut found);
                }
            }
        }
        self.any.find(path, &mut found);
        found.sort_unstable();
        found.dedup();
        debug_assert!(found.is_sorted(), "rules take part in the order of the file");
        found
    }
}

impl Prefixes {
    fn add(&mut self, prefix: &str, rule: u32) {
        self.rules.entry(prefix.into()).or_default().push(rule);
        if let Err(place) = self.lengths.binary_search(&prefix.len()) {
            self.lengths.insert(place, prefix.len());
        }
        assert!(self.lengths.is_sorted(), "lengths rise");
    }

    fn find(&self, path: &str, found: &mut Numbers) {
        for length in &self.lengths {
            let Some(prefix) = path.get(..*length) else { continue };
            found.extend(self.rules.get(prefix).into_iter().flatten().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_come_by_host_and_prefix() {
        let mut index = Index::default();
        for (rule, (host, prefix)) in
            [("*", ""), ("a.test", "/x/"), ("*.test", "/"), ("*.b.test", "/"), ("a.test", "/y")]
                .iter()
                .enumerate()
        {
            index.add(host, prefix, rule as u32);
        }
        for (host, path, rules) in [
            ("a.test", "/x/1", vec![0, 1, 2]),
            ("a.test", "/y", vec![0, 2, 4]),
            ("c.b.test", "/", vec![0, 2, 3]),
            ("b.test", "/", vec![0, 2]),
            ("other", "/", vec![0]),
            ("a.test", "/ü", vec![0, 2]),
        ] {
            assert_eq!(index.candidates(host, path).to_vec(), rules, "{host} {path}");
        }
    }
}
