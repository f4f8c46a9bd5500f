//! What can only be seen from inside: the schema, the plans, the settings.

use emergent_types::{ContainerType, ProviderKind, WorkspaceId, WorkspaceStatus};
use sqlx::{AssertSqlSafe, Row};
use tempfile::TempDir;

use super::migrations::MIGRATIONS;
use super::workspaces::{COUNT_ACTIVE, EXPIRED, GET, TOUCH, list_query};
use super::{SqliteStore, because};
use crate::{Operation, SecretKey, StoreError, TokenId, Vault, WorkspaceCursor, WorkspaceFilter};

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
    let listed = |filter| list_query(filter, None, 50).sql().as_str().to_owned();
    let all = WorkspaceFilter::default();
    let after = Some(WorkspaceCursor::after(WorkspaceId::generate()));
    let by_key = "sqlite_autoindex_kb_agent_workspaces_1";
    for (sql, index) in [
        (GET.to_owned(), by_key),
        (TOUCH.to_owned(), by_key),
        (COUNT_ACTIVE.to_owned(), "idx_workspaces_active"),
        (EXPIRED.to_owned(), "idx_workspaces_expiry"),
        (listed(all), by_key),
        (list_query(all, after, 50).sql().as_str().to_owned(), by_key),
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
        ("SELECT * FROM core_api_tokens WHERE hash = ?".to_owned(), "sqlite_autoindex_core_api_tokens_2"),
    ] {
        let plan = plan(&store, &sql).await;
        assert!(plan.contains(&format!("INDEX {index}")), "{sql}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}: {plan}");
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
        let sql = migration.sql.as_str().to_uppercase();
        for word in ["DROP ", "DELETE ", "RENAME ", "UPDATE "] {
            assert!(!sql.contains(word), "migration {} contains {word}", migration.version);
        }
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
