//! A representative part of a trace: all requests for some of the objects, or of some of the
//! clients, or some of all requests.
//!
//! A sample by object preserves hit ratios (with a cache reduced by the sample's rate). A sample by
//! client preserves the behaviour of each client. A sample by request preserves neither and serves
//! to look at a log.

use crate::random::Random;
use crate::record::Record;
use shoal_core::Key;

/// Chooser of requests.
pub struct Sampler {
    by: SampleBy,
    threshold: u64,
    seed: u64,
    random: Random,
}

/// Units that a sample is drawn from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SampleBy {
    /// Objects, with all their requests.
    #[default]
    Object,
    /// Clients, with all their requests.
    Client,
    /// Single requests.
    Request,
}

impl Sampler {
    /// Makes a sampler that takes a share `rate` of the units, from 0 to 1.
    pub fn new(by: SampleBy, rate: f64, seed: u64) -> Self {
        let threshold = if rate >= 1.0 { u64::MAX } else { (rate.max(0.0) * u64::MAX as f64) as u64 };
        Self { by, threshold, seed, random: Random::new(seed) }
    }

    /// Returns `true` if a request is in the sample.
    pub fn takes(&mut self, record: &Record<'_>) -> bool {
        let drawn = match self.by {
            SampleBy::Object => self.of(&record.url),
            SampleBy::Client => self.of(record.client.as_deref().unwrap_or_default()),
            SampleBy::Request => self.random.bits(),
        };
        drawn < self.threshold || self.threshold == u64::MAX
    }

    fn of(&self, name: &str) -> u64 {
        Random::of(self.seed, Key::unkeyed(name.as_bytes()).low()).bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_clients_are_taken_whole_or_not_at_all() {
        for by in [SampleBy::Object, SampleBy::Client, SampleBy::Request] {
            let mut sampler = Sampler::new(by, 0.3, 7);
            let mut taken = 0;
            let mut by_object = vec![[0u32; 2]; 1000];
            let mut by_client = vec![[0u32; 2]; 100];
            for step in 0..40_000usize {
                let (object, client) = (step % 1000, step / 7 % 100);
                let record = Record {
                    url: format!("http://a/{object}").into(),
                    client: Some(format!("c{client}").into()),
                    ..Record::default()
                };
                let is_in = usize::from(sampler.takes(&record));
                by_object[object][is_in] += 1;
                by_client[client][is_in] += 1;
                taken += is_in;
            }
            let is_whole = |counts: &[[u32; 2]]| counts.iter().all(|count| count[0] == 0 || count[1] == 0);
            assert_eq!(is_whole(&by_object), by == SampleBy::Object);
            assert_eq!(is_whole(&by_client), by == SampleBy::Client);
            assert!((9_000..16_000).contains(&taken), "{by:?}: {taken}");
        }
        let record = Record::default();
        assert!(Sampler::new(SampleBy::Object, 1.0, 1).takes(&record));
        assert!(!Sampler::new(SampleBy::Request, 0.0, 1).takes(&record));
    }
}
