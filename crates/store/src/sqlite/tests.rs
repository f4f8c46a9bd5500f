//! What can only be seen from inside: the schema, the plans, the settings.

use std::num::NonZeroU32;

use emergent_types::{ContainerType, ProviderKind, WorkspaceId, WorkspaceStatus};
use sqlx::{AssertSqlSafe, Row};
use tempfile::TempDir;

use super::audit::FINISH;
use super::migrations::MIGRATIONS;
use super::statement::DIALECT;
use super::workspaces::{COUNT_ACTIVE, TOUCH};
use super::{SqliteStore, because};
use crate::columns::{audit, keys, tokens, workspaces};
use crate::{
    AuditFilter, AuditOutcome, IdempotencyKey, Operation, SecretKey, StoreError, TokenFilter, TokenHash,
    TokenId, Vault, WorkspaceCursor, WorkspaceFilter, now,
};

/// What whoever looks at the table asks for: those whose time is over.
const EXPIRED: &str = "
    SELECT id FROM kb_agent_workspaces INDEXED BY idx_workspaces_expiry
    WHERE lifecycle = 'ephemeral' AND expires_at <= ? AND status IN ('ready', 'stopped', 'failed')
    ORDER BY expires_at
    LIMIT ?";

const PAGE: NonZeroU32 = NonZeroU32::new(50).unwrap();

async fn temp_store() -> (SqliteStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault::new(&SecretKey::from([1; 32]));
    (SqliteStore::open(&folder.path().join("emergent.db"), vault).await.unwrap(), folder)
}

async fn plan(store: &SqliteStore, sql: &str) -> String {
    let steps = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
        .fetch_all(&store.readers)
        .await
        .unwrap();
    steps.iter().map(|step| step.get::<String, _>("detail")).collect::<Vec<_>>().join("; ")
}

/// However many rows there are, nothing reads or sorts them all.
///
/// Proves: DESIGN-9.4
#[tokio::test]
async fn every_query_has_its_index() {
    let (store, _folder) = temp_store().await;
    let listed = |filter| workspaces::list(&DIALECT, filter, None, PAGE).sql;
    let audited = |filter: AuditFilter| audit::list(&DIALECT, &filter, None, PAGE).sql;
    let any = AuditFilter::default();
    let id = WorkspaceId::generate();
    let token = TokenId::generate();
    let key = IdempotencyKey { owner: token, key: "key".to_owned(), fingerprint: [0; 32] };
    let all = WorkspaceFilter::default();
    let after = Some(WorkspaceCursor { created_at: now(), id });
    let by_key = "sqlite_autoindex_kb_agent_workspaces_1";
    for (sql, index) in [
        (workspaces::get(&DIALECT, id).sql, by_key),
        (TOUCH.to_owned(), by_key),
        (COUNT_ACTIVE.to_owned(), "idx_workspaces_active"),
        (EXPIRED.to_owned(), "idx_workspaces_expiry"),
        (listed(all), "idx_workspaces_by_age"),
        (workspaces::list(&DIALECT, all, after, PAGE).sql, "idx_workspaces_by_age"),
        (
            listed(WorkspaceFilter { status: Some(WorkspaceStatus::Failed), ..all }),
            "idx_workspaces_by_status",
        ),
        (listed(WorkspaceFilter { provider: Some(ProviderKind::E2b), ..all }), "idx_workspaces_by_provider"),
        (listed(WorkspaceFilter { owner: Some(TokenId::generate()), ..all }), "idx_workspaces_by_owner"),
        (
            listed(WorkspaceFilter { container_type: Some(ContainerType::McpServer), ..all }),
            "idx_workspaces_by_container_type",
        ),
        (
            "SELECT id FROM kb_agent_workspaces WHERE container_type = 'mcp_server'
             AND lifecycle = 'persistent' AND status = 'ready'"
                .to_owned(),
            "idx_workspaces_persistent",
        ),
        (tokens::by_hash(&DIALECT, &TokenHash::from([0; 32])).sql, "sqlite_autoindex_core_api_tokens_2"),
        (
            tokens::list(&DIALECT, TokenFilter::default(), None, PAGE).sql,
            "sqlite_autoindex_core_api_tokens_1",
        ),
        (tokens::list(&DIALECT, TokenFilter { owner: Some(token) }, None, PAGE).sql, "idx_tokens_by_owner"),
        (tokens::family(&DIALECT, token).sql, "idx_tokens_by_owner"),
        (keys::find(&DIALECT, DIALECT.keys, &key).sql, "sqlite_autoindex_core_idempotency_keys_2"),
        (
            keys::find(&DIALECT, DIALECT.token_keys, &key).sql,
            "sqlite_autoindex_core_token_idempotency_keys_2",
        ),
        (keys::release(&DIALECT, id).sql, "sqlite_autoindex_core_idempotency_keys_1"),
        (keys::prune(&DIALECT, now())[0].sql.clone(), "idx_idempotency_keys_by_age"),
        (keys::prune(&DIALECT, now())[1].sql.clone(), "idx_token_idempotency_keys_by_age"),
        (keys::prune(&DIALECT, now())[2].sql.clone(), "idx_snapshot_idempotency_keys_by_age"),
        (
            keys::find(&DIALECT, DIALECT.snapshot_keys, &key).sql,
            "sqlite_autoindex_core_snapshot_idempotency_keys_2",
        ),
        (FINISH.to_owned(), "sqlite_autoindex_kb_tool_audit_1"),
        (audited(any.clone()), "idx_tool_audit_by_time"),
        (
            audited(AuditFilter { since: Some(now()), until: Some(now()), ..any.clone() }),
            "idx_tool_audit_by_time",
        ),
        (audited(AuditFilter { workspace_id: Some(id), ..any.clone() }), "idx_tool_audit_by_workspace"),
        (audited(AuditFilter { caller: Some(token), ..any.clone() }), "idx_tool_audit_by_caller"),
        (audited(AuditFilter { tool: Some("bash".to_owned()), ..any.clone() }), "idx_tool_audit_by_tool"),
        (audited(AuditFilter { outcome: Some(AuditOutcome::Error), ..any }), "idx_tool_audit_by_outcome"),
        (audit::prune(&DIALECT, now(), 1.try_into().unwrap()).sql, "idx_tool_audit_by_time"),
        (audit::interrupt(&DIALECT).sql, "idx_tool_audit_by_outcome"),
    ] {
        let plan = plan(&store, &sql).await;
        assert!(plan.contains(&format!("INDEX {index}")), "{sql}: {plan}");
        // The family of a token is put in order after it was found.
        assert!(!plan.contains("TEMP B-TREE") || sql.contains("RECURSIVE"), "{sql}: {plan}");
    }
}

