//! What the git tool does with repositories elsewhere, through the broker.

use std::time::Instant;

use emergent_agent_client::{GitAction, GitAnswer as AgentAnswer};
use emergent_checkout::{Handle, Refusal};
use emergent_store::{Repository, RepositoryState};
use emergent_types::WorkspaceId;

use super::git_request::GitCall;
use super::repositories;
use crate::errors::ApiError;
use crate::extract::{OpenCall, Tool};

/// What a call needs that talks to a remote.
pub(super) struct Remote {
    checkout: Handle,
    workspace: WorkspaceId,
    /// A repository that the workspace gets by this call.
    added: Option<Repository>,
}

impl Remote {
    /// Decides whether the caller may do it, before anything is done.
    pub(super) fn admit(
        tool: &Tool,
        checkout: Option<&Handle>,
        asked: &mut GitCall,
    ) -> Result<Self, ApiError> {
        let checkout = checkout
            .ok_or_else(|| ApiError::not_supported("action", "this server reaches no other repositories"))?;
        let workspace = tool.workspace();
        let mut added = None;
        if let GitAction::Clone(clone) = &asked.action {
            let url = repositories::url("repository_url", &clone.url)?;
            let path = match asked.path.as_deref() {
                Some(path) => repositories::folder("path", path)?,
                None => repositories::name(&url),
            };
            let repository = Repository {
                url: clone.url.clone(),
                branch: clone.reference.clone(),
                path: path.clone(),
                depth: clone.depth,
                state: RepositoryState::Done { commit: None },
            };
            // The workspace itself is what is meant where nothing is said.
            asked.path = (!path.is_empty()).then_some(path);
            repositories::check_hosts(Some(checkout), std::slice::from_ref(&repository))?;
            added = Some(repository);
        }
        Ok(Self { checkout: checkout.clone(), workspace, added })
    }

    /// Does it.
    pub(super) async fn run(
        mut self,
        call: &OpenCall,
        asked: &GitCall,
        may_add: bool,
    ) -> Result<AgentAnswer, ApiError> {
        let known = call.repositories();
        // A clone of what the workspace has already needs no more than that.
        let is_new = |added: &Repository| known.iter().all(|repository| repository.url != added.url);
        self.added = self.added.take().filter(is_new);
        if let Some(added) = &self.added {
            if !may_add {
                return Err(Refusal::NotTheWorkspaces.into());
            }
            call.workspaces().add_repository(self.workspace, added.clone()).await?;
        }
        let author = self.checkout.author().await;
        let mut action = asked.action.clone();
        match &mut action {
            GitAction::Clone(clone) => clone.author = Some(author),
            GitAction::Pull(pull) => pull.author = Some(author),
            _ => {}
        }
        let broker = self.checkout.broker(&call.repositories());
        let started = Instant::now();
        let done = call.git_remote(asked.path.as_deref(), asked.user.as_deref(), &action, &broker).await;
        let done = done.map_err(|error| match self.checkout.refusal(self.workspace, started) {
            // What the broker knows is worth more than what git made of it.
            Some(refusal) => ApiError::from(refusal),
            None => error.into(),
        });
        self.note(call, &done).await?;
        done
    }

    /// What was added stays where it was cloned, and goes where it was not.
    async fn note(self, call: &OpenCall, done: &Result<AgentAnswer, ApiError>) -> Result<(), ApiError> {
        let Some(added) = self.added else { return Ok(()) };
        match done {
            Ok(AgentAnswer::Clone(cloned)) => {
                let state = RepositoryState::Done { commit: cloned.commit.clone() };
                call.workspaces().add_repository(self.workspace, Repository { state, ..added }).await?;
            }
            _ => drop(call.workspaces().forget_repository(self.workspace, added).await?),
        }
        Ok(())
    }
}
