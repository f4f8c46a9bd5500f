//! The code that a workspace starts with.
//!
//! ```text
//!   attempt ── done ─► done
//!      │ failed
//!      ├── no use in trying again (not allowed, no such branch, a full disk) ─► failed
//!      └── 2 s, 4 s (a fifth more or less) ─► the folder is emptied ─► attempt, three in all
//! ```
//!
//! Why an attempt failed is what the broker knows, and only where it knows of nothing, what the agent says.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use emergent_agent_client::{AgentClient, AgentError, GitAction, GitAnswer, GitCloneRequest};
use emergent_protocol::FailureCode;
use emergent_store::{Repository, RepositoryState, WorkspaceRow};
use emergent_types::WorkspaceId;
use emergent_workspaces::CodeCheckout;

use crate::pauses::{self, ATTEMPTS};
use crate::refusal::Refusal;
use crate::service::{Shared, author, broker_for};

/// The longest reason that is kept of what an agent says.
const MAX_REASON: usize = 500;

/// Who checks out what a workspace starts with.
pub(crate) struct Checkout {
    pub(crate) shared: Arc<Shared>,
}

/// Why an attempt failed.
struct Failure {
    reason: String,
    hint: Option<String>,
    is_worth_retrying: bool,
}

#[async_trait]
impl CodeCheckout for Checkout {
    async fn check_out(
        &self,
        workspace: &WorkspaceRow,
        repository: &Repository,
        agent: &AgentClient,
    ) -> RepositoryState {
        let mut attempt = 1;
        loop {
            match self.attempt(workspace, repository, agent, attempt).await {
                Ok(commit) => return RepositoryState::Done { commit },
                Err(failure) if failure.is_worth_retrying && attempt < ATTEMPTS => {
                    let pause = pauses::after(attempt);
                    tracing::info!(workspace = %workspace.id, attempt, reason = failure.reason,
                        "attempt {attempt} to check out {} failed, the next follows in {pause:?}", repository.url);
                    tokio::time::sleep(pause).await;
                    attempt += 1;
                }
                Err(Failure { reason, hint, .. }) => return RepositoryState::Failed { reason, hint },
            }
        }
    }

    fn progress(&self, id: WorkspaceId) -> Option<String> {
        self.shared.transfers.describe(id)
    }
}

impl Checkout {
    async fn attempt(
        &self,
        workspace: &WorkspaceRow,
        repository: &Repository,
        agent: &AgentClient,
        attempt: u32,
    ) -> Result<Option<String>, Failure> {
        let started = Instant::now();
        let _counting = self.shared.transfers.begin(workspace.id, &repository.url, attempt);
        let action = GitAction::Clone(GitCloneRequest {
            url: repository.url.clone(),
            reference: repository.branch.clone(),
            depth: repository.depth,
            clean: true,
            author: Some(author(&self.shared, workspace.id).await),
        });
        let broker = broker_for(std::slice::from_ref(repository), self.shared.limits.checkout);
        match agent.git_with(Some(&repository.path), None, &action, Some(&broker)).await {
            Ok(GitAnswer::Clone(cloned)) => Ok(cloned.commit),
            Ok(_) => Err(Failure {
                reason: "the sandbox gave an answer that makes no sense".to_owned(),
                hint: None,
                is_worth_retrying: false,
            }),
            Err(error) => Err(match self.shared.refusals.since(workspace.id, started) {
                Some(refusal) => of_refusal(&refusal),
                None => of_agent(&error),
            }),
        }
    }
}

fn of_refusal(refusal: &Refusal) -> Failure {
    Failure {
        reason: refusal.to_string(),
        hint: refusal.hint(),
        is_worth_retrying: refusal.is_worth_retrying(),
    }
}

/// What the agent says is the sandbox's word, but in a new sandbox nobody else has spoken yet.
fn of_agent(error: &AgentError) -> Failure {
    let code = error.failure_code();
    let (hint, is_worth_retrying) = match code {
        Some(FailureCode::RefNotFound) => {
            (Some("name a branch or a tag that is there, or a whole commit id".to_owned()), false)
        }
        Some(FailureCode::NoSpace) => (Some("ask for a larger disk, or a smaller `depth`".to_owned()), false),
        Some(FailureCode::ProgramMissing) => (Some("use an image that has git".to_owned()), false),
        Some(FailureCode::InvalidRequest) => (None, false),
        _ => (None, true),
    };
    let reason: String = error.to_string().chars().filter(|c| !c.is_control()).take(MAX_REASON).collect();
    Failure { reason, hint, is_worth_retrying }
}
