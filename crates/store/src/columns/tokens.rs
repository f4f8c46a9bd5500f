//! A token's row.

use std::num::NonZeroU32;

use time::OffsetDateTime;

use super::{Columns, Dialect, Record, Statement, Value, Writing};
use crate::{
    ApiToken, InsertTokenError, Operation, Page, SessionScope, StoreError, TokenCursor, TokenFilter,
    TokenHash, TokenId, TokenPage,
};

/// Writes all of a token.
pub(crate) fn insert(dialect: &'static Dialect, token: &ApiToken) -> Result<Statement, StoreError> {
    let writing = Writing { operation: Operation::InsertToken(token.id) };
    let session = token.session.as_ref();
    let tools = session.and_then(|session| session.tools.as_ref());
    let columns = vec![
        ("id", Value::id(token.id.as_uuid())),
        ("name", writing.text("name", &token.name)?),
        ("kind", Value::word(token.kind.as_str())),
        ("hash", Value::Bytes(Some(token.hash.as_bytes().to_vec()))),
        ("created_at", Value::instant(token.created_at)),
        ("expires_at", Value::instant_optional(token.expires_at)),
        ("owner_id", Value::Id(token.owner_id.map(|id| id.as_uuid()))),
        ("revoked_at", Value::instant_optional(token.revoked_at)),
        ("session_workspace_id", Value::Id(session.map(|session| session.workspace_id.as_uuid()))),
        ("session_tools", writing.json_optional("session_tools", &tools)?),
        ("mcp_servers", writing.json_optional("mcp_servers", &token.mcp_servers)?),
    ];
    Ok(Statement::insert(dialect, dialect.tokens, vec![columns]))
}

/// The token with this hash.
pub(crate) fn by_hash(dialect: &'static Dialect, hash: &TokenHash) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE hash = ", dialect.tokens))
        .bind(Value::Bytes(Some(hash.as_bytes().to_vec())))
}

/// One token.
pub(crate) fn get(dialect: &'static Dialect, id: TokenId) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE id = ", dialect.tokens))
        .bind(Value::id(id.as_uuid()))
}

/// The newest tokens.
pub(crate) fn list(
    dialect: &'static Dialect,
    filter: TokenFilter,
    after: Option<TokenCursor>,
    limit: NonZeroU32,
) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE true", dialect.tokens))
        .bind_some(" AND owner_id = ", filter.owner.map(|owner| Value::id(owner.as_uuid())))
        .bind_some(" AND id < ", after.map(|after| Value::id(after.id().as_uuid())))
        .push(" ORDER BY id DESC LIMIT ")
        .bind(Value::one_more(limit))
}

/// A page, from what the list has found.
pub(crate) fn page<Row: Columns>(
    dialect: &'static Dialect,
    rows: &[Row],
    limit: NonZeroU32,
) -> Result<TokenPage, StoreError> {
    let found = rows.iter().map(|row| decode(&Record::new(dialect.tokens, row)));
    Ok(Page::cut(found.collect::<Result<_, _>>()?, limit, |last| TokenCursor::after(last.id)))
}

/// The ids of a token and of all that were made with it, directly or not.
pub(crate) fn family(dialect: &'static Dialect, id: TokenId) -> Statement {
    let tokens = dialect.tokens;
    Statement::new(dialect, format!("WITH RECURSIVE family (id) AS (SELECT id FROM {tokens} WHERE id = "))
        .bind(Value::id(id.as_uuid()))
        .push(&format!(
            " UNION SELECT token.id FROM {tokens} AS token JOIN family ON token.owner_id = family.id)
             SELECT id FROM family ORDER BY id"
        ))
}

/// Revokes one token, unless it is revoked.
pub(crate) fn revoke(dialect: &'static Dialect, id: TokenId, at: OffsetDateTime) -> Statement {
    Statement::update(dialect, dialect.tokens, vec![("revoked_at", Value::instant(at))])
        .push(" WHERE revoked_at IS NULL AND id = ")
        .bind(Value::id(id.as_uuid()))
}

/// Why `token` may not be made with `owner`, if it may not.
pub(crate) fn refuse_owner(token: &ApiToken, owner: Option<&ApiToken>) -> Result<(), InsertTokenError> {
    match (token.owner_id, owner) {
        (None, _) => Ok(()),
        (Some(owner), None) => Err(InsertTokenError::UnknownOwner { id: token.id, owner }),
        (Some(_), Some(owner)) if owner.revoked_at.is_none() => Ok(()),
        (Some(owner), Some(_)) => Err(InsertTokenError::OwnerRevoked { id: token.id, owner }),
    }
}

/// The meaning of a row that has every column.
pub(crate) fn decode<Row: Columns>(record: &Record<'_, Row>) -> Result<ApiToken, StoreError> {
    let workspace_id = record.id_optional("session_workspace_id")?;
    let tools = record.json_optional("session_tools")?;
    Ok(ApiToken {
        id: record.id("id")?,
        name: record.text("name")?,
        kind: record.word("kind")?,
        hash: TokenHash::from(record.bytes("hash")?),
        created_at: record.instant("created_at")?,
        expires_at: record.instant_optional("expires_at")?,
        owner_id: record.id_optional("owner_id")?,
        revoked_at: record.instant_optional("revoked_at")?,
        session: workspace_id.map(|workspace_id| SessionScope { workspace_id, tools }),
        mcp_servers: record.json_optional("mcp_servers")?,
    })
}
