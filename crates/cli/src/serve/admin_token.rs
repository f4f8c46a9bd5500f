//! The first admin token, which the commands find by themselves.

use std::path::Path;

use anyhow::{Context, Result};
use emergent_api::BearerToken;
use emergent_store::{ApiToken, Store, TokenId, TokenKind};

use crate::private_file;

/// Makes sure that `path` holds a token that works. Whoever deletes the file, or the
/// database, gets a new one.
pub(super) async fn ensure(path: &Path, store: &dyn Store) -> Result<()> {
    if let Some(text) = private_file::read(path)? {
        let kept = BearerToken::from(text);
        let known = store.find_token_by_hash(&kept.hash()).await.context("cannot look up the admin token")?;
        let works = |token: &ApiToken| {
            token.revoked_at.is_none() && token.expires_at.is_none_or(|end| end > emergent_store::now())
        };
        if known.is_some_and(|token| works(&token)) {
            return Ok(());
        }
    }
    let token = BearerToken::generate()?;
    // First the database: a token that is known and lost harms nobody, one that is written
    // down and unknown would.
    store
        .insert_token(&first_admin(&token), None)
        .await
        .context("cannot write the admin token to the database")?;
    private_file::replace(path, token.expose())?;
    tracing::info!("a new admin token is in {}", path.display());
    Ok(())
}

fn first_admin(token: &BearerToken) -> ApiToken {
    ApiToken {
        id: TokenId::generate(),
        name: "first admin".to_owned(),
        kind: TokenKind::Admin,
        hash: token.hash(),
        created_at: emergent_store::now(),
        expires_at: None,
        owner_id: None,
        revoked_at: None,
        session: None,
        mcp_servers: None,
    }
}

#[cfg(test)]
mod tests {
    use emergent_store::sqlite::SqliteStore;
    use emergent_store::{SecretKey, Vault};

    use super::*;

    #[tokio::test]
    async fn the_file_always_holds_a_token_that_works() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.token");
        let open = |name: &str| {
            let path = folder.path().join(name);
            async move { SqliteStore::open(&path, Vault::new(&SecretKey::from([7; 32]))).await.unwrap() }
        };
        let works = async |store: &SqliteStore| {
            let text = private_file::read(&path).unwrap().unwrap();
            assert!(
                store.find_token_by_hash(&BearerToken::from(text.clone()).hash()).await.unwrap().is_some()
            );
            text
        };
        let store = open("one.db").await;
        ensure(&path, &store).await.unwrap();
        let first = works(&store).await;
        ensure(&path, &store).await.unwrap();
        assert_eq!(works(&store).await, first, "made once");
        std::fs::remove_file(&path).unwrap();
        ensure(&path, &store).await.unwrap();
        assert_ne!(works(&store).await, first, "a lost one is not known any more");
        let other = open("two.db").await;
        ensure(&path, &other).await.unwrap();
        works(&other).await;
    }
}
