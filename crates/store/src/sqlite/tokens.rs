//! `core_api_tokens`.

use std::num::NonZeroU32;

use sqlx::SqliteExecutor;
use time::OffsetDateTime;

use super::failure::because;
use super::statement::{DIALECT, query, token};
use super::{SqliteStore, keys};
use crate::columns::keys::ToMake;
use crate::columns::{Statement, tokens};
use crate::violation;
use crate::{
    ApiToken, IdempotencyKey, InsertTokenError, Operation, Revocation, StoreError, TokenCursor, TokenFilter,
    TokenHash, TokenId, TokenPage,
};

impl SqliteStore {
    pub(super) async fn insert_token_row(
        &self,
        new: &ApiToken,
        key: Option<&IdempotencyKey>,
    ) -> Result<(), InsertTokenError> {
        let operation = Operation::InsertToken(new.id);
        let insert = tokens::insert(&DIALECT, new)?;
        let mut transaction = self.begin(operation).await?;
        if let Some(key) = key {
            let make = ToMake::token(&DIALECT, key, new);
            if let Some(known) = keys::take(&mut transaction, &make).await? {
                return Err(known.into());
            }
        }
        let owner = match new.owner_id {
            Some(owner) => fetch(&mut *transaction, tokens::get(&DIALECT, owner), operation).await?,
            None => None,
        };
        tokens::refuse_owner(new, owner.as_ref())?;
        match query(insert).execute(&mut *transaction).await {
            Err(error) if violation::is_duplicate(&error) => {
                Err(InsertTokenError::AlreadyExists { id: new.id })?
            }
            inserted => inserted.map_err(because(operation))?,
        };
        Ok(transaction.commit().await.map_err(because(operation))?)
    }

    pub(super) async fn find_token_row(&self, hash: &TokenHash) -> Result<Option<ApiToken>, StoreError> {
        fetch(&self.readers, tokens::by_hash(&DIALECT, hash), Operation::FindTokenByHash).await
    }

    pub(super) async fn get_token_row(&self, id: TokenId) -> Result<Option<ApiToken>, StoreError> {
        fetch(&self.readers, tokens::get(&DIALECT, id), Operation::GetToken(id)).await
    }

    pub(super) async fn list_token_rows(
        &self,
        filter: TokenFilter,
        after: Option<TokenCursor>,
        limit: NonZeroU32,
    ) -> Result<TokenPage, StoreError> {
        let rows = query(tokens::list(&DIALECT, filter, after, limit))
            .fetch_all(&self.readers)
            .await
            .map_err(because(Operation::ListTokens))?;
        tokens::page(&DIALECT, &rows, limit)
    }

    pub(super) async fn revoke_token_row(
        &self,
        id: TokenId,
        at: OffsetDateTime,
    ) -> Result<Option<Revocation>, StoreError> {
        let operation = Operation::RevokeToken(id);
        let mut transaction = self.begin(operation).await?;
        let rows = query(tokens::family(&DIALECT, id))
            .fetch_all(&mut *transaction)
            .await
            .map_err(because(operation))?;
        let ids: Vec<TokenId> = rows.iter().map(|row| token(row).id("id")).collect::<Result<_, _>>()?;
        for &id in &ids {
            let revoke = query(tokens::revoke(&DIALECT, id, at));
            revoke.execute(&mut *transaction).await.map_err(because(operation))?;
        }
        let revoked = fetch(&mut *transaction, tokens::get(&DIALECT, id), operation).await?;
        transaction.commit().await.map_err(because(operation))?;
        Ok(revoked.map(|token| Revocation { token, ids }))
    }
}

async fn fetch(
    executor: impl SqliteExecutor<'_>,
    statement: Statement,
    operation: Operation,
) -> Result<Option<ApiToken>, StoreError> {
    let row = query(statement).fetch_optional(executor).await.map_err(because(operation))?;
    row.map(|row| tokens::decode(&token(&row))).transpose()
}
