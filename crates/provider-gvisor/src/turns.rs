//! Work on one workspace, one piece after another, each done to its end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use emergent_types::WorkspaceId;

/// Whose turn it is, for each workspace.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<WorkspaceId, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Does the work after all earlier work for the same workspace, and once begun to its end, also when
    /// the caller goes away. An error is a panic's.
    pub(crate) async fn take<F>(&self, id: WorkspaceId, work: F) -> Result<F::Output, tokio::task::JoinError>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let turn = Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default());
        // Before the task, not in it: tasks begin in any order, and a destroy must not overtake the create
        // that its caller has given up.
        let turn = turn.lock_owned().await;
        let task = tokio::spawn(async move {
            let _turn = turn;
            work.await
        });
        let result = task.await;
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        result
    }
}
