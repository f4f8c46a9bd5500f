//! What can only be seen from inside: the plans and the migrations.

use std::num::NonZeroU32;

use emergent_test_support::{Durability, PostgresServer};
use emergent_types::{ContainerType, ProviderKind, WorkspaceId, WorkspaceStatus};
use sqlx::{AssertSqlSafe, Row};

use super::PostgresStore;
use super::migrations::MIGRATIONS;
use super::statement::{DIALECT, query};
use super::workspaces::COUNT_ACTIVE;
use crate::columns::{Statement, audit, keys, tokens, workspaces};
use crate::{
    AuditFilter, AuditOutcome, IdempotencyKey, SecretKey, TokenFilter, TokenHash, TokenId, Vault,
    WorkspaceCursor, WorkspaceFilter, now, sqlite,
};

/// What whoever looks at the table asks for: those whose time is over.
const EXPIRED: &str = "
    SELECT id FROM kb.agent_workspaces
    WHERE lifecycle = 'ephemeral' AND expires_at <= $1 AND status IN ('ready', 'stopped', 'failed')
    ORDER BY expires_at
    LIMIT $2";

const PAGE: NonZeroU32 = NonZeroU32::new(50).unwrap();

/// As in a long-lived installation: mostly stopped, few active.
const FILL: &str = "
    INSERT INTO kb.agent_workspaces (id, container_type, provider, provider_workspace_id, deployment_mode,
                                     lifecycle, status, expires_at)
    SELECT gen_random_uuid(), CASE WHEN n % 1000 = 0 THEN 'mcp_server' ELSE 'agent_workspace' END,
           CASE WHEN n % 500 = 0 THEN 'e2b' ELSE 'local' END, n::text, 'self-hosted', 'ephemeral',
           CASE WHEN n % 1000 = 1 THEN 'ready' WHEN n % 200 = 2 THEN 'failed' ELSE 'stopped' END,
           now() + n * interval '1 minute'
    FROM generate_series(1, 10000) AS n;
    INSERT INTO core.api_tokens (id, name, kind, hash, created_at)
    SELECT gen_random_uuid(), 'x', 'user', sha256(n::text::bytea), now() FROM generate_series(1, 2000) AS n;
    UPDATE core.api_tokens SET owner_id = (SELECT min(id::text)::uuid FROM core.api_tokens)
    WHERE get_byte(hash, 0) = 0;
    INSERT INTO core.idempotency_keys
    SELECT gen_random_uuid(), 'x', sha256(''), gen_random_uuid(), now() - n * interval '1 minute'
    FROM generate_series(1, 10000) AS n;
    INSERT INTO core.token_idempotency_keys SELECT * FROM core.idempotency_keys;
    INSERT INTO core.snapshot_idempotency_keys SELECT * FROM core.idempotency_keys;
    INSERT INTO kb.tool_audit (id, at, tool, workspace_id, caller, request_id, outcome, summary)
    SELECT gen_random_uuid(), now() - n * interval '1 second', 'tool ' || n % 100,
           md5((n % 100)::text)::uuid, md5((n % 90)::text)::uuid, 'r',
           CASE WHEN n % 100 = 0 THEN 'error' ELSE 'ok' END, '{}'
    FROM generate_series(1, 10000) AS n;
    ANALYZE";

async fn plan(store: &PostgresStore, mut statement: Statement) -> String {
    statement.sql.insert_str(0, "EXPLAIN ");
    let steps = query(statement).fetch_all(&store.pool).await.unwrap();
    steps.iter().map(|step| step.get::<String, _>(0)).collect::<Vec<_>>().join("\n")
}

