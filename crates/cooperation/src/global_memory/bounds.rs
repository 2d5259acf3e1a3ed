//! Bounds on the pages that a node may ask a memory server to take.
//!
//! Voelker 2000, section 3.6.1. Global node j sends server i requests at the rate f_i / T_j, each
//! of which takes S. The server's utilization U*_i is shared equally among N_g global nodes. Then
//! f_i / T_j ≤ U*_i / (N_g·S) (Equation 3.2), so f_i ≤ T_j·U*_i / (N_g·S). For an idle node U* is
//! one (Equation 3.3).
//!
//! Section 3.6.2 lets a node borrow capacity that others leave unused, and adds U_e,i / (N_g − 1)
//! to the right side of Equation 3.2. That term is a utilization, without unit, where the side is a
//! rate. Divided by S it is a rate that matches the text. A server that is idle for the share U_e
//! can serve U_e / S requests a second more. Each of the N_g − 1 others leaves its part. So
//! borrowing raises the bound on f_i by T_j·U_e,i / ((N_g − 1)·S). A lone global node has all of U*
//! already and borrows nothing.
//!
//! Requests are getpages and putpages alike, and T_j counts both. Frequencies steer only putpages;
//! getpages follow them, since pages are fetched from the node that has them. Borrowing may
//! overshoot: when all N_g nodes use U_e at once they take N_g/(N_g − 1) of it, until the next
//! replies report this.

use super::FrequencyError;

/// Rate of this node's requests, and its share of the servers' time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestRate {
    /// T_j / S: requests that a server could serve between two requests of this node.
    served_meanwhile: f64,
    /// Number of global nodes: N_g.
    global_nodes: f64,
}

impl RequestRate {
    /// Makes the rate of a node that sends a request each T seconds on average. There are N_g
    /// global nodes, and a server works S seconds for each request.
    ///
    /// # Errors
    /// When one of them is zero, negative or no number.
    pub fn new(
        seconds_between: f64,
        global_nodes: u32,
        service_seconds: f64,
    ) -> Result<Self, FrequencyError> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        for (what, is_so) in [
            ("the time between requests", positive(seconds_between)),
            ("the number of global nodes", global_nodes > 0),
            ("the service time", positive(service_seconds)),
        ] {
            if !is_so {
                return Err(FrequencyError::NoPace { what });
            }
        }
        let served_meanwhile = seconds_between / service_seconds;
        Ok(Self { served_meanwhile, global_nodes: f64::from(global_nodes) })
    }

    /// Returns the bound on the selection frequency of a server that may spend this share on global
    /// requests: U*, 1 for an idle node. The bound may exceed one.
    pub fn bound(&self, most_utilization: f64) -> f64 {
        self.served_meanwhile * most_utilization / self.global_nodes
    }

    /// Returns the rise of the bound when the server has this unused capacity: U_e.
    pub fn borrowed(&self, unused: f64) -> f64 {
        if self.global_nodes > 1.0 { self.served_meanwhile * unused / (self.global_nodes - 1.0) } else { 0.0 }
    }
}

/// Returns U_e, which a server reports with each reply: its allowed utilization less its recent
/// one, or zero.
pub fn unused(most_utilization: f64, recent_utilization: f64) -> f64 {
    (most_utilization - recent_utilization).max(0.0)
}
