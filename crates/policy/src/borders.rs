//! Borders between groups of records on a disk that is written stripe by stripe.
//!
//! A group is a set of records that lie together because they belong together: the objects of a
//! site, or the pieces of a body. For each page one bit says if a group begins in it, so that a
//! window around an object can end with the group. Of the bytes around an object, its own group is
//! requested soon in four cases of ten. Bytes beyond the group are requested in one case of a
//! hundred (docs/experiments/volume-notebook.md).
//!
//! ```text
//! pages:    │ site a     │         a │  a   b   c │  c         │   (contents)
//! begins:         1            0           1            0           1
//! ```
//!
//! Positions are offsets from the stripe's beginning. A border in the page of an object that fits
//! in that page may lie before the object or after it. In both cases the object's group is taken to
//! be this page.
//!
//! Cost: one bit a page, 32 bytes for each stripe of 1 MiB. Finding a group looks at each of its
//! pages, at most at those near enough to be read.

use crate::neighbourhood::GROUP_MAX;
use std::ops::Range;

/// Beginnings of groups, by stripe. The borders of an unknown stripe can be learnt, once.
#[derive(Debug)]
pub struct GroupBorders {
    stripe_pages: u64,
    words: usize,
    begins: Vec<u64>,
    knowledge: Vec<Knowledge>,
}

/// Knowledge of a stripe's groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    /// The stripe was not read yet.
    None,
    /// The beginnings of its groups are known.
    Groups,
    /// The stripe does not record its groups.
    NoGroups,
}

impl GroupBorders {
    /// Makes borders for `stripes` stripes of `stripe_bytes` bytes. Nothing is known of them.
    pub fn new(stripes: u32, stripe_bytes: u64) -> Self {
        let stripe_pages = stripe_bytes / PAGE;
        let words = stripe_pages.div_ceil(64) as usize;
        let begins = vec![0; stripes as usize * words];
        Self { stripe_pages, words, begins, knowledge: vec![Knowledge::None; stripes as usize] }
    }

    /// Forgets a stripe that is written anew from its beginning. The writer will [mark](Self::mark)
    /// all groups that begin there.
    pub fn clear(&mut self, stripe: u32) {
        let at = stripe as usize * self.words;
        self.begins[at..at + self.words].fill(0);
        self.knowledge[stripe as usize] = Knowledge::Groups;
    }

    /// Marks these offsets as beginnings of groups.
    pub fn mark(&mut self, stripe: u32, offsets: impl IntoIterator<Item = u64>) {
        for offset in offsets {
            let page = (offset / PAGE).min(self.stripe_pages - 1);
            self.begins[stripe as usize * self.words + page as usize / 64] |= 1 << (page % 64);
        }
    }

    /// Learns all beginnings of the stripe's groups. `offsets` is empty when the stripe does not
    /// record them.
    pub fn learn(&mut self, stripe: u32, offsets: &[u64]) {
        self.mark(stripe, offsets.iter().copied());
        let is_told = !offsets.is_empty();
        self.knowledge[stripe as usize] = if is_told { Knowledge::Groups } else { Knowledge::NoGroups };
    }

    /// Returns `true` if the stripe was not read yet.
    pub fn is_unknown(&self, stripe: u32) -> bool {
        self.knowledge[stripe as usize] == Knowledge::None
    }

    /// Returns the whole pages of these bytes' group, as far as the group is short enough to be
    /// read at once. `None` when groups are not known.
    pub fn group_of(&self, stripe: u32, wanted: &Range<u64>) -> Option<Range<u64>> {
        if self.knowledge[stripe as usize] != Knowledge::Groups {
            return None;
        }
        let begins = |page: &u64| {
            let word = self.begins[stripe as usize * self.words + *page as usize / 64];
            word >> (page % 64) & 1 == 1
        };
        let (first, last) = (wanted.start / PAGE, wanted.end.saturating_sub(1) / PAGE);
        let farthest = first.saturating_sub(REACH_PAGES);
        let from = (farthest..=first).rev().find(begins).unwrap_or(farthest);
        let farthest = (last + REACH_PAGES).min(self.stripe_pages);
        let next = (last..farthest).find(begins);
        let to = next.map_or(farthest, |page| page + 1);
        Some(from * PAGE..to * PAGE)
    }
}

const PAGE: u64 = 4096;
/// Number of pages on one side of an object at which a group is too long.
const REACH_PAGES: u64 = GROUP_MAX / PAGE + 1;

#[cfg(test)]
mod tests {
    use super::*;

    const STRIPE: u64 = 1 << 20;

    #[test]
    fn group_reaches_to_next_groups_first_page() {
        let mut borders = GroupBorders::new(3, STRIPE);
        borders.clear(1);
        borders.mark(1, [64, 10_000, 200_000, 900_000]);
        let groups = [
            (64..5_000, 0..12_288),
            (5_000..6_000, 0..12_288),
            (10_000..30_000, 8_192..200_704),
            (195_000..196_000, 8_192..200_704),
            (900_000..910_000, 897_024..STRIPE),
            (STRIPE - 100..STRIPE, 897_024..STRIPE),
        ];
        for (wanted, group) in groups {
            assert_eq!(borders.group_of(1, &wanted), Some(group), "{wanted:?}");
        }
        let long = borders.group_of(1, &(500_000..510_000)).expect("it is known");
        assert!(long.start + GROUP_MAX < 500_000 && long.end > 510_000 + GROUP_MAX - PAGE, "{long:?}");
        borders.clear(1);
        borders.mark(1, [64]);
        assert_eq!(
            borders.group_of(1, &(10_000..30_000)).map(|group| group.start),
            Some(0),
            "it is written anew"
        );
    }

    #[test]
    fn object_in_border_page_gets_that_page() {
        let mut borders = GroupBorders::new(1, STRIPE);
        borders.clear(0);
        borders.mark(0, [64, 9_000, 11_000, 40_000]);
        for wanted in [9_000..11_000, 8_200..8_900, 11_000..12_000] {
            assert_eq!(borders.group_of(0, &wanted), Some(8_192..12_288), "{wanted:?}");
        }
        assert_eq!(borders.group_of(0, &(11_000..13_000)), Some(8_192..40_960));
    }

    #[test]
    fn unrecorded_borders_are_unknown() {
        let mut borders = GroupBorders::new(2, 64 << 10);
        assert!(borders.is_unknown(0) && borders.group_of(0, &(0..100)).is_none());
        borders.mark(0, [20_000]);
        assert!(borders.is_unknown(0), "of the rest nothing is known");
        borders.learn(0, &[64, 9_000]);
        assert_eq!(borders.group_of(0, &(9_000..13_000)), Some(8_192..20_480));
        borders.learn(1, &[]);
        assert!(!borders.is_unknown(1) && borders.group_of(1, &(0..100)).is_none());
    }
}
