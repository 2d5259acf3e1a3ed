//! A bounded number of tasks that share a list of work.

use parking_lot::Mutex;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Does `work` on each item, on `tasks` tasks of the current runtime. Dropping the future ends
/// them.
pub(super) async fn each<C, T, F, W>(context: &Arc<C>, tasks: usize, items: Vec<T>, work: F)
where
    C: Send + Sync + 'static,
    T: Send + 'static,
    F: Fn(Arc<C>, T) -> W + Copy + Send + 'static,
    W: Future<Output = ()> + Send + 'static,
{
    let tasks = tasks.clamp(1, items.len().max(1));
    debug_assert!(tasks >= 1, "somebody does the work");
    let queue = Arc::new(Mutex::new(items.into_iter()));
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (queue, context) = (Arc::clone(&queue), Arc::clone(context));
        running.spawn(async move {
            loop {
                let next = queue.lock().next();
                let Some(item) = next else { return };
                work(Arc::clone(&context), item).await;
            }
        });
    }
    // A task that panicked has been reported by the panic hook.
    while running.join_next().await.is_some() {}
}
