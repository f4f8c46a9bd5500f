//! PostgreSQL passes the suite.

use emergent_store::Store;
use emergent_store::postgres::PostgresStore;
use emergent_test_support::{Durability, PostgresServer};

use crate::sqlite_suite::vault;
use crate::suite::{Fresh, every_check, module_by_module};

/// A server that the checks of one test share.
pub(crate) struct Shared {
    server: PostgresServer,
}

/// A database of its own on it.
pub(crate) struct Database {
    store: PostgresStore,
}

impl Fresh for Database {
    fn store(&self) -> &dyn Store {
        &self.store
    }
}

impl Shared {
    async fn start() -> Self {
        Self { server: PostgresServer::start(Durability::None).unwrap() }
    }

    async fn fresh(&self) -> Database {
        let url = self.server.create_database().unwrap();
        Database { store: PostgresStore::open(&url, vault()).await.unwrap() }
    }
}

every_check!(module_by_module, Shared);

#[test]
fn random_operations() {
    // Lives as long as the store that is made from it.
    let server = PostgresServer::start(Durability::None).unwrap();
    let shared = Shared { server };
    crate::suite::random_operations::agree_with_the_model(async || shared.fresh().await);
}