/// However many rows there are, nothing reads them all.
#[tokio::test]
async fn every_query_has_its_index() {
    let server = PostgresServer::start(Durability::None).unwrap();
    let vault = Vault::new(&SecretKey::from([1; 32]));
    let store = PostgresStore::open(&server.create_database().unwrap(), vault).await.unwrap();
    sqlx::raw_sql(FILL).execute(&store.pool).await.unwrap();
    let listed = |filter| workspaces::list(&DIALECT, filter, None, PAGE);
    let audited = |filter: AuditFilter| audit::list(&DIALECT, &filter, None, PAGE);
    let all = WorkspaceFilter::default();
    let any = AuditFilter::default();
    let (id, token) = (WorkspaceId::generate(), TokenId::generate());
    let after = Some(WorkspaceCursor { created_at: now(), id });
    let key = IdempotencyKey { owner: token, key: "key".to_owned(), fingerprint: [0; 32] };
    for (statement, index) in [
        (workspaces::get(&DIALECT, id), "agent_workspaces_pkey"),
        (listed(all), "idx_workspaces_by_age"),
        (workspaces::list(&DIALECT, all, after, PAGE), "idx_workspaces_by_age"),
        (
            listed(WorkspaceFilter { status: Some(WorkspaceStatus::Failed), ..all }),
            "idx_workspaces_by_status",
        ),
        (listed(WorkspaceFilter { provider: Some(ProviderKind::E2b), ..all }), "idx_workspaces_by_provider"),
        (listed(WorkspaceFilter { owner: Some(token), ..all }), "idx_workspaces_by_owner"),
        (
            listed(WorkspaceFilter { container_type: Some(ContainerType::McpServer), ..all }),
            "idx_workspaces_by_container_type",
        ),
        (tokens::by_hash(&DIALECT, &TokenHash::from([0; 32])), "api_tokens_hash_key"),
        (tokens::list(&DIALECT, TokenFilter::default(), None, PAGE), "api_tokens_pkey"),
        (tokens::list(&DIALECT, TokenFilter { owner: Some(token) }, None, PAGE), "idx_tokens_by_owner"),
        (keys::find(&DIALECT, DIALECT.keys, &key), "idempotency_keys_pkey"),
        (keys::find(&DIALECT, DIALECT.token_keys, &key), "token_idempotency_keys_pkey"),
        (keys::find(&DIALECT, DIALECT.snapshot_keys, &key), "snapshot_idempotency_keys_pkey"),
        (keys::release(&DIALECT, id), "idempotency_keys_workspace_id_key"),
        (audited(any.clone()), "idx_tool_audit_by_time"),
        (audited(AuditFilter { workspace_id: Some(id), ..any.clone() }), "idx_tool_audit_by_workspace"),
        (audited(AuditFilter { caller: Some(token), ..any.clone() }), "idx_tool_audit_by_caller"),
        (audited(AuditFilter { tool: Some("tool 7".to_owned()), ..any.clone() }), "idx_tool_audit_by_tool"),
        (audited(AuditFilter { outcome: Some(AuditOutcome::Cancelled), ..any }), "idx_tool_audit_by_outcome"),
        (audit::prune(&DIALECT, now(), 10.try_into().unwrap()), "idx_tool_audit_by_time"),
        (audit::interrupt(&DIALECT), "idx_tool_audit_by_outcome"),
    ] {
        let sql = statement.sql.clone();
        let plan = plan(&store, statement).await;
        assert!(plan.contains(index), "{sql}:\n{plan}");
        assert!(!plan.contains("Seq Scan"), "{sql}:\n{plan}");
    }
    let explain = async |sql: &str, values: bool| {
        let explained = sqlx::query(AssertSqlSafe(format!("EXPLAIN {sql}")));
        let explained = if values { explained.bind(now()).bind(10_i64) } else { explained };
        let steps = explained.fetch_all(&store.pool).await.unwrap();
        steps.iter().map(|step| step.get::<String, _>(0)).collect::<Vec<_>>().join("\n")
    };
    assert!(explain(COUNT_ACTIVE, false).await.contains("idx_workspaces_active"));
    assert!(explain(EXPIRED, true).await.contains("idx_workspaces_expiry"));
}

/// Proves: ROLL-2
#[test]
fn migrations_only_add_and_mirror_those_of_sqlite() {
    let names = |migrations: &sqlx::migrate::Migrator| -> Vec<_> {
        migrations.iter().map(|migration| (migration.version, migration.description.to_string())).collect()
    };
    assert_eq!(names(&MIGRATIONS), names(&sqlite::migrations::MIGRATIONS));
    for migration in MIGRATIONS.iter() {
        crate::migration::assert_only_adds(migration);
    }
}

/// Also when the last of several statements is refused.
#[tokio::test]
async fn audit_entries_are_all_written_or_none() {
    let server = PostgresServer::start(Durability::None).unwrap();
    let vault = Vault::new(&SecretKey::from([1; 32]));
    let store = PostgresStore::open(&server.create_database().unwrap(), vault).await.unwrap();
    sqlx::raw_sql("ALTER TABLE kb.tool_audit ADD CONSTRAINT refuse CHECK (tool <> 'refused')")
        .execute(&store.pool)
        .await
        .unwrap();
    crate::audit::tests::all_are_written_or_none(&store).await;
}
