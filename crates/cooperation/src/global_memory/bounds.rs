//! Bounds: how many of a node's pages a memory server may be asked to take.
//!
//! Voelker 2000, section 3.6.1. Global node j sends server i requests at the rate f_i / T_j, each
//! of which takes S. With the server's utilization U*_i shared equally among N_g global nodes, f_i
//! / T_j ≤ U*_i / (N_g·S) (Equation 3.2), so f_i ≤ T_j·U*_i / (N_g·S). For an idle node U* is one
//! (Equation 3.3).
//!
//! Section 3.6.2 lets a node borrow what others leave unused, and adds U_e,i / (N_g − 1) to the
//! right side of Equation 3.2. That term is a utilization, without unit, where the side is a rate.
//! Divided by S it is a rate, and says what the text means: a server that is idle for the share U_e
//! can serve U_e / S requests a second more, and each of the N_g − 1 others leaves its part. So
//! what is borrowed raises the bound on f_i by T_j·U_e,i / ((N_g − 1)·S). A lone global node has
//! all of U* already and borrows nothing.
//!
//! Requests are getpages and putpages alike, and T_j counts both. Frequencies steer putpages alone;
//! getpages follow them since pages are got where they were put. Borrowing may overshoot: when all
//! N_g nodes take up U_e at once they use N_g/(N_g − 1) of it, until the next replies tell of it.

use super::Error;

/// How fast this node sends requests, and what share of the servers' time is its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestRate {
    /// T_j / S: how many requests a server could serve between two of this node.
    served_meanwhile: f64,
    /// N_g.
    global_nodes: f64,
}

impl RequestRate {
    /// The pace of a node that sends a request each T seconds on average, among N_g global nodes,
    /// where a server works S seconds for each.
    ///
    /// # Errors
    /// When one of them is zero, negative or no number.
    pub fn new(seconds_between: f64, global_nodes: u32, service_seconds: f64) -> Result<Self, Error> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        for (what, is_so) in [
            ("the time between requests", positive(seconds_between)),
            ("the number of global nodes", global_nodes > 0),
            ("the service time", positive(service_seconds)),
        ] {
            if !is_so {
                return Err(Error::NoPace { what });
            }
        }
        let served_meanwhile = seconds_between / service_seconds;
        Ok(Self { served_meanwhile, global_nodes: f64::from(global_nodes) })
    }

    /// The bound on the selection frequency of a server that may be so busy with global requests:
    /// U*, 1 for an idle node. It may be more than one.
    pub fn bound(&self, most_utilization: f64) -> f64 {
        self.served_meanwhile * most_utilization / self.global_nodes
    }

    /// How far the bound rises when the server has so much unused capacity: U_e.
    pub fn borrowed(&self, unused: f64) -> f64 {
        if self.global_nodes > 1.0 { self.served_meanwhile * unused / (self.global_nodes - 1.0) } else { 0.0 }
    }
}

/// U_e: what a server tells with each reply, its allowed utilization less its recent one, or zero.
pub fn unused(most_utilization: f64, recent_utilization: f64) -> f64 {
    (most_utilization - recent_utilization).max(0.0)
}
