//! Which database a name means.

use std::path::Path;
use std::sync::Arc;

use crate::postgres::PostgresStore;
use crate::sqlite::SqliteStore;
use crate::{OpenError, Store, Vault};

/// Opens the database that `location` names: a URL of PostgreSQL (`postgres://…`,
/// `postgresql://…`), or an SQLite file as a path, with or without `sqlite:` or `sqlite://`
/// before it.
pub async fn open(location: &str, vault: Vault) -> Result<Arc<dyn Store>, OpenError> {
    match Location::of(location)? {
        Location::Postgres(url) => Ok(Arc::new(PostgresStore::open(url, vault).await?)),
        Location::Sqlite(path) => Ok(Arc::new(SqliteStore::open(path, vault).await?)),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Location<'a> {
    Postgres(&'a str),
    Sqlite(&'a Path),
}

impl<'a> Location<'a> {
    fn of(location: &'a str) -> Result<Self, OpenError> {
        let invalid = |reason: &str| Err(OpenError::InvalidUrl { reason: reason.to_owned() });
        let path = match location.split_once(':') {
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                return Ok(Self::Postgres(location));
            }
            Some(("sqlite", rest)) => rest.strip_prefix("//").unwrap_or(rest),
            Some((_, rest)) if rest.starts_with("//") => {
                return invalid("only postgres:// and sqlite:// are known");
            }
            _ => location,
        };
        if path.is_empty() || path == ":memory:" {
            return invalid("an SQLite database is a file");
        }
        Ok(Self::Sqlite(Path::new(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_database() {
        let file = |path| Some(Location::Sqlite(Path::new(path)));
        for (given, expect) in [
            ("postgres://localhost/emergent", Some(Location::Postgres("postgres://localhost/emergent"))),
            ("postgresql:///emergent", Some(Location::Postgres("postgresql:///emergent"))),
            ("/var/lib/emergent.db", file("/var/lib/emergent.db")),
            ("sqlite:///var/lib/emergent.db", file("/var/lib/emergent.db")),
            ("sqlite:emergent.db", file("emergent.db")),
            ("a:b.db", file("a:b.db")),
            ("mysql://localhost/emergent", None),
            ("sqlite::memory:", None),
            ("", None),
        ] {
            assert_eq!(Location::of(given).ok(), expect, "{given}");
        }
    }

    #[test]
    fn a_refusal_shows_no_password() {
        let error = Location::of("mysql://user:hunter2@localhost/x").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
