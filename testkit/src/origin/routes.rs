//! Which answer a request gets.

use super::answer::Answer;
use super::journal::Received;
use std::sync::{Arc, PoisonError, RwLock};

/// Decides an answer from a request and how many came before it for the same path.
pub type Decide = Arc<dyn Fn(&Received, usize) -> Answer + Send + Sync>;

/// Routes by path; the last added that matches wins.
#[derive(Default)]
pub struct Routes(RwLock<Vec<Route>>);

#[derive(Clone)]
struct Route {
    pattern: String,
    before_body: bool,
    decide: Decide,
}

impl Routes {
    /// Adds a route. `pattern` is a target with its query, a path, or a path prefix ending in `*`.
    pub fn add(&self, pattern: &str, before_body: bool, decide: Decide) {
        let route = Route { pattern: pattern.into(), before_body, decide };
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(route);
    }

    /// Whether the answer is given from the head alone, the body left unread.
    pub fn before_body(&self, request: &Received) -> bool {
        self.find(request).is_some_and(|route| route.before_body)
    }

    /// The answer; a path without a route is a 404 that may not be stored.
    pub fn answer(&self, request: &Received, earlier: usize) -> Answer {
        match self.find(request) {
            Some(route) => (route.decide)(request, earlier),
            None => Answer::new(404).field("Cache-Control", "no-store").piece("no such route\n"),
        }
    }

    fn find(&self, request: &Received) -> Option<Route> {
        let routes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let matches = |route: &&Route| match route.pattern.strip_suffix('*') {
            Some(prefix) if route.pattern.len() > 1 => request.path().starts_with(prefix),
            _ => route.pattern == request.target || route.pattern == request.path(),
        };
        routes.iter().rev().find(matches).cloned()
    }
}
