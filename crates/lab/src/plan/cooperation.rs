//! Value of cooperation, by the wide-area model with this log's rate, popularity and changes.
//!
//! Joining k caches like this one makes one population k times as large over the same documents
//! (`model::wan`, C_N of Voelker 2000, chapter 5). Other sites share fewer documents than that, so
//! the gain is a bound from above. Where even the bound is small, the answer is no.
//!
//! The model's requests are independent. A log's requests come back sooner, so that a cache hits
//! more than C_N says. The model is therefore used at the point where its hits equal those of the
//! log's infinite cache. The population at that point is the unit for counting populations.
//!
//! Not all existing documents were requested. Their number is the one over which this popularity
//! gives the log's number of distinct objects.

use super::demand::Demand;
use crate::character::Character;
use crate::model::wan::paper::Rates;
use crate::model::wan::{Change, Form, Model, Web};

/// The verdict and its basis.
#[derive(Clone, Debug, PartialEq)]
pub struct CooperationVerdict {
    /// `true` if cooperation pays; `None` where the model has no answer.
    pub pays: Option<bool>,
    /// The verdict in one sentence.
    pub verdict: String,
    /// C_N alone and joined with others.
    pub joined: Vec<PopulationPoint>,
    /// Excess of the log's locality over the model's: the population that stands for this cache. 1
    /// where the model's hit ratio reaches the log's.
    pub locality: f64,
    /// Estimated number of existing documents.
    pub documents: u64,
    /// Days between changes of a popular document and of another.
    pub change_days: (f64, f64),
    /// `true` if the changes are the log's, `false` if they are the slow ones of the dissertation's
    /// Table 5.1.
    pub changes_from_log: bool,
}

/// One size of the population.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PopulationPoint {
    /// Caches like this one.
    pub caches: u32,
    /// C_N: the share of storable requests that hit.
    pub hit_ratio: f64,
}

impl CooperationVerdict {
    pub(super) fn of(character: &Character, demand: &Demand) -> Self {
        let change = &character.change;
        let days = |per_day: Option<f64>| per_day.filter(|rate| *rate > 0.0).map(|rate| 1.0 / rate);
        let from_log = days(change.popular.per_day()).zip(days(change.others.per_day()));
        let slow = (Rates::SLOW.popular_days, Rates::SLOW.unpopular_days);
        let mut cooperation = Self {
            pays: None,
            verdict: String::new(),
            joined: Vec::new(),
            locality: 1.0,
            documents: documents(character),
            change_days: from_log.unwrap_or(slow),
            changes_from_log: from_log.is_some(),
        };
        match cooperation.ask(character, demand) {
            Ok(joined) => cooperation.judge(joined),
            Err(why) => cooperation.verdict = format!("Not known: {why}."),
        }
        cooperation
    }

    /// Returns C_N for one cache and for several together. The log's storable requests are one
    /// client of the model, since only their rate counts.
    fn ask(&mut self, character: &Character, demand: &Demand) -> Result<Vec<PopulationPoint>, String> {
        let per_day = demand.storable_per_day().ok_or("the log tells no times")?;
        let web = Web {
            alpha: character.popularity.alpha.clamp(0.0, 4.0),
            documents: self.documents,
            popular: (self.documents as f64 * POPULAR).ceil() as u64,
            requests_per_day: per_day,
            cacheable: 1.0,
            mean_bytes: demand.mean_bytes,
            origin_seconds: 0.0,
            hit_seconds: 0.0,
            popular_change: Change::every(self.change_days.0),
            unpopular_change: Change::every(self.change_days.1),
        };
        let model = Model::new(web, Form::Sum).map_err(|error| error.to_string())?;
        let at = |population: f64| {
            model.cacheable_hit_rate(population).map(|rate| rate.total()).map_err(|error| error.to_string())
        };
        // Changes of size count as changes, as in the log's hit ratio by version.
        let found = character.infinite.version_hit_ratio;
        if at(1.0)? < found {
            self.locality = model
                .population_for(found)
                .map_err(|error| error.to_string())?
                .map_or(1.0, |found| found.max(1.0));
        }
        let locality = self.locality;
        let hit_ratio =
            |caches: u32| Ok(PopulationPoint { caches, hit_ratio: at(f64::from(caches) * locality)? });
        CACHES.into_iter().map(hit_ratio).collect()
    }

