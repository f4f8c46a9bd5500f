//! Rows to play with.

use std::num::NonZeroU32;

use emergent_store::{
    ApiToken, AttemptOutcome, AttemptRecord, Environment, Repository, RepositoryState, Store, TokenHash,
    TokenId, TokenKind, WorkspaceError, WorkspaceFilter, WorkspaceRow,
};
use emergent_types::{
    ByteSize, ContainerType, Cpu, DeploymentMode, DiskEnforcement, IsolationLevel, Lifecycle, NamedDemands,
    NetworkMode, Persistence, ProviderChoice, ProviderKind, ResourceLimits, WorkspaceId, WorkspaceStatus,
};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::macros::datetime;
use uuid::Uuid;

/// More than any check makes.
pub(crate) const NO_LIMIT: u32 = 1_000_000;

pub(crate) const NOON: OffsetDateTime = datetime!(2031-02-03 12:00:00.125 UTC);

/// As little as a row can have.
pub(crate) fn workspace() -> WorkspaceRow {
    let id = WorkspaceId::generate();
    WorkspaceRow {
        id,
        agent_session_id: None,
        container_type: ContainerType::AgentWorkspace,
        provider: ProviderKind::Local,
        provider_workspace_id: id.to_string(),
        repository_url: None,
        branch: None,
        deployment_mode: DeploymentMode::SelfHosted,
        lifecycle: Lifecycle::Ephemeral,
        status: WorkspaceStatus::Creating,
        created_at: NOON,
        last_used_at: NOON,
        expires_at: None,
        resource_limits: ResourceLimits::WORKSPACE_DEFAULT,
        snapshot_id: None,
        mcp_config: None,
        metadata: Map::new(),
        requested_provider: ProviderChoice::Auto,
        min_isolation: IsolationLevel::Container,
        network: NetworkMode::Isolated,
        base_image: None,
        ttl_seconds: None,
        environment: Environment::default(),
        owner_id: None,
        isolation: None,
        persistence: None,
        disk_enforcement: None,
        attempts: vec![],
        warnings: vec![],
        error: None,
        resume_attempts: 0,
        acknowledged: false,
        warm_pool: None,
        named_demands: None,
        repositories: Vec::new(),
    }
}

pub(crate) fn workspace_in(status: WorkspaceStatus) -> WorkspaceRow {
    WorkspaceRow { status, ..workspace() }
}

/// As much as a row can have, with no two columns alike.
pub(crate) fn full_workspace(owner: TokenId) -> WorkspaceRow {
    WorkspaceRow {
        agent_session_id: Some(Uuid::now_v7()),
        container_type: ContainerType::McpServer,
        provider: ProviderKind::Gvisor,
        provider_workspace_id: "sandbox-7".to_owned(),
        repository_url: Some("https://example.org/repository.git".to_owned()),
        branch: Some("ünïcode/'quote\"; --".to_owned()),
        deployment_mode: DeploymentMode::Managed,
        status: WorkspaceStatus::Failed,
        created_at: datetime!(2031-01-01 00:00:00.001 UTC),
        last_used_at: datetime!(2031-01-02 00:00:00.002 UTC),
        expires_at: Some(datetime!(2031-01-03 00:00:00.003 UTC)),
        resource_limits: ResourceLimits {
            cpu: Cpu::from_millis(1500),
            memory: ByteSize::from_mib(768),
            disk: ByteSize::from_gib(3),
        },
        snapshot_id: Some("snapshot-1".to_owned()),
        mcp_config: Some(object(json!({"stdio_bridge": true, "restart_policy": "always"}))),
        metadata: object(json!({"purpose": "test", "nested": {"list": [1, 2.5, null]}})),
        requested_provider: ProviderChoice::Explicit(ProviderKind::Docker),
        min_isolation: IsolationLevel::Gvisor,
        network: NetworkMode::Internet,
        base_image: Some("debian:stable".to_owned()),
        ttl_seconds: Some(3600),
        environment: Environment::from_iter([
            ("API_KEY".to_owned(), "very secret".to_owned()),
            ("EMPTY".to_owned(), String::new()),
        ]),
        owner_id: Some(owner),
        isolation: Some(IsolationLevel::Microvm),
        persistence: Some(Persistence::Home),
        disk_enforcement: Some(DiskEnforcement::Monitored),
        attempts: vec![failed_attempt(), succeeded_attempt()],
        warnings: vec!["weak".to_owned(), "slow".to_owned()],
        error: Some(WorkspaceError { code: "lost".to_owned(), message: "it went away".to_owned() }),
        resume_attempts: 2,
        acknowledged: true,
        warm_pool: None,
        repositories: repositories(),
        named_demands: Some(NamedDemands { cpu: true, disk: true, ..NamedDemands::default() }),
        ..workspace()
    }
}

pub(crate) fn repositories() -> Vec<Repository> {
    let repository = |path: &str, state| Repository {
        url: format!("https://example.org/{path}.git"),
        branch: Some("main".to_owned()),
        path: path.to_owned(),
        depth: 1,
        state,
    };
    vec![
        repository("", RepositoryState::Pending),
        repository("a", RepositoryState::Done { commit: Some("0123".to_owned()) }),
        repository("b", RepositoryState::Failed { reason: "no".to_owned(), hint: None }),
    ]
}

pub(crate) fn failed_attempt() -> AttemptRecord {
    AttemptRecord {
        provider: ProviderKind::Firecracker,
        started_at: NOON,
        duration_ms: 12,
        outcome: AttemptOutcome::Failed { reason: "no /dev/kvm".to_owned() },
    }
}

pub(crate) fn succeeded_attempt() -> AttemptRecord {
    AttemptRecord {
        provider: ProviderKind::Gvisor,
        started_at: NOON,
        duration_ms: 345,
        outcome: AttemptOutcome::Succeeded,
    }
}

pub(crate) fn token(kind: TokenKind) -> ApiToken {
    let id = TokenId::generate();
    let mut hash = [7; 32];
    hash[..16].copy_from_slice(id.as_uuid().as_bytes());
    ApiToken {
        id,
        name: format!("a {kind} token"),
        kind,
        hash: TokenHash::from(hash),
        created_at: NOON,
        expires_at: None,
        owner_id: None,
        revoked_at: None,
        session: None,
        mcp_servers: None,
    }
}

/// A token that workspaces can belong to.
pub(crate) async fn owner(store: &dyn Store) -> TokenId {
    let token = token(TokenKind::User);
    store.insert_token(&token, None).await.unwrap();
    token.id
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is not an object"),
    }
}

pub(crate) fn count(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

/// Every id that a walk over all pages sees, in order.
pub(crate) async fn walk(store: &dyn Store, filter: WorkspaceFilter, page_size: u32) -> Vec<WorkspaceId> {
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.list_workspaces(filter, cursor, count(page_size)).await.unwrap();
        assert!(page.items.len() <= page_size as usize);
        seen.extend(page.items.iter().map(|row| row.id));
        // As a client has it: through text.
        cursor = page.next.map(|next| next.to_string().parse().unwrap());
        if cursor.is_none() {
            return seen;
        }
    }
}
