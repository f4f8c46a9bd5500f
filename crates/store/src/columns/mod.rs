//! What rows consist of and how they are asked for, in terms that every database has.
//!
//! Which columns there are, what they mean, and every statement that reads the same in both
//! dialects, are written down here once. How a kind of value is spelled (an id as text or as a
//! UUID, an instant as a number or as a timestamp) is what a database adds, with the few
//! statements that only it understands.

pub(crate) mod attachments;
pub(crate) mod audit;
pub(crate) mod git_credentials;
pub(crate) mod installation;
pub(crate) mod keys;
pub(crate) mod mcp_servers;
mod reading;
pub(crate) mod settings;
pub(crate) mod snapshots;
mod statement;
pub(crate) mod tokens;
pub(crate) mod workspaces;
mod writing;

use time::OffsetDateTime;
use uuid::Uuid;

pub(crate) use self::reading::{Columns, Record};
pub(crate) use self::statement::{Dialect, Statement};
use self::writing::Writing;

/// A value for one column. `None` is NULL.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Id(Option<Uuid>),
    Text(Option<String>),
    Instant(Option<OffsetDateTime>),
    Json(Option<String>),
    Bytes(Option<Vec<u8>>),
    Integer(Option<i64>),
    Flag(bool),
}

/// A column and what to write there.
type Column = (&'static str, Value);
