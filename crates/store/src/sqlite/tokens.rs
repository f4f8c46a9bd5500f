//! `core_api_tokens`.

use sqlx::sqlite::SqliteRow;

use super::SqliteStore;
use super::failure::{because, is_duplicate};
use super::record::Record;
use crate::{ApiToken, InsertTokenError, Operation, StoreError, TokenHash, clock};

impl SqliteStore {
    pub(super) async fn insert_token_row(&self, token: &ApiToken) -> Result<(), InsertTokenError> {
        let inserted = sqlx::query(
            "INSERT INTO core_api_tokens (id, name, kind, hash, created_at, expires_at)
             VALUES (?, ?, ?, ?, ?, ?)",
        )
        .bind(token.id.to_string())
        .bind(&token.name)
        .bind(token.kind.as_str())
        .bind(token.hash.as_bytes().as_slice())
        .bind(clock::to_millis(token.created_at))
        .bind(token.expires_at.map(clock::to_millis))
        .execute(&self.writer)
        .await;
        match inserted {
            Ok(_) => Ok(()),
            Err(error) if is_duplicate(&error) => Err(InsertTokenError::AlreadyExists { id: token.id }),
            Err(error) => Err(because(Operation::InsertToken(token.id))(error).into()),
        }
    }

    pub(super) async fn find_token_row(&self, hash: &TokenHash) -> Result<Option<ApiToken>, StoreError> {
        let row = sqlx::query("SELECT * FROM core_api_tokens WHERE hash = ?")
            .bind(hash.as_bytes().as_slice())
            .fetch_optional(&self.readers)
            .await
            .map_err(because(Operation::FindTokenByHash))?;
        row.map(|row| decode(&row, *hash)).transpose()
    }
}

fn decode(row: &SqliteRow, hash: TokenHash) -> Result<ApiToken, StoreError> {
    let record = Record::new("core_api_tokens", row);
    Ok(ApiToken {
        id: record.parse("id")?,
        name: record.get("name")?,
        kind: record.parse("kind")?,
        hash,
        created_at: record.instant("created_at")?,
        expires_at: record.instant_optional("expires_at")?,
    })
}
