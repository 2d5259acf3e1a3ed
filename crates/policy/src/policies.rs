//! Replacement policies by name, for settings, the lab and reports.

use crate::replacement::{Fingerprint, Replacement};
use crate::{Fifo, Gdsf, LfuDa, Lru, Ring, S3Fifo, SecondChance, Sieve, Slru, WTinyLfu};
use shoal_core::Key;

/// Policy with its published name.
pub struct ReplacementPolicy<K = Key> {
    /// Published name, as settings and reports write it.
    pub name: &'static str,
    /// Publication.
    pub source: &'static str,
    /// `true` if the policy has to be told the capacity ([`Replacement::set_capacity`]). The RAM
    /// tier changes its capacity and does not offer it.
    pub needs_capacity: bool,
    /// Makes an empty order.
    pub construct: fn() -> Box<dyn Replacement<K>>,
}

impl<K: Fingerprint> ReplacementPolicy<K> {
    /// Every policy that does not know the future. The offline ones, [`Belady`](crate::Belady) and
    /// [`BeladySize`](crate::BeladySize), are made from a trace.
    pub const ALL: &'static [Self] = &[
        Self::of::<Fifo<K>>("fifo", "Belady 1966"),
        Self::of::<Ring<SecondChance, K>>("clock", "Corbató 1969"),
        Self::of::<Lru<K>>("lru", "Mattson et al. 1970"),
        Self::of::<Slru<K>>("slru", "Karedla et al. 1994; Huang et al. 2013"),
        Self {
            name: "slru_fill",
            source: "as `slru`, filled as in libCacheSim",
            needs_capacity: true,
            construct: || Box::new(Slru::<K>::filling_upwards()),
        },
        Self::of::<LfuDa<K>>("lfu_da", "Arlitt et al. 2000"),
        Self::of::<Gdsf<K>>("gdsf", "Cherkasova 1998"),
        Self::of::<S3Fifo<K>>("s3_fifo", "Yang et al. 2023"),
        Self::of::<Sieve<K>>("sieve", "Zhang et al. 2024"),
        Self::of::<WTinyLfu<K>>("w_tinylfu", "Einziger et al. 2017"),
    ];

    /// Returns the policy of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|policy| policy.name == name)
    }

    const fn of<P: Replacement<K> + Default + 'static>(name: &'static str, source: &'static str) -> Self {
        Self { name, source, needs_capacity: false, construct: || Box::new(P::default()) }
    }
}

/// Policies for the cache's own keys.
pub const POLICIES: &[ReplacementPolicy] = ReplacementPolicy::<Key>::ALL;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_the_name_that_it_goes_by() {
        for policy in POLICIES {
            assert_eq!((policy.construct)().name(), policy.name);
            let found = ReplacementPolicy::<Key>::named(policy.name).expect("it is in the table");
            assert_eq!(found.source, policy.source, "{} stands there twice", policy.name);
        }
        assert!(ReplacementPolicy::<u64>::named("optimal").is_none());
    }
}
