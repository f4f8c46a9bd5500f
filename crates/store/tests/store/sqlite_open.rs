//! Opening a file: whose it is, whether it is whole, who else has it open.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use emergent_store::sqlite::SqliteStore;
use emergent_store::{
    OpenError, SecretKey, Store, StoreError, UpdateWorkspaceError, Vault, VaultError, WorkspaceRow,
    WorkspaceUpdate,
};
use sqlx::{Connection, SqliteConnection};

use crate::sqlite_suite::{database_in, vault};
use crate::suite::fixtures::{NO_LIMIT, full_workspace, owner, workspace};

/// Looks into the file as any other program would.
async fn execute(path: &Path, sql: &'static str) {
    let mut connection = SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

async fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, vault()).await
}

/// A database with some rows, closed.
async fn used_database(path: &Path, rows: usize) {
    let store = open(path).await.unwrap();
    for _ in 0..rows {
        store.insert_workspace(&workspace(), NO_LIMIT, None).await.unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn what_was_written_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let store = open(&path).await.unwrap();
    let installation = store.installation().clone();
    let row = full_workspace(owner(&store).await);
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    // Dropped without being closed.
    drop(store);

    let store = open(&path).await.unwrap();
    assert_eq!(store.installation(), &installation);
    assert_eq!(store.get_workspace(row.id).await.unwrap(), Some(row));
}

#[tokio::test]
async fn every_database_is_an_installation_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let one = open(&folder.path().join("one.db")).await.unwrap();
    let other = open(&folder.path().join("other.db")).await.unwrap();
    assert_ne!(one.installation().id, other.installation().id);
    assert_ne!(one.installation().secret, other.installation().secret);
}

#[tokio::test]
async fn a_second_server_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let link = folder.path().join("link.db");
    let store = open(&path).await.unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for spelling in [path.clone(), folder.path().join("./emergent.db"), link] {
        let error = open(&spelling).await.unwrap_err();
        assert!(
            matches!(&error, OpenError::AlreadyInUse { holder: Some(holder), .. } if *holder == format!("process {}", std::process::id())),
            "{error:?}"
        );
        assert!(error.is_retryable());
    }
    // Nothing of the first one was disturbed, and its lock ends with it.
    store.insert_workspace(&workspace(), NO_LIMIT, None).await.unwrap();
    drop(store);
    let store = open(&path).await.unwrap();
    assert_eq!(store.count_active().await.unwrap(), 1);
    assert!(path.with_extension("db.lock").exists());
}

#[tokio::test]
async fn nobody_else_can_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    used_database(&path, 1).await;
    // Even where somebody has opened it up.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let store = open(&path).await.unwrap();
    store.insert_workspace(&workspace(), NO_LIMIT, None).await.unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().mode() & 0o777, 0o600, "{:?}", entry.file_name());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(
        names,
        ["emergent.db", "emergent.db-shm", "emergent.db-wal", "emergent.db.lock", "emergent.db.reserve"]
    );
}

/// Proves: ROLL-2
#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    used_database(&path, 1).await;
    execute(&path, "INSERT INTO _sqlx_migrations VALUES (9000, 'future', 0, true, x'00', 0)").await;
    let before = fs::read(&path).unwrap();
    let error = open(&path).await.unwrap_err();
    assert!(matches!(error, OpenError::SchemaTooNew { found: 9000, known, .. } if known < 9000), "{error:?}");
    assert!(error.to_string().contains("schema version 9000"), "{error}");
    assert!(fs::read(&path).unwrap() == before);
}

#[tokio::test]
async fn a_schema_of_another_build_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    used_database(&path, 1).await;
    execute(&path, "UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 2").await;
    let error = open(&path).await.unwrap_err();
    assert!(matches!(error, OpenError::SchemaDiverged { version: 2, .. }), "{error:?}");
}

