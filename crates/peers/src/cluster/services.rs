//! Services that answer calls of other nodes, by the first part of the call's name.

use bytes::Bytes;
use parking_lot::RwLock;
use shoal_cluster::{CallError, Caller, PeerService};
use std::sync::Arc;

/// Services of this node. Few are added at the start, and none is removed.
#[derive(Default)]
pub struct PeerServices(RwLock<Vec<(&'static str, Arc<dyn PeerService>)>>);

impl PeerServices {
    /// Adds a service for all calls with names that begin with `prefix`, which ends with a slash.
    pub fn add(&self, prefix: &'static str, service: Arc<dyn PeerService>) {
        assert!(prefix.ends_with('/'), "a prefix is a whole part of a name");
        let mut services = self.0.write();
        assert!(services.iter().all(|(other, _)| *other != prefix), "one service for each prefix");
        services.push((prefix, service));
    }

    /// Answers a call.
    ///
    /// # Errors
    /// As the service says, or if there is none.
    pub async fn answer(&self, from: Caller, name: &str, body: Bytes) -> Result<Bytes, CallError> {
        let service =
            self.0.read().iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, it)| Arc::clone(it));
        service.ok_or(CallError::Unknown)?.answer(from, name, body).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_cluster::CallFuture;

    struct Echo;

    impl PeerService for Echo {
        fn answer(&self, _: Caller, name: &str, body: Bytes) -> CallFuture<'_> {
            let answer = [name.as_bytes(), &body].concat();
            Box::pin(async move { Ok(answer.into()) })
        }
    }

    #[tokio::test]
    async fn names_lead_to_their_service() {
        let services = PeerServices::default();
        services.add("echo/", Arc::new(Echo));
        let from = || Caller { name: None, address: ([127, 0, 0, 1], 1).into() };
        assert_eq!(services.answer(from(), "echo/a", "b".into()).await, Ok(Bytes::from("echo/ab")));
        assert_eq!(services.answer(from(), "other/a", "b".into()).await, Err(CallError::Unknown));
    }
}
