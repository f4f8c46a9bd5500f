//! What is older than it need be goes by itself.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use emergent_store::sqlite::SqliteStore;
use emergent_store::{
    AuditEntry, AuditFilter, AuditOutcome, IdempotencyKey, SecretKey, Store, Vault, WorkspaceRow,
};
use emergent_test_support::{TestServerOptions, eventually};
use emergent_types::WorkspaceId;
use reqwest::Method;
use serde_json::json;

use crate::api::{Api, WORKSPACES};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The database of a server that does not run.
async fn open(data_dir: &Path) -> SqliteStore {
    let key = std::fs::read_to_string(data_dir.join("secret.key")).unwrap();
    let key = base64::engine::general_purpose::STANDARD.decode(key.trim()).unwrap();
    let vault = Vault::new(&SecretKey::try_from(key.as_slice()).unwrap());
    SqliteStore::open(&data_dir.join("emergent.db"), vault).await.unwrap()
}

/// An entry of the audit log, and a key of a create, that are so old.
async fn age(store: &SqliteStore, entry: &AuditEntry, row: &WorkspaceRow, days: u32) {
    let then = emergent_store::now() - DAY * days;
    let entry = AuditEntry {
        id: uuid::Uuid::now_v7(),
        at: then,
        tool: format!("tool-{days}"),
        outcome: AuditOutcome::Ok,
        ..entry.clone()
    };
    store.append_audit(&[entry]).await.unwrap();
    let row = WorkspaceRow { id: WorkspaceId::generate(), created_at: then, ..row.clone() };
    let owner = row.owner_id.unwrap();
    let key = IdempotencyKey { owner, key: format!("key-{days}"), fingerprint: [0; 32] };
    store.insert_workspace(&row, 1000, Some(&key)).await.unwrap();
    // A key outlives its workspace.
    assert!(store.delete_workspace(row.id).await.unwrap());
}

#[tokio::test]
async fn a_running_server_forgets_what_is_too_old() {
    let options = TestServerOptions::default().with("AUDIT_RETENTION_DAYS", 30);
    let mut api = Api::start_with(options).await;
    let id = {
        let workspace = api.create().await;
        workspace.sh("true").await;
        workspace.id
    };
    assert!(api.server.terminate().await.success());
    let store = open(&api.server.data_dir()).await;
    let row = store.get_workspace(id).await.unwrap().unwrap();
    let page = store.list_audit(&AuditFilter::default(), None, 1.try_into().unwrap()).await.unwrap();
    for days in [31, 29, 8, 6] {
        age(&store, &page.items[0], &row, days).await;
    }
    store.close().await;
    drop(store);

    api.restart().await;
    let tools = async || {
        let audit = api.get("/api/v1/audit?limit=500").await.body;
        let items = audit["items"].as_array().unwrap().clone();
        items.iter().map(|entry| entry["tool"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    eventually("what is too old is gone", Duration::from_secs(10), async || {
        (!tools().await.contains(&"tool-31".to_owned())).then_some(())
    })
    .await;
    let kept = tools().await;
    for tool in ["tool-29", "tool-8", "tool-6", "bash"] {
        assert!(kept.iter().any(|kept| kept == tool), "{tool} is gone: {kept:?}");
    }
    // Keys are kept for a week. One that is forgotten can be used again.
    let create = async |key: &str| {
        let body = json!({"resource_limits": {"cpu": "1", "memory": "256M", "disk": "128M"}});
        let request =
            api.probe().request(Method::POST, WORKSPACES).header("idempotency-key", key).json(&body);
        api.call(Method::POST, WORKSPACES, request).await.status
    };
    eventually("the old key is forgotten", Duration::from_secs(10), async || {
        (create("key-8").await == 201).then_some(())
    })
    .await;
    assert_eq!(create("key-6").await, 409);
    api.finish().await;
}
