//! The database goes away and comes back; another server comes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_store::postgres::PostgresStore;
use emergent_store::{
    InsertWorkspaceError, OpenError, SecretKey, Store, StoreError, Vault, VaultError, WorkspaceFilter,
};
use emergent_test_support::{Durability, PostgresServer, eventually};
use emergent_types::WorkspaceId;

use crate::sqlite_suite::vault;
use crate::suite::fixtures::{NO_LIMIT, count, workspace};

/// More than any call may take, on a busy machine.
const FEW_SECONDS: Duration = Duration::from_secs(9);
const BACK_LIMIT: Duration = Duration::from_secs(30);

fn insert_failure(answer: Result<(), InsertWorkspaceError>) -> StoreError {
    match answer.unwrap_err() {
        InsertWorkspaceError::Store(error) => error,
        other => panic!("{other:?}"),
    }
}

/// Every kind of call is answered in time, and may be made again.
async fn assert_away(store: &dyn Store) {
    let begun = Instant::now();
    let row = workspace();
    let (health, read, list, write) = tokio::join!(
        store.health(),
        store.get_workspace(row.id),
        store.list_workspaces(WorkspaceFilter::default(), None, count(10)),
        store.insert_workspace(&row, NO_LIMIT, None),
    );
    let errors = [health.unwrap_err(), read.unwrap_err(), list.unwrap_err(), insert_failure(write)];
    for error in errors {
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(error.is_retryable());
    }
    assert!(begun.elapsed() < FEW_SECONDS, "{:?}", begun.elapsed());
}

