//! A workspace, as clients see it.

use emergent_store::{AttemptOutcome, AttemptRecord, Repository, RepositoryState, WorkspaceRow};
use emergent_types::{
    ContainerType, DeploymentMode, DiskEnforcement, IsolationLevel, Lifecycle, NetworkMode, Persistence,
    ProviderKind, ResourceLimits, WorkspaceId, WorkspaceStatus,
};
use serde::Serialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

/// A workspace.
#[derive(Serialize, ToSchema)]
pub(crate) struct Workspace {
    /// Names it in every other call.
    id: WorkspaceId,
    /// Where it is in its life.
    status: WorkspaceStatus,
    /// How far its sandbox is, while it is being made and that takes long: an image that is pulled.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
    /// What it is.
    container_type: ContainerType,
    /// Who runs it.
    provider: ProviderKind,
    /// The isolation it really has; null until there is a sandbox.
    #[schema(required = true)]
    isolation: Option<IsolationLevel>,
    /// Where automatic choice could place it.
    deployment_mode: DeploymentMode,
    /// Whether it expires.
    lifecycle: Lifecycle,
    /// The repository that is checked out.
    #[schema(required = true)]
    repository_url: Option<String>,
    /// The branch that is checked out.
    #[schema(required = true)]
    branch: Option<String>,
    /// How the checkout goes, of all repositories together.
    checkout: Checkout,
    /// The repositories that it may fetch from and push to.
    repositories: Vec<RepositoryView>,
    /// The image it was asked to start from.
    #[schema(required = true)]
    base_image: Option<String>,
    /// What it may use.
    resource_limits: ResourceLimits,
    /// How the disk limit is upheld; null until there is a sandbox.
    #[schema(required = true)]
    disk_enforcement: Option<DiskEnforcement>,
    /// What stop and resume keep; null until there is a sandbox.
    #[schema(required = true)]
    persistence: Option<Persistence>,
    /// What it can reach.
    network: NetworkMode,
    /// What the request said about the provider.
    #[schema(example = "auto")]
    requested_provider: &'static str,
    /// The providers that were tried, in order.
    attempts: Vec<Attempt>,
    /// What its user should know.
    warnings: Vec<String>,
    /// Why it failed.
    #[schema(required = true)]
    error: Option<Failure>,
    /// The agent session it is attached to.
    #[schema(required = true)]
    agent_session_id: Option<Uuid>,
    /// The snapshot it was made from.
    #[schema(required = true)]
    snapshot_id: Option<String>,
    /// When it was asked for.
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    /// When a tool was last used in it.
    #[serde(with = "time::serde::rfc3339")]
    last_used_at: OffsetDateTime,
    /// When it ends if it is not used; null is never.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required = true)]
    expires_at: Option<OffsetDateTime>,
    /// What its request wanted remembered.
    metadata: Map<String, Value>,
}

/// How the checkout of a repository goes.
#[derive(Serialize, ToSchema)]
struct Checkout {
    /// How far it is.
    status: CheckoutStatus,
    /// What it is doing.
    #[schema(required = true)]
    progress: Option<String>,
    /// The commit that is checked out.
    #[schema(required = true)]
    commit: Option<String>,
    /// Why it failed.
    #[schema(required = true)]
    reason: Option<String>,
    /// What helps.
    #[schema(required = true)]
    hint: Option<String>,
}

/// How far a checkout is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum CheckoutStatus {
    /// There is nothing to check out.
    None,
    /// It is under way.
    Running,
    /// The code is there.
    Done,
    /// The code is not there, or not all of it.
    Failed,
}

/// A repository of a workspace.
#[derive(Serialize, ToSchema)]
#[schema(as = Repository)]
struct RepositoryView {
    /// Where it comes from.
    url: String,
    /// The branch, tag or commit that was asked for.
    #[schema(required = true)]
    branch: Option<String>,
    /// Where it lies.
    #[schema(example = "/workspace")]
    path: String,
    /// How many commits of its history were asked for; 0 is all.
    depth: u32,
    /// How far its checkout is.
    status: CheckoutStatus,
    /// The commit that was checked out.
    #[schema(required = true)]
    commit: Option<String>,
    /// Why it failed.
    #[schema(required = true)]
    reason: Option<String>,
    /// What helps.
    #[schema(required = true)]
    hint: Option<String>,
}

