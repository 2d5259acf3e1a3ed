//! Memory of the rules' judgement on an object in RAM, so that a hit does not look rules up.
//!
//! The judgement depends on the URL alone, and so on the key. The first plain hit after the object
//! came or the rules changed makes it. It holds while these rules are in force.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Number of rules and sites in force: each reload has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulesNumber(u32);

/// A judgement with the number of the rules that made it; without at first.
#[derive(Debug, Default)]
pub struct RuleJudgement(AtomicU32);

impl RulesNumber {
    /// Returns a number that no other rules of this process have.
    ///
    /// # Panics
    /// After two billion reloads.
    pub fn next() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Relaxed) + 1;
        assert!(number <= u32::MAX >> 1, "a number beyond those that a judgement can hold");
        Self(number)
    }

    /// Returns the number, which is less than 2^31.
    #[inline]
    pub(crate) fn get(self) -> u32 {
        self.0
    }
}

impl RuleJudgement {
    /// Returns the judgement of the rules with this number; `judge` makes it where there is none.
    #[inline]
    pub fn of(&self, number: RulesNumber, judge: impl FnOnce() -> bool) -> bool {
        let remembered = self.0.load(Relaxed);
        if remembered >> 1 == number.0 {
            return remembered & 1 == 1;
        }
        let judgement = judge();
        self.0.store(number.0 << 1 | u32::from(judgement), Relaxed);
        judgement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgement_holds_for_its_own_rules() {
        let judgement = RuleJudgement::default();
        let [first, second] = [RulesNumber::next(), RulesNumber::next()];
        assert_ne!(first, second);
        assert!(judgement.of(first, || true));
        assert!(judgement.of(first, || unreachable!("it is remembered")));
        assert!(!judgement.of(second, || false));
        assert!(!judgement.of(second, || unreachable!("it is remembered")));
        assert!(judgement.of(first, || true), "of other rules");
    }
}
