//! Changes of the cache that another process of this node has to learn of, during a hand-over.

use super::CacheEngine;
use super::invalidate::is_short;
use arc_swap::ArcSwapOption;
use shoal_cooperation::invalidation::{Modes, Scope};
use shoal_handover::Change;
use std::sync::Arc;
use std::time::Duration;

/// Place for the function that is told of changes.
#[derive(Default)]
pub struct ChangeTap(ArcSwapOption<ChangeListener>);

/// Function that is told of changes.
struct ChangeListener(Box<dyn Fn(Change) + Send + Sync>);

impl ChangeTap {
    /// Tells a function, which must not block, of each further change; `None` tells nobody.
    pub fn set(&self, told: Option<Box<dyn Fn(Change) + Send + Sync>>) {
        self.0.store(told.map(|told| Arc::new(ChangeListener(told))));
    }

    /// Tells of the responses of a scope, which this process is about to remove.
    pub(super) fn tell(&self, scope: &Scope) {
        if let Some(listener) = &*self.0.load()
            && let Some(change) = change_of(scope)
        {
            (listener.0)(change);
        }
    }
}

/// Makes a change of another process of this node, and tells the other nodes of its cluster: that
/// process may not write the journal. It takes no operator's purge either, so that everything is
/// purged only if it may have lost changes; that concerns this node alone.
pub async fn apply_change(engine: &CacheEngine, change: Change) {
    let scope = match change {
        Change::All => Scope::All,
        Change::Host(host) => Scope::Host(host),
        Change::Tag(tag) => Scope::Tag(tag),
        Change::Group { origin, group, is_operators } => Scope::Group { origin, group, is_operators },
        Change::Url(url) => Scope::Url { url, modes: Modes::Both },
    };
    drop(engine.cache().apply_here(&engine.live(), &scope).await);
    if let Some(purges) = engine.cluster.as_ref().and_then(|cluster| cluster.invalidation())
        && scope != Scope::All
        && is_short(&scope)
    {
        drop(purges.purge(scope, TOLD_PATIENCE).await);
    }
}

/// Longest wait for other nodes' word on a purge: further changes wait behind it.
const TOLD_PATIENCE: Duration = Duration::from_millis(50);

/// Returns the change by which another process of this node removes the responses of a scope.
fn change_of(scope: &Scope) -> Option<Change> {
    Some(match scope {
        Scope::Start { .. } => return None,
        Scope::Url { url, .. } => Change::Url(url.clone()),
        Scope::Tag(tag) => Change::Tag(tag.clone()),
        Scope::Group { origin, group, is_operators } => {
            Change::Group { origin: origin.clone(), group: group.clone(), is_operators: *is_operators }
        }
        Scope::Host(host) => Change::Host(host.clone()),
        Scope::All => Change::All,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[test]
    fn changes_are_told_while_a_process_listens() {
        let (tap, heard) = (ChangeTap::default(), Arc::new(Mutex::new(Vec::new())));
        tap.tell(&Scope::All);
        let told = Arc::clone(&heard);
        tap.set(Some(Box::new(move |change| told.lock().push(change))));
        tap.tell(&Scope::Url { url: "http://a.test/".into(), modes: Modes::Forward });
        tap.tell(&Scope::Start { ended: Vec::new() });
        tap.tell(&Scope::Tag("news".into()));
        tap.set(None);
        tap.tell(&Scope::Host("a.test".into()));
        assert_eq!(*heard.lock(), [Change::Url("http://a.test/".into()), Change::Tag("news".into())]);
    }
}
