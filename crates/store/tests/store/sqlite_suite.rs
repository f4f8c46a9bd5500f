//! SQLite passes the suite.

use std::path::{Path, PathBuf};

use emergent_store::sqlite::SqliteStore;
use emergent_store::{SecretKey, Store, Vault};
use tempfile::TempDir;

use crate::suite::{Fresh, every_check, one_by_one};

/// A database in a folder that goes away with it.
pub(crate) struct TempDatabase {
    store: SqliteStore,
    _folder: TempDir,
}

impl Fresh for TempDatabase {
    fn store(&self) -> &dyn Store {
        &self.store
    }
}

pub(crate) fn vault() -> Vault {
    Vault::new(&SecretKey::from([42; 32]))
}

pub(crate) fn database_in(folder: &Path) -> PathBuf {
    folder.join("emergent.db")
}

async fn temp_database() -> TempDatabase {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&database_in(folder.path()), vault()).await.unwrap();
    TempDatabase { store, _folder: folder }
}

every_check!(one_by_one, temp_database);

#[test]
fn random_operations() {
    crate::suite::random_operations::agree_with_the_model(async || temp_database().await);
}