#[tokio::test]
async fn a_database_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    fs::write(&path, b"").unwrap();
    execute(&path, "CREATE TABLE recipes (name TEXT)").await;
    let error = open(&path).await.unwrap_err();
    assert!(matches!(error, OpenError::ForeignDatabase { .. }), "{error:?}");
    execute(&path, "INSERT INTO recipes VALUES ('soup')").await;
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let text = b"these are my notes, and they are longer than one hundred bytes, \
                 which is what the header of an SQLite database takes, and more";
    fs::write(&path, text).unwrap();
    let error = open(&path).await.unwrap_err();
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
    assert_eq!(fs::read(&path).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_page_is_found() {
    const PAGE: usize = 4096;
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    used_database(&path, 200).await;
    let whole = fs::read(&path).unwrap();
    let pages = whole.len() / PAGE;
    assert!(pages > 20, "only {pages} pages");

    let mut scribbled = whole.clone();
    scribbled[10 * PAGE..11 * PAGE].fill(0xA5);
    let cut = whole[..whole.len() / 2].to_vec();
    for damaged in [scribbled, cut] {
        fs::write(&path, &damaged).unwrap();
        let error = open(&path).await.unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains("emergent.db is damaged"), "{error}");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(open(&path).await.unwrap().count_active().await.unwrap(), 200);
}

#[tokio::test]
async fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing/emergent.db");
    let error = open(&path).await.unwrap_err();
    assert!(matches!(&error, OpenError::Inaccessible { path: named, .. } if *named == path), "{error:?}");
}

#[tokio::test]
async fn the_wrong_key_is_noticed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    used_database(&path, 1).await;
    let error = SqliteStore::open(&path, Vault::new(&SecretKey::from([1; 32]))).await.unwrap_err();
    assert!(matches!(error, OpenError::Vault { cause: VaultError::WrongKey { .. }, .. }), "{error:?}");
    open(&path).await.unwrap();
}

#[tokio::test]
async fn secrets_are_not_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let store = open(&path).await.unwrap();
    let row = full_workspace(owner(&store).await);
    let branch = row.branch.clone().unwrap();
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    let contains = |needle: &[u8]| {
        fs::read_dir(folder.path()).unwrap().any(|entry| {
            fs::read(entry.unwrap().path()).unwrap().windows(needle.len()).any(|window| window == needle)
        })
    };
    assert!(contains(branch.as_bytes()), "what is not secret is found");
    assert!(!contains(b"very secret"));
    assert!(!contains(b"API_KEY"));
    assert!(!contains(store.installation().secret.expose()));
}

/// A sealed environment that was changed, or moved from another row, is refused by name, and
/// the row can still be removed.
#[tokio::test]
async fn a_tampered_environment_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let store = open(&path).await.unwrap();
    let owner = owner(&store).await;
    let rows = [full_workspace(owner), full_workspace(owner)];
    for row in &rows {
        store.insert_workspace(row, NO_LIMIT, None).await.unwrap();
    }
    execute(
        &path,
        "UPDATE kb_agent_workspaces SET environment_encrypted =
             (SELECT environment_encrypted FROM kb_agent_workspaces ORDER BY id LIMIT 1)",
    )
    .await;
    let [unharmed, moved] = rows;
    assert_eq!(store.get_workspace(unharmed.id).await.unwrap(), Some(unharmed));

    let check = |error: &StoreError| {
        let StoreError::UnreadableRow { row, column, cause } = error else { panic!("{error:?}") };
        assert_eq!(row, &moved.id.to_string());
        assert_eq!(column, "kb_agent_workspaces.environment_encrypted");
        assert!(matches!(cause.downcast_ref(), Some(VaultError::Tampered { .. })), "{cause:?}");
        assert!(!error.is_retryable());
    };
    check(&store.get_workspace(moved.id).await.unwrap_err());
    check(&store.workspaces_for_reconcile().await.unwrap_err());
    match store.update_workspace(moved.id, WorkspaceUpdate::default()).await.unwrap_err() {
        UpdateWorkspaceError::Store(error) => check(&error),
        other => panic!("{other:?}"),
    }
    assert!(store.delete_workspace(moved.id).await.unwrap());
    assert_eq!(store.workspaces_for_reconcile().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_row_without_meaning_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let store = open(&path).await.unwrap();
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    execute(&path, r#"UPDATE kb_agent_workspaces SET resource_limits = '{"cpu": "many"}'"#).await;
    let error = store.get_workspace(row.id).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read kb_agent_workspaces.resource_limits of {}", row.id));
}

/// Somebody holds the write lock with a tool of their own: reads go on, a write waits for it.
#[tokio::test]
async fn another_program_in_the_file_delays_writes_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_in(folder.path());
    let store = open(&path).await.unwrap();
    let row = workspace();
    let mut tool = SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
    let held = tool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let write = async {
        store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    };
    let release = async {
        store.health().await.unwrap();
        assert_eq!(store.get_workspace(row.id).await.unwrap(), None::<WorkspaceRow>);
        held.rollback().await.unwrap();
    };
    futures::join!(write, release);
    assert_eq!(store.get_workspace(row.id).await.unwrap(), Some(row));
}
