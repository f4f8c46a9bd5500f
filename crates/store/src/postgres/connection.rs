//! How connections to the server are made and kept.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, Postgres};

use crate::OpenError;

/// Calls are short; more connections would only cost memory on both sides.
const MAX_CONNECTIONS: u32 = 8;
/// How long a call waits for a connection, a new one included.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(3);
/// How long a connection that was given back may take to prove that it still works.
const CHECK_LIMIT: Duration = Duration::from_secs(2);
/// What one statement may take in the server, so that it does not go on long after whoever
/// asked has given up.
const STATEMENT_LIMIT: &str = "10s";
/// How long a statement waits for another's lock.
const LOCK_LIMIT: &str = "4s";

/// Where the database is, and its name without anything secret.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) options: PgConnectOptions,
    pub(super) name: String,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        // What the parser says may quote what it was given.
        let invalid = |_| OpenError::InvalidUrl { reason: "it cannot be read as postgres://…".to_owned() };
        let options: PgConnectOptions = url.parse().map_err(invalid)?;
        let options = verifying(options, url)?;
        let options = options.application_name(&format!("emergent, process {}", std::process::id()));
        let place = match options.get_socket() {
            Some(folder) => folder.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let database = options.get_database().unwrap_or_else(|| options.get_username());
        let name = format!("postgres://{place}/{database}");
        Ok(Self { options, name })
    }

    /// One connection, for what may take long.
    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let connected = tokio::time::timeout(ACQUIRE_LIMIT, self.options.connect()).await;
        connected.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }

    /// The connections that calls share.
    pub(super) fn pool(&self) -> PgPool {
        let options = self.options.clone().options([
            ("statement_timeout", STATEMENT_LIMIT),
            ("lock_timeout", LOCK_LIMIT),
            ("idle_in_transaction_session_timeout", STATEMENT_LIMIT),
        ]);
        PoolOptions::<Postgres>::new()
            .max_connections(MAX_CONNECTIONS)
            .acquire_timeout(ACQUIRE_LIMIT)
            // One round trip, so that a call after the server's restart finds a connection
            // that works instead of an error.
            .test_before_acquire(true)
            .after_release(|connection, _| Box::pin(is_reusable(connection)))
            .connect_lazy_with(options)
    }
}

/// The driver encrypts and looks at no certificate unless `sslmode` says so. Whoever names an
/// authority means it to be looked at.
fn verifying(options: PgConnectOptions, url: &str) -> Result<PgConnectOptions, OpenError> {
    let Some(authority) = root_certificate(url) else { return Ok(options) };
    // The driver would only say that there is no such file, and not which.
    if !authority.contains('%') {
        let path = Path::new(authority);
        File::open(path).map_err(|cause| OpenError::Inaccessible { path: path.to_owned(), cause })?;
    }
    Ok(match options.get_ssl_mode() {
        PgSslMode::Prefer | PgSslMode::Require => options.ssl_mode(PgSslMode::VerifyCa),
        _ => options,
    })
}

/// What the URL says about it, as it is written there.
fn root_certificate(url: &str) -> Option<&str> {
    let (_, parameters) = url.split_once('?')?;
    parameters
        .split('&')
        .filter_map(|parameter| parameter.split_once('='))
        .find_map(|(name, value)| matches!(name, "sslrootcert" | "ssl-root-cert" | "ssl-ca").then_some(value))
}

/// Whether a connection that was given back can be given out again. Without a limit, a server
/// that does not answer would keep it, and its place in the pool, until the kernel gives up on
/// it many minutes later.
async fn is_reusable(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let answered = tokio::time::timeout(CHECK_LIMIT, connection.ping()).await;
    answered.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map(|()| true)
}