async fn assert_back(store: &dyn Store) -> Duration {
    let probe = async || {
        let row = workspace();
        store.insert_workspace(&row, NO_LIMIT, None).await.ok()?;
        store.get_workspace(row.id).await.ok()?.filter(|found| *found == row)
    };
    eventually("the store works again", BACK_LIMIT, probe).await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_gone_for_a_while_is_used_again() {
    let mut server = PostgresServer::start(Durability::Full).unwrap();
    let store = PostgresStore::open(&server.create_database().unwrap(), vault()).await.unwrap();
    let before = workspace();
    store.insert_workspace(&before, NO_LIMIT, None).await.unwrap();

    server.stop().unwrap();
    for _ in 0..3 {
        assert_away(&store).await;
    }
    server.resume().unwrap();
    assert_back(&store).await;
    assert_eq!(store.get_workspace(before.id).await.unwrap(), Some(before));

    // Connections that stay open and say nothing are worse.
    server.freeze().unwrap();
    assert_away(&store).await;
    server.thaw().unwrap();
    assert_back(&store).await;
}

/// Nothing that was acknowledged is lost, and nothing that was refused is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_database_loses_nothing_acknowledged() {
    let mut server = PostgresServer::start(Durability::Full).unwrap();
    let store = PostgresStore::open(&server.create_database().unwrap(), vault()).await.unwrap();
    let store = Arc::new(store);
    let mut acknowledged: Vec<WorkspaceId> = Vec::new();
    let mut refused: Vec<WorkspaceId> = Vec::new();
    for round in 0..3 {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let mut done = Vec::new();
                    loop {
                        let row = workspace();
                        match store.insert_workspace(&row, NO_LIMIT, None).await {
                            Ok(()) => done.push(row.id),
                            Err(_) => return (done, row.id),
                        }
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(500 + 37 * round)).await;
        server.kill().unwrap();
        for writer in writers {
            let (done, last) = writer.await.unwrap();
            acknowledged.extend(done);
            refused.push(last);
        }
        server.resume().unwrap();
        assert_back(store.as_ref()).await;
        let ids: Vec<_> = store.workspaces_for_reconcile().await.unwrap().iter().map(|row| row.id).collect();
        for id in &acknowledged {
            assert!(ids.contains(id), "{id} was acknowledged and is lost");
        }
    }
    assert!(acknowledged.len() > 20, "only {} inserts", acknowledged.len());
    // Whoever was refused was told that there is nothing, and it takes no place.
    let nothing_refused = async || {
        let rows = store.workspaces_for_reconcile().await.ok()?;
        rows.iter().all(|row| !refused.contains(&row.id)).then_some(())
    };
    eventually("what was refused is not there", BACK_LIMIT, nothing_refused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_is_refused() {
    let server = PostgresServer::start(Durability::None).unwrap();
    let url = server.create_database().unwrap();
    let first = PostgresStore::open(&url, vault()).await.unwrap();
    let installation = first.installation().clone();
    let error = PostgresStore::open(&url, vault()).await.unwrap_err();
    let OpenError::AlreadyInUse { holder: Some(holder), .. } = &error else { panic!("{error:?}") };
    assert!(holder.contains(&format!("process {}", std::process::id())), "{holder}");
    assert!(error.is_retryable());

    // Nothing of the first one was disturbed, and its lock ends with it.
    first.insert_workspace(&workspace(), NO_LIMIT, None).await.unwrap();
    drop(first);
    let second = PostgresStore::open(&url, vault()).await.unwrap();
    assert_eq!(second.installation(), &installation);
    second.close().await;
    PostgresStore::open(&url, vault()).await.unwrap();
}

/// Ends the session that holds the lock, as a broken network would.
fn break_lock(server: &PostgresServer, database: &str) {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1";
    assert_eq!(server.query(database, sql).unwrap(), "t");
}

fn lock_holders(server: &PostgresServer, database: &str) -> String {
    let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND granted";
    server.query(database, sql).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lock_is_taken_again() {
    let server = PostgresServer::start(Durability::None).unwrap();
    let url = server.create_database().unwrap();
    let database = url.rsplit_once('/').unwrap().1;
    let store = PostgresStore::open(&url, vault()).await.unwrap();
    break_lock(&server, database);
    let held = async || (lock_holders(&server, database) == "1").then_some(());
    eventually("the lock is held again", BACK_LIMIT, held).await;
    store.insert_workspace(&workspace(), NO_LIMIT, None).await.unwrap();
    let error = PostgresStore::open(&url, vault()).await.unwrap_err();
    assert!(matches!(error, OpenError::AlreadyInUse { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_overtaken_writes_no_more() {
    let server = PostgresServer::start(Durability::None).unwrap();
    let url = server.create_database().unwrap();
    let database = url.rsplit_once('/').unwrap().1;
    let first = PostgresStore::open(&url, vault()).await.unwrap();
    // The second comes in the moment in which the first has lost its lock.
    let second = {
        let opening = tokio::spawn({
            let url = url.clone();
            async move {
                loop {
                    if let Ok(store) = PostgresStore::open(&url, vault()).await {
                        return store;
                    }
                }
            }
        });
        while !opening.is_finished() {
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
                       WHERE locktype = 'advisory' AND objid = 1 AND backend_start < now() - interval '1 second'";
            server.query(database, sql).unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        opening.await.unwrap()
    };
    let row = workspace();
    let error = insert_failure(first.insert_workspace(&row, NO_LIMIT, None).await);
    assert!(matches!(error, StoreError::Superseded { .. }), "{error:?}");
    assert!(!error.is_retryable());
    let told = async || matches!(first.health().await, Err(StoreError::Superseded { .. })).then_some(());
    eventually("the health of the first says so", BACK_LIMIT, told).await;
    second.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    // Also when the second has gone: what the first knows is out of date.
    drop(second);
    let error = insert_failure(first.insert_workspace(&workspace(), NO_LIMIT, None).await);
    assert!(matches!(error, StoreError::Superseded { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_be_used_is_named() {
    let server = PostgresServer::start(Durability::None).unwrap();
    let url = server.create_database().unwrap();
    drop(PostgresStore::open(&url, vault()).await.unwrap());
    let wrong_key = Vault::new(&SecretKey::from([1; 32]));
    let error = PostgresStore::open(&url, wrong_key).await.unwrap_err();
    assert!(matches!(error, OpenError::Vault { cause: VaultError::WrongKey { .. }, .. }), "{error:?}");

    let missing = server.url("nowhere").replace("postgres@", "postgres:hunter2@");
    let error = PostgresStore::open(&missing, vault()).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("nowhere") && !text.contains("hunter2"), "{text}");

    let foreign = server.create_database().unwrap();
    let name = foreign.rsplit_once('/').unwrap().1;
    server.query(name, "CREATE SCHEMA kb; CREATE TABLE kb.agent_workspaces (id int)").unwrap();
    let error = PostgresStore::open(&foreign, vault()).await.unwrap_err();
    assert!(matches!(error, OpenError::ForeignDatabase { .. }), "{error:?}");

    server
        .query(
            url.rsplit_once('/').unwrap().1,
            "INSERT INTO core.workspace_migrations VALUES (9000, 'future', now(), true, '', 0)",
        )
        .unwrap();
    let error = PostgresStore::open(&url, vault()).await.unwrap_err();
    assert!(matches!(error, OpenError::SchemaTooNew { found: 9000, .. }), "{error:?}");
}
