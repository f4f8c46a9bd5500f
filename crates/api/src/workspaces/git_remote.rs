//! What the git tool does with repositories elsewhere, through the broker.

use std::time::Instant;

use emergent_agent_client::{AgentError, GitAction, GitAnswer as AgentAnswer};
use emergent_checkout::{Handle, Refusal, RepositoryUrl};
use emergent_protocol::FailureCode;
use emergent_store::{Repository, RepositoryState};
use emergent_types::WorkspaceId;
use emergent_workspaces::ToolError;

use super::git_request::GitCall;
use super::repositories;
use crate::errors::ApiError;
use crate::extract::{OpenCall, Tool};

/// The most repositories that a workspace gets in all.
const MAX_REPOSITORIES: usize = 100;

/// What a call needs that talks to a remote.
pub(super) struct Remote {
    checkout: Handle,
    workspace: WorkspaceId,
    /// What is to be cloned.
    cloned: Option<(RepositoryUrl, Repository)>,
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
        let mut cloned = None;
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
                state: RepositoryState::Pending,
            };
            // The workspace itself is what is meant where nothing is said.
            asked.path = (!path.is_empty()).then_some(path);
            repositories::check_hosts(Some(checkout), std::slice::from_ref(&repository))?;
            cloned = Some((url, repository));
        }
        Ok(Self { checkout: checkout.clone(), workspace: tool.workspace(), cloned })
    }

    /// Does it. A repository is the workspace's when its clone is there; until then it is only reached.
    pub(super) async fn run(
        self,
        call: &OpenCall,
        asked: &GitCall,
        may_add: bool,
    ) -> Result<AgentAnswer, ApiError> {
        let mut reached = call.repositories();
        let is_known = |url: &str| reached.iter().any(|repository| repository.url == url);
        let mut granted = None;
        if let Some((url, repository)) = self.cloned.as_ref().filter(|(_, cloned)| !is_known(&cloned.url)) {
            if !may_add {
                return Err(Refusal::NotTheWorkspaces.into());
            }
            if reached.len() >= MAX_REPOSITORIES {
                let message = format!("a workspace has {MAX_REPOSITORIES} repositories at most");
                return Err(ApiError::invalid("repository_url", message));
            }
            granted = Some(self.checkout.grant(self.workspace, url.clone()));
            reached.push(repository.clone());
        }
        let author = self.checkout.author(self.workspace).await;
        let mut action = asked.action.clone();
        match &mut action {
            GitAction::Clone(clone) => clone.author = Some(author),
            GitAction::Pull(pull) => pull.author = Some(author),
            _ => {}
        }
        let broker = self.checkout.broker(&reached);
        let started = Instant::now();
        let done = call.git_remote(asked.path.as_deref(), asked.user.as_deref(), &action, &broker).await;
        let done = done.map_err(|error| match self.checkout.refusal(self.workspace, started) {
            // What the broker knows is worth more than what git made of it.
            Some(refusal) if is_gits(&error) => ApiError::from(refusal),
            _ => error.into(),
        })?;
        if let (Some((_, repository)), AgentAnswer::Clone(cloned)) = (self.cloned, &done) {
            // A session works with what its workspace has, and is no way to have more.
            if may_add || call.repositories().iter().any(|known| is_same(known, &repository)) {
                let state = RepositoryState::Done { commit: cloned.commit.clone() };
                let repository = Repository { state, ..repository };
                call.workspaces().add_repository(self.workspace, repository).await?;
            }
        }
        drop(granted);
        Ok(done)
    }
}

/// Whether it is only known that git failed, and not why.
fn is_gits(error: &ToolError) -> bool {
    match error {
        ToolError::Agent(AgentError::TimedOut { .. }) => true,
        ToolError::Agent(error) => {
            matches!(error.failure_code(), Some(FailureCode::GitFailed))
        }
        _ => false,
    }
}

fn is_same(one: &Repository, other: &Repository) -> bool {
    one.url == other.url && one.path == other.path
}
