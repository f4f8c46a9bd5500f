//! A database that is spoken to over TLS.

use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use emergent_store::postgres::PostgresStore;
use emergent_store::{OpenError, Store};
use emergent_test_support::{Durability, PostgresServer};

use crate::sqlite_suite::vault;
use crate::suite::fixtures::{NO_LIMIT, workspace};

const PASSWORD: &str = "correct-horse-battery";

/// Everything that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// In this process from now on, down to the last detail.
    fn start() -> Self {
        let log = Self::default();
        let writer = log.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_writer(move || writer.clone())
            .init();
        log
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// An error with its causes, as people and programs see it.
fn told(error: &OpenError) -> String {
    let mut text = format!("{error:?} {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

struct Secured {
    server: PostgresServer,
    database: String,
}

impl Secured {
    fn start() -> Self {
        let server = PostgresServer::start(Durability::None).unwrap();
        server
            .query("postgres", &format!("CREATE ROLE emergent LOGIN SUPERUSER PASSWORD '{PASSWORD}'"))
            .unwrap();
        let url = server.create_database().unwrap();
        let database = url.rsplit_once('/').unwrap().1.to_owned();
        Self { server, database }
    }

    fn url(&self, password: &str, parameters: &str) -> String {
        let url = self.server.url(&self.database);
        format!("{}?{parameters}", url.replace("postgres@", &format!("emergent:{password}@")))
    }

    /// Opens the database, uses it, and makes sure that every connection is encrypted.
    async fn works(&self, parameters: &str) {
        let store = PostgresStore::open(&self.url(PASSWORD, parameters), vault()).await.unwrap();
        let row = workspace();
        store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
        assert_eq!(store.get_workspace(row.id).await.unwrap(), Some(row));
        let connections = "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl
                           JOIN pg_stat_activity USING (pid) WHERE usename = 'emergent'";
        let counted = self.server.query("postgres", connections).unwrap();
        let (all, encrypted) = counted.split_once('|').unwrap();
        assert!(all == encrypted && all != "0", "{parameters}: {encrypted} of {all} are encrypted");
        store.close().await;
    }

    async fn refused(&self, password: &str, parameters: &str) -> OpenError {
        let opened = PostgresStore::open(&self.url(password, parameters), vault()).await;
        let error = opened.map(drop).expect_err(parameters);
        let text = told(&error);
        assert!(!text.contains(password), "{parameters}: {text}");
        assert!(text.contains(&self.database), "{parameters}: {text}");
        error
    }
}

#[tokio::test]
async fn a_server_proves_who_it_is() {
    let log = Log::start();
    let mut secured = Secured::start();
    let authority = secured.server.demand_tls("IP:127.0.0.1").unwrap();
    let authority = authority.to_str().unwrap();
    for parameters in [
        "sslmode=require".to_owned(),
        format!("sslmode=verify-ca&sslrootcert={authority}"),
        format!("sslmode=verify-full&sslrootcert={authority}"),
        // Whoever names an authority means it.
        format!("sslrootcert={authority}"),
    ] {
        secured.works(&parameters).await;
    }
    // Nobody but this server's own authority knows it.
    let error = secured.refused(PASSWORD, "sslmode=verify-full").await;
    assert!(matches!(error, OpenError::Untrusted { .. }), "{error:?}");

    // Signed by another authority than the one that is trusted.
    let elsewhere = secured.server.demand_tls("DNS:db.example").unwrap();
    for parameters in ["sslmode=verify-full&", "sslmode=verify-ca&", "sslmode=require&", ""] {
        let error = secured.refused(PASSWORD, &format!("{parameters}sslrootcert={authority}")).await;
        assert!(matches!(error, OpenError::Untrusted { .. }) && !error.is_retryable(), "{error:?}");
        let text = told(&error);
        assert!(text.contains("cannot be trusted") && text.contains("invalid peer certificate"), "{text}");
    }
    // The authority is right, and the name is another's.
    let elsewhere = elsewhere.to_str().unwrap();
    let error = secured.refused(PASSWORD, &format!("sslmode=verify-full&sslrootcert={elsewhere}")).await;
    assert!(told(&error).contains("not valid for"), "{}", told(&error));
    secured.works(&format!("sslmode=verify-ca&sslrootcert={elsewhere}")).await;

    // Not at all without TLS, nor with another password.
    secured.refused(PASSWORD, "sslmode=disable").await;
    secured.refused("wrong-horse-battery", "sslmode=require").await;
    let missing = PostgresStore::open(&secured.url(PASSWORD, "sslrootcert=/nowhere/ca.crt"), vault()).await;
    let text = told(&missing.map(drop).unwrap_err());
    assert!(text.contains("/nowhere/ca.crt") && !text.contains(PASSWORD), "{text}");

    let logged = log.text();
    assert!(logged.contains("database open"), "the log is empty");
    for secret in [PASSWORD, "wrong-horse-battery"] {
        assert!(!logged.contains(secret), "the password is in the log");
    }
}

/// Whoever asks for TLS of a server that has none is told so, and nothing is sent in the clear.
#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_demanded() {
    let secured = Secured::start();
    for mode in ["require", "verify-full"] {
        let error = secured.refused(PASSWORD, &format!("sslmode={mode}")).await;
        assert!(told(&error).contains("does not support TLS"), "{}", told(&error));
    }
}