    fn judge(&mut self, joined: Vec<PopulationPoint>) {
        let alone = joined.first().map_or(0.0, |one| one.hit_ratio);
        let gain = |at: usize| (joined.get(at).map_or(alone, |more| more.hit_ratio) - alone) * 100.0;
        let (two, ten) = (gain(1), gain(3));
        let pays = two >= WORTH_POINTS;
        let answer = if pays { "Yes" } else { "No" };
        let so = match (pays, ten >= WORTH_POINTS) {
            (true, _) => "worth asking a neighbour with the same users' interests",
            (false, true) => "too little for one neighbour, and more only among many",
            (false, false) => "this cache's own clients already find nearly all that others would bring",
        };
        self.verdict = format!(
            "{answer}: one more cache like this one would raise the hit ratio by at most {two:.1} points, nine more by {ten:.1}; {so}."
        );
        self.pays = Some(pays);
        self.joined = joined;
    }
}

/// Returns the number of documents over which the log's requests, with this popularity, would meet
/// the log's number of distinct objects.
fn documents(character: &Character) -> u64 {
    let (requests, wanted) = (character.requests as f64, character.objects as f64);
    let alpha = character.popularity.alpha;
    let (mut low, mut high) = (wanted.max(1.0), wanted.max(1.0) * DOCUMENTS_MORE);
    if distinct(alpha, high, requests) < wanted {
        return high as u64;
    }
    while high / low > 1.01 {
        let middle = (low * high).sqrt();
        if distinct(alpha, middle, requests) < wanted { low = middle } else { high = middle }
    }
    high as u64
}

/// Returns the number of distinct documents that `requests` independent requests meet: Σ 1 −
/// e^(−R·p_i). Ranks are taken together by blocks that grow.
fn distinct(alpha: f64, documents: f64, requests: f64) -> f64 {
    let blocks = || {
        let mut first = 1.0f64;
        std::iter::from_fn(move || {
            let last = (first * BLOCK_GROWTH).floor().max(first).min(documents);
            let block =
                (first <= documents).then(|| (last - first + 1.0, ((first + last) / 2.0).powf(-alpha)));
            first = last + 1.0;
            block
        })
    };
    let total: f64 = blocks().map(|(ranks, weight)| ranks * weight).sum();
    blocks().map(|(ranks, weight)| ranks * (1.0 - (-requests * weight / total).exp())).sum()
}

/// Numbers of caches in the answer.
const CACHES: [u32; 5] = [1, 2, 4, 10, 100];
/// Share of documents that is popular: Wolman et al. 1999.
const POPULAR: f64 = 0.003;
/// Points of hit ratio that justify another hop on each miss.
const WORTH_POINTS: f64 = 5.0;
/// Largest number of documents, as a multiple of those seen.
const DOCUMENTS_MORE: f64 = 1000.0;
const BLOCK_GROWTH: f64 = 1.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_documents_is_found_again() {
        // Two requests meet 2·(1 − e^−1) of two documents with equal weight.
        assert!((distinct(0.0, 2.0, 2.0) - 2.0 * (1.0 - (-1.0f64).exp())).abs() < 1e-9);
        let slow: f64 = {
            let total: f64 = (1..=5000).map(|rank| f64::from(rank).powf(-0.8)).sum();
            (1..=5000).map(|rank| 1.0 - (-20_000.0 * f64::from(rank).powf(-0.8) / total).exp()).sum()
        };
        assert!((distinct(0.8, 5000.0, 20_000.0) / slow - 1.0).abs() < 0.01);
    }
}
