//! From a sandbox that cannot be repaired to another one in its place.

use emergent_store::{ErrorUpdate, WorkspaceUpdate};

use super::{Actor, Phase, Reply, answer};
use crate::LifecycleError;
use crate::new_workspace::Named;

impl Actor {
    /// Removes what is left, and makes a sandbox as the row wants it. The row says `failed` until there is one: a
    /// server that is killed meanwhile leaves what the next remake removes.
    pub(super) async fn remaking(&mut self, reply: Reply) -> Phase {
        if let Err(error) = self.remove_sandbox().await {
            answer([reply], Err(error));
            return Phase::Failed;
        }
        let row = self.row();
        let options = &self.context.options;
        let named =
            Named { demands: options.named(&row), isolation: row.min_isolation > options.min_isolation };
        let phase = self.creating(None, named).await;
        let outcome = match &phase {
            Phase::Ready => {
                self.record(WorkspaceUpdate { error: ErrorUpdate::Clear, ..WorkspaceUpdate::default() })
                    .await;
                Ok(self.row())
            }
            _ => Err(LifecycleError::Provider {
                id: self.id,
                reason: self.row().error.map_or_else(|| "it was not made".to_owned(), |error| error.message),
            }),
        };
        answer([reply], outcome);
        phase
    }
}
