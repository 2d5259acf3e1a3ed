//! Selection frequencies: the rate at which each memory server is chosen for an evicted page.
//!
//! Voelker 2000, section 3.6.1. Each server's frequency is b·w + (1 − b)·a (Equation 3.1). A
//! frequency above the server's bound becomes the bound. The rest of the total is shared among the
//! other servers, with renormalised weights, until no server is above its bound.
//!
//! The text leaves two cases open; this code decides them so:
//!
//! - When the remaining servers hold none of the oldest pages, their age weights sum to zero and
//!   cannot be renormalised. Target weights alone then share the rest, and the reverse. A page
//!   finds a place while any server with memory to give is below its bound.
//! - The share that no server may take is *unplaced*: the node does not put that part of its pages.
//!   It drops them (or writes them) as it would without peers.
//!
//! O(servers) a round. Each round but the last fixes at least one server: at most servers + 1
//! rounds, and one or two when few bounds bind.

use super::FrequencyError;

/// Frequencies at which the servers are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    /// Share of the pages for each server.
    pub of: Vec<f64>,
    /// Share that no server may take. All shares sum to one.
    pub unplaced: f64,
}

/// Returns the frequencies for target weights, age weights, a load balancing rate from 0 to 1, and
/// upper bounds. The amount that each server lets this node borrow is added to its bound (see
/// [`RequestRate`](super::RequestRate)). Weights of each kind need not sum to one; a bound may be
/// infinite.
///
/// # Errors
/// When the lists differ in length, a number is negative or none, or the rate is out of range.
///
/// ```
/// use shoal_cooperation::global_memory::select;
///
/// // two servers of one size, the oldest pages all at the second, which may take no more than half
/// let found = select(&[0.5, 0.5], &[0.0, 1.0], 0.2, &[1.0, 0.5], &[0.0, 0.0]).unwrap();
/// assert_eq!((found.of, found.unplaced), (vec![0.5, 0.5], 0.0));
/// ```
pub fn select(
    weights: &[f64],
    ages: &[f64],
    b: f64,
    bounds: &[f64],
    borrowing: &[f64],
) -> Result<Frequencies, FrequencyError> {
    check(weights, ages, b, bounds, borrowing)?;
    let mut of = vec![0.0; weights.len()];
    let mut open: Vec<usize> = (0..weights.len()).collect();
    let mut remaining = 1.0;
    let limit = |server: usize| bounds[server] + borrowing[server];
    loop {
        let Some(share) = shares(weights, ages, b, &open) else { break };
        let exceeds = |server: usize| remaining * share(server) > limit(server);
        let (full, free): (Vec<usize>, Vec<usize>) = open.iter().partition(|server| exceeds(**server));
        if full.is_empty() {
            free.iter().for_each(|server| of[*server] = remaining * share(*server));
            remaining = 0.0;
            break;
        }
        for server in full {
            of[server] = limit(server);
            // Their bounds are below their shares, so a value below zero is a rounding error.
            remaining = f64::max(remaining - limit(server), 0.0);
        }
        open = free;
    }
    debug_assert!((0.0..=1.0).contains(&remaining));
    debug_assert!(of.iter().all(|frequency| *frequency >= 0.0));
    Ok(Frequencies { of, unplaced: remaining })
}

/// Returns each open server's share; all shares sum to one. `None` when the servers have no weight
/// of either kind.
fn shares<'a>(
    weights: &'a [f64],
    ages: &'a [f64],
    b: f64,
    open: &[usize],
) -> Option<impl Fn(usize) -> f64 + 'a> {
    let sum = |of: &[f64]| open.iter().map(|server| of[*server]).sum::<f64>();
    let (weight_sum, age_sum) = (sum(weights), sum(ages));
    let b = match (weight_sum > 0.0, age_sum > 0.0) {
        (true, true) => b,
        (true, false) => 1.0,
        (false, true) => 0.0,
        (false, false) => return None,
    };
    // A part without weight counts for nothing, and must not be divided by zero.
    let part = |share: f64, sum: f64| if share > 0.0 { share / sum } else { 0.0 };
    let (of_weight, of_age) = (part(b, weight_sum), part(1.0 - b, age_sum));
    Some(move |server: usize| of_weight * weights[server] + of_age * ages[server])
}

fn check(
    weights: &[f64],
    ages: &[f64],
    b: f64,
    bounds: &[f64],
    borrowing: &[f64],
) -> Result<(), FrequencyError> {
    let lengths = [ages.len(), bounds.len(), borrowing.len()];
    if lengths.iter().any(|length| *length != weights.len()) {
        let [ages, bounds, borrowing] = lengths;
        return Err(FrequencyError::Lengths { weights: weights.len(), ages, bounds, borrowing });
    }
    if !(0.0..=1.0).contains(&b) {
        return Err(FrequencyError::BalancingRate { found: b });
    }
    let finite = [("target weight", weights), ("age weight", ages)];
    for (what, list) in finite {
        if let Some(server) = list.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
            return Err(FrequencyError::NotAWeight { what, server, found: list[server] });
        }
    }
    for (what, list) in [("bound", bounds), ("borrowed share", borrowing)] {
        if let Some(server) = list.iter().position(|bound| bound.is_nan() || *bound < 0.0) {
            return Err(FrequencyError::NotAWeight { what, server, found: list[server] });
        }
    }
    Ok(())
}

impl Frequencies {
    /// Returns the server for a page, by a number drawn uniformly from 0 up to 1. `None` for the
    /// share that no server may take. O(servers).
    pub fn choose(&self, draw: f64) -> Option<usize> {
        let mut sum = 0.0;
        let chosen = self.of.iter().position(|frequency| {
            sum += frequency;
            draw < sum
        });
        // The sum of all may fall short of one by rounding.
        let last = || self.of.iter().rposition(|frequency| *frequency > 0.0);
        if chosen.is_none() && self.unplaced == 0.0 { last() } else { chosen }
    }
}