impl From<Repository> for RepositoryView {
    fn from(repository: Repository) -> Self {
        let (status, commit, reason, hint) = match repository.state {
            RepositoryState::Pending => (CheckoutStatus::Running, None, None, None),
            RepositoryState::Done { commit } => (CheckoutStatus::Done, commit, None, None),
            RepositoryState::Failed { reason, hint } => (CheckoutStatus::Failed, None, Some(reason), hint),
        };
        let path = match repository.path.as_str() {
            "" => "/workspace".to_owned(),
            path => format!("/workspace/{path}"),
        };
        let (url, branch, depth) = (repository.url, repository.branch, repository.depth);
        Self { url, branch, path, depth, status, commit, reason, hint }
    }
}

impl Checkout {
    /// Of all of them: what is worst counts, and the commit is the first one's.
    fn of(repositories: &[Repository]) -> Self {
        let first = |wanted: fn(&RepositoryState) -> bool| {
            repositories.iter().map(|repository| &repository.state).find(|state| wanted(state))
        };
        let pending = first(|state| matches!(state, RepositoryState::Pending));
        let failed = first(|state| matches!(state, RepositoryState::Failed { .. }));
        let (status, reason, hint) = match (repositories.is_empty(), pending, failed) {
            (true, ..) => (CheckoutStatus::None, None, None),
            (_, Some(_), _) => (CheckoutStatus::Running, None, None),
            (_, _, Some(RepositoryState::Failed { reason, hint })) => {
                (CheckoutStatus::Failed, Some(reason.clone()), hint.clone())
            }
            _ => (CheckoutStatus::Done, None, None),
        };
        let commit = match repositories.first().map(|repository| &repository.state) {
            Some(RepositoryState::Done { commit }) => commit.clone(),
            _ => None,
        };
        Self { status, progress: None, commit, reason, hint }
    }
}

/// A provider that was asked for a sandbox.
#[derive(Serialize, ToSchema)]
struct Attempt {
    /// Who was asked.
    provider: ProviderKind,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    started_at: OffsetDateTime,
    /// How long it took.
    duration_ms: u64,
    /// What came of it.
    outcome: Outcome,
    /// Why it failed.
    #[schema(required = true)]
    reason: Option<String>,
}

/// What came of asking a provider.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    /// There is a sandbox.
    Succeeded,
    /// There is none.
    Failed,
}

/// Why a workspace failed.
#[derive(Serialize, ToSchema)]
#[schema(as = WorkspaceFailure)]
struct Failure {
    /// For programs; stable.
    code: String,
    /// For people.
    message: String,
}

impl Workspace {
    /// The same, with how far its sandbox is.
    pub(super) fn making(self, progress: Option<String>) -> Self {
        let mut checkout = self.checkout;
        if matches!(checkout.status, CheckoutStatus::Running) {
            checkout.progress = progress.clone();
        }
        Self { progress, checkout, ..self }
    }
}

impl From<WorkspaceRow> for Workspace {
    fn from(row: WorkspaceRow) -> Self {
        Self {
            id: row.id,
            status: row.status,
            progress: None,
            container_type: row.container_type,
            provider: row.provider,
            isolation: row.isolation,
            deployment_mode: row.deployment_mode,
            lifecycle: row.lifecycle,
            repository_url: row.repository_url,
            branch: row.branch,
            checkout: Checkout::of(&row.repositories),
            repositories: row.repositories.into_iter().map(RepositoryView::from).collect(),
            base_image: row.base_image,
            resource_limits: row.resource_limits,
            disk_enforcement: row.disk_enforcement,
            persistence: row.persistence,
            network: row.network,
            requested_provider: row.requested_provider.as_str(),
            attempts: row.attempts.into_iter().map(Attempt::from).collect(),
            warnings: row.warnings,
            error: row.error.map(|error| Failure { code: error.code, message: error.message }),
            agent_session_id: row.agent_session_id,
            snapshot_id: row.snapshot_id,
            created_at: row.created_at,
            last_used_at: row.last_used_at,
            expires_at: row.expires_at,
            metadata: row.metadata,
        }
    }
}

impl From<AttemptRecord> for Attempt {
    fn from(attempt: AttemptRecord) -> Self {
        let (outcome, reason) = match attempt.outcome {
            AttemptOutcome::Succeeded => (Outcome::Succeeded, None),
            AttemptOutcome::Failed { reason } => (Outcome::Failed, Some(reason)),
        };
        Self {
            provider: attempt.provider,
            started_at: attempt.started_at,
            duration_ms: attempt.duration_ms,
            outcome,
            reason,
        }
    }
}
