//! API tokens.

use std::time::Duration;

use emergent_store::{ApiToken, InsertTokenError, Store, TokenHash, TokenId, TokenKind};

use super::fixtures::{NOON, token};

pub(crate) async fn a_token_is_found_by_its_hash(store: &dyn Store) {
    let mut tokens: Vec<_> = TokenKind::ALL.into_iter().map(token).collect();
    tokens[0].expires_at = Some(NOON + Duration::from_secs(1));
    for token in &tokens {
        store.insert_token(token).await.unwrap();
    }
    for token in tokens {
        assert_eq!(store.find_token_by_hash(&token.hash).await.unwrap(), Some(token));
    }
    assert_eq!(store.find_token_by_hash(&TokenHash::from([0; 32])).await.unwrap(), None);
}

pub(crate) async fn ids_and_hashes_are_unique(store: &dyn Store) {
    let first = token(TokenKind::Admin);
    store.insert_token(&first).await.unwrap();
    let same_id = ApiToken { hash: TokenHash::from([1; 32]), ..first.clone() };
    let same_hash = ApiToken { id: TokenId::generate(), ..first.clone() };
    for second in [same_id, same_hash] {
        let error = store.insert_token(&second).await.unwrap_err();
        assert!(matches!(error, InsertTokenError::AlreadyExists { id } if id == second.id), "{error:?}");
    }
    assert_eq!(store.find_token_by_hash(&first.hash).await.unwrap(), Some(first));
}
