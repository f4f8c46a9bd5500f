//! The code that a workspace starts with, before it is ready.
//!
//! Nothing is recorded on the way: what a server that is killed has left of it is emptied and checked out again
//! by the next one, or goes with the workspace.

use std::sync::Arc;
use std::time::Duration;

use emergent_agent_client::AgentClient;
use emergent_store::{Repository, RepositoryState, WorkspaceRow};
use tokio::task::JoinHandle;

use super::{Actor, CreateReply, Phase};
use crate::service::{Context, Presence};
use crate::{CodeCheckout, events};

/// How often it is looked at how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Actor {
    /// Whether its code is still to be checked out.
    pub(super) fn has_code_to_come(&self) -> bool {
        self.row().repositories.iter().any(Repository::is_pending)
    }

    /// Checks out what is to be, and is ready then, with the code or without.
    pub(super) async fn check_out(&mut self, reply: Option<CreateReply>) -> Phase {
        let (row, client) = (self.row(), self.presence.agent());
        let Some(client) = client.filter(|_| self.has_code_to_come()) else {
            return self.created(None, reply).await;
        };
        let checkout = self.context.options.checkout.clone();
        let presence = self.presence.clone();
        let has_services = !self.context.options.services.is_empty();
        let watching = checkout.as_ref().map(|checkout| watch(&self.context, &self.presence, &row, checkout));
        let working = Box::pin(async move {
            // What leads to the remotes is one of them.
            if has_services {
                presence.contact.until_offered().await;
            }
            check_out_all(checkout, row, client).await
        });
        let repositories = match self.interruptible(working, &mut Vec::new()).await {
            Err(interrupted) => return self.cancelled(interrupted, reply),
            Ok(repositories) => repositories,
        };
        drop(watching);
        for repository in &repositories {
            if let RepositoryState::Failed { reason, .. } = &repository.state {
                tracing::warn!(workspace = %self.id, url = repository.url, reason,
                    "workspace {} is without the code of {}: {reason}", self.id, repository.url);
            }
        }
        self.created(Some(repositories), reply).await
    }
}

/// One after the other: they share a disk and a connection.
async fn check_out_all(
    checkout: Option<Arc<dyn CodeCheckout>>,
    row: WorkspaceRow,
    client: AgentClient,
) -> Vec<Repository> {
    let mut repositories = row.repositories.clone();
    // A folder within another's comes after it, or it would be emptied with it.
    let mut order: Vec<usize> = (0..repositories.len()).collect();
    order.sort_by_key(|index| repositories[*index].path.len());
    for index in order {
        let repository = &repositories[index];
        if !repository.is_pending() {
            continue;
        }
        let state = match &checkout {
            Some(checkout) => checkout.check_out(&row, repository, &client).await,
            None => {
                RepositoryState::Failed { reason: "this server checks out no code".to_owned(), hint: None }
            }
        };
        repositories[index].state = state;
    }
    repositories
}

/// Somebody looks, until this is dropped.
struct Watching {
    task: JoinHandle<()>,
    presence: Arc<Presence>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
        self.presence.progress.set(None);
    }
}

/// Says how far it is, to whoever asks for the workspace or follows events.
fn watch(
    context: &Arc<Context>,
    presence: &Arc<Presence>,
    row: &WorkspaceRow,
    checkout: &Arc<dyn CodeCheckout>,
) -> Watching {
    let (context, shown) = (context.clone(), presence.clone());
    let (row, checkout) = (row.clone(), checkout.clone());
    let looking = async move {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let said = checkout.progress(row.id);
            if shown.progress.set(said.clone())
                && let Some(said) = said
            {
                context.events.publish(events::of_progress(&row, &said));
            }
        }
    };
    Watching { task: tokio::spawn(looking), presence: presence.clone() }
}