/// Proves: DESIGN-9.1
#[tokio::test]
async fn the_table_has_the_columns_of_the_founding_design() {
    let (store, _folder) = temp_store().await;
    let columns: Vec<String> =
        sqlx::query_scalar("SELECT name FROM pragma_table_info('kb_agent_workspaces')")
            .fetch_all(&store.readers)
            .await
            .unwrap();
    for column in [
        "id",
        "agent_session_id",
        "container_type",
        "provider",
        "provider_workspace_id",
        "repository_url",
        "branch",
        "deployment_mode",
        "lifecycle",
        "status",
        "created_at",
        "last_used_at",
        "expires_at",
        "resource_limits",
        "snapshot_id",
        "mcp_config",
        "metadata",
    ] {
        assert!(columns.iter().any(|found| found == column), "{column} is missing");
    }
}

/// Proves: ROLL-2
#[test]
fn migrations_only_add() {
    let mut versions = Vec::new();
    for migration in MIGRATIONS.iter() {
        versions.push(migration.version);
        crate::migration::assert_only_adds(migration);
    }
    let expect: Vec<_> = (1..=versions.len() as i64).collect();
    assert_eq!(versions, expect, "numbers without gaps, in order");
}

#[tokio::test]
async fn every_table_is_strict() {
    let (store, _folder) = temp_store().await;
    let loose: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM pragma_table_list
         WHERE schema = 'main' AND strict = 0 AND name NOT LIKE 'sqlite_%' AND name <> '_sqlx_migrations'",
    )
    .fetch_all(&store.readers)
    .await
    .unwrap();
    assert_eq!(loose, Vec::<String>::new());
}

/// What durability rests on.
#[tokio::test]
async fn the_writer_is_set_up_for_durability() {
    let (store, _folder) = temp_store().await;
    let full = 2;
    for (pragma, expect) in [("synchronous", full), ("foreign_keys", 1), ("busy_timeout", 5000)] {
        let value: i64 = sqlx::query_scalar(AssertSqlSafe(format!("PRAGMA {pragma}")))
            .fetch_one(&store.writer)
            .await
            .unwrap();
        assert_eq!(value, expect, "{pragma}");
    }
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&store.writer).await.unwrap();
    assert_eq!(mode, "wal");
    let refused = sqlx::query("DELETE FROM core_installation").execute(&store.readers).await;
    assert!(refused.is_err(), "a reader cannot write");
}

#[tokio::test]
async fn a_full_disk_is_told_from_other_failures() {
    let (store, _folder) = temp_store().await;
    let mut writer = store.writer.acquire().await.unwrap();
    sqlx::query("PRAGMA max_page_count = 1").execute(&mut *writer).await.unwrap();
    let refused = sqlx::raw_sql("CREATE TABLE large AS SELECT zeroblob(100000) AS content")
        .execute(&mut *writer)
        .await
        .unwrap_err();
    let error = because(Operation::Health)(refused);
    assert!(matches!(error, StoreError::DiskFull { operation: Operation::Health }), "{error:?}");
    assert!(error.is_retryable());

    let refused = sqlx::query("SELECT * FROM nothing").execute(&mut *writer).await.unwrap_err();
    let error = because(Operation::Health)(refused);
    assert!(matches!(error, StoreError::Database { .. }), "{error:?}");
    assert!(!error.is_retryable());
}

/// Also when the last of several statements is refused.
#[tokio::test]
async fn audit_entries_are_all_written_or_none() {
    let (store, _folder) = temp_store().await;
    sqlx::raw_sql(
        "CREATE TRIGGER refuse BEFORE INSERT ON kb_tool_audit WHEN NEW.tool = 'refused'
         BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )
    .execute(&store.writer)
    .await
    .unwrap();
    crate::audit::tests::all_are_written_or_none(&store).await;
}
