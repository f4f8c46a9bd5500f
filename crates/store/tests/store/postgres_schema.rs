//! The tables, as `psql` shows them.

use emergent_store::Store;
use emergent_store::postgres::PostgresStore;
use emergent_test_support::{Durability, PostgresServer};
use emergent_types::{ContainerType, WorkspaceId, WorkspaceStatus};

use crate::sqlite_suite::vault;

/// Name, type, whether NULL is allowed, default; in order.
const FOUNDING_COLUMNS: &str = "\
id|uuid|NO|
agent_session_id|uuid|YES|
container_type|text|NO|
provider|text|NO|
provider_workspace_id|text|NO|
repository_url|text|YES|
branch|text|YES|
deployment_mode|text|NO|
lifecycle|text|NO|
status|text|NO|
created_at|timestamp with time zone|NO|now()
last_used_at|timestamp with time zone|NO|now()
expires_at|timestamp with time zone|YES|
resource_limits|jsonb|YES|
snapshot_id|text|YES|
mcp_config|jsonb|YES|
metadata|jsonb|YES|";

/// As above, of the table that holds the GitHub App.
const GITHUB_APP_COLUMNS: &str = "\
id|uuid|NO|gen_random_uuid()
app_id|bigint|NO|
app_slug|text|NO|
private_key_encrypted|bytea|NO|
webhook_secret_encrypted|bytea|YES|
installation_id|bigint|YES|
installation_org|text|YES|
owner_id|uuid|YES|
created_at|timestamp with time zone|NO|now()
updated_at|timestamp with time zone|NO|now()";

/// The first columns of a table.
fn columns(server: &PostgresServer, database: &str, schema: &str, table: &str, first: usize) -> String {
    let query = format!(
        "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns
         WHERE table_schema = '{schema}' AND table_name = '{table}' ORDER BY ordinal_position LIMIT {first}"
    );
    server.query(database, &query).unwrap()
}

/// Proves: DESIGN-8.11
#[tokio::test]
async fn the_github_app_has_the_founding_designs_columns() {
    let server = PostgresServer::start(Durability::None).unwrap();
    let url = server.create_database().unwrap();
    let database = url.rsplit_once('/').unwrap().1;
    let _store = PostgresStore::open(&url, vault()).await.unwrap();
    assert_eq!(columns(&server, database, "core", "github_app_config", 99), GITHUB_APP_COLUMNS);
    let refers_to = "SELECT confrelid::regclass FROM pg_constraint
                     WHERE conrelid = 'core.github_app_config'::regclass AND contype = 'f'";
    assert_eq!(server.query(database, refers_to).unwrap(), "core.api_tokens");
}

/// Proves: DESIGN-9.1, DESIGN-9.7
#[tokio::test]
async fn the_table_is_that_of_the_founding_design() {
    let server = PostgresServer::start(Durability::None).unwrap();
    let url = server.create_database().unwrap();
    let database = url.rsplit_once('/').unwrap().1;
    let store = PostgresStore::open(&url, vault()).await.unwrap();
    assert_eq!(columns(&server, database, "kb", "agent_workspaces", 17), FOUNDING_COLUMNS);
    let index = server
        .query(database, "SELECT indexdef FROM pg_indexes WHERE indexname = 'idx_workspaces_persistent'")
        .unwrap();
    assert_eq!(
        index,
        "CREATE INDEX idx_workspaces_persistent ON kb.agent_workspaces USING btree \
         (container_type, lifecycle, status) WHERE ((container_type = 'mcp_server'::text) \
         AND (lifecycle = 'persistent'::text))"
    );

    // A row with no more than the founding design has is one of ours.
    let id = WorkspaceId::generate();
    server
        .query(
            database,
            &format!(
                "INSERT INTO kb.agent_workspaces (id, container_type, provider, provider_workspace_id,
                     deployment_mode, lifecycle, status)
                 VALUES ('{id}', 'mcp_server', 'gvisor', 'x', 'self-hosted', 'persistent', 'stopped')"
            ),
        )
        .unwrap();
    let row = store.get_workspace(id).await.unwrap().unwrap();
    assert_eq!((row.container_type, row.status), (ContainerType::McpServer, WorkspaceStatus::Stopped));
}
