//! Idempotency keys.

use std::time::Duration;

use emergent_store::{
    ApiToken, IdempotencyKey, InsertTokenError, InsertWorkspaceError, Store, StoreError, TokenFilter,
    TokenId, TokenKind,
};
use emergent_types::WorkspaceId;
use futures::future::join_all;

use super::fixtures::{NO_LIMIT, NOON, count, token, workspace};

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey { owner: TokenId::generate(), key: text.to_owned(), fingerprint: [1; 32] }
}

/// The workspace that a known key belongs to, and whether the request was the same.
async fn known(store: &dyn Store, key: &IdempotencyKey) -> (WorkspaceId, bool) {
    match store.insert_workspace(&workspace(), NO_LIMIT, Some(key)).await.unwrap_err() {
        InsertWorkspaceError::KeyKnown { workspace_id, same_request } => (workspace_id, same_request),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn a_key_is_good_for_one_workspace(store: &dyn Store) {
    let first = key("a \"key\"; --");
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, Some(&first)).await.unwrap();
    assert_eq!(known(store, &first).await, (row.id, true));
    let another_request = IdempotencyKey { fingerprint: [2; 32], ..first.clone() };
    assert_eq!(known(store, &another_request).await, (row.id, false));
    assert_eq!(store.count_active().await.unwrap(), 1, "nothing was made for a known key");

    let another_owner = IdempotencyKey { owner: TokenId::generate(), ..first.clone() };
    let another_key = IdempotencyKey { key: "another".to_owned(), ..first };
    for key in [another_owner, another_key] {
        store.insert_workspace(&workspace(), NO_LIMIT, Some(&key)).await.unwrap();
    }
}

pub(crate) async fn a_key_outlives_its_workspace(store: &dyn Store) {
    let key = key("key");
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, Some(&key)).await.unwrap();
    store.delete_workspace(row.id).await.unwrap();
    assert_eq!(known(store, &key).await, (row.id, true));
}

pub(crate) async fn a_refused_insert_takes_no_key(store: &dyn Store) {
    let key = key("key");
    let full = store.insert_workspace(&workspace(), 0, Some(&key)).await.unwrap_err();
    assert!(matches!(full, InsertWorkspaceError::LimitReached { .. }), "{full:?}");
    let mut stray = workspace();
    stray.owner_id = Some(TokenId::generate());
    let stray = store.insert_workspace(&stray, NO_LIMIT, Some(&key)).await.unwrap_err();
    assert!(matches!(stray, InsertWorkspaceError::UnknownOwner { .. }), "{stray:?}");
    let row = workspace();
    store.insert_workspace(&row, 1, Some(&key)).await.unwrap();
    // Known comes before full.
    let error = store.insert_workspace(&workspace(), 1, Some(&key)).await.unwrap_err();
    assert!(matches!(error, InsertWorkspaceError::KeyKnown { workspace_id, .. } if workspace_id == row.id));
    assert!(!error.is_retryable());
}

pub(crate) async fn a_released_key_can_be_used_again(store: &dyn Store) {
    let key = key("key");
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, Some(&key)).await.unwrap();
    assert!(store.release_idempotency_key(row.id).await.unwrap());
    assert!(!store.release_idempotency_key(row.id).await.unwrap());
    let second = workspace();
    store.insert_workspace(&second, NO_LIMIT, Some(&key)).await.unwrap();
    assert_eq!(known(store, &key).await, (second.id, true));
}

pub(crate) async fn old_keys_are_forgotten(store: &dyn Store) {
    let (old, new) = (key("old"), key("new"));
    let mut row = workspace();
    row.created_at = NOON - Duration::from_secs(60);
    store.insert_workspace(&row, NO_LIMIT, Some(&old)).await.unwrap();
    store.insert_workspace(&workspace(), NO_LIMIT, Some(&new)).await.unwrap();
    assert_eq!(store.prune_idempotency_keys(NOON).await.unwrap(), 1);
    store.insert_workspace(&workspace(), NO_LIMIT, Some(&old)).await.unwrap();
    known(store, &new).await;
}

pub(crate) async fn of_many_with_one_key_one_is_made(store: &dyn Store) {
    let key = key("key");
    let rows: Vec<_> = (0..20).map(|_| workspace()).collect();
    let answers = join_all(rows.iter().map(|row| store.insert_workspace(row, NO_LIMIT, Some(&key)))).await;
    let made: Vec<_> =
        rows.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()).map(|(row, _)| row.id).collect();
    assert_eq!(made.len(), 1);
    for answer in answers.into_iter().filter_map(Result::err) {
        assert!(
            matches!(answer, InsertWorkspaceError::KeyKnown { workspace_id, same_request: true } if workspace_id == made[0]),
            "{answer:?}"
        );
    }
    assert_eq!(store.count_active().await.unwrap(), 1);
}

/// The same on every database, whatever it could keep itself.
pub(crate) async fn text_with_a_zero_byte_is_refused(store: &dyn Store) {
    let mut in_json = workspace();
    in_json.metadata.insert("a".to_owned(), "\0".into());
    let mut in_text = workspace();
    in_text.branch = Some("\0".to_owned());
    for (row, key) in [(in_json, None), (in_text, None), (workspace(), Some(key("\0")))] {
        let error = store.insert_workspace(&row, NO_LIMIT, key.as_ref()).await.unwrap_err();
        assert!(
            matches!(error, InsertWorkspaceError::Store(StoreError::UnwritableValue { .. })),
            "{error:?}"
        );
        assert_eq!(store.get_workspace(row.id).await.unwrap(), None);
    }
}

/// The token that a known key belongs to, and whether the request was the same.
async fn known_token(store: &dyn Store, key: &IdempotencyKey) -> (TokenId, bool) {
    match store.insert_token(&token(TokenKind::User), Some(key)).await.unwrap_err() {
        error @ InsertTokenError::KeyKnown { token_id, same_request } => {
            assert!(!error.is_retryable());
            (token_id, same_request)
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn a_key_is_good_for_one_token(store: &dyn Store) {
    let first = key("a \"key\"; --");
    let made = token(TokenKind::User);
    store.insert_token(&made, Some(&first)).await.unwrap();
    assert_eq!(known_token(store, &first).await, (made.id, true));
    let another_request = IdempotencyKey { fingerprint: [2; 32], ..first.clone() };
    assert_eq!(known_token(store, &another_request).await, (made.id, false));
    store.revoke_token(made.id, NOON).await.unwrap();
    assert_eq!(known_token(store, &first).await, (made.id, true), "revoked is not forgotten");
    let all = store.list_tokens(TokenFilter::default(), None, count(10)).await.unwrap();
    assert_eq!(all.items.len(), 1, "nothing was made for a known key");

    // A workspace is another thing, whatever its key.
    store.insert_workspace(&workspace(), NO_LIMIT, Some(&first)).await.unwrap();
    let another_owner = IdempotencyKey { owner: TokenId::generate(), ..first };
    store.insert_token(&token(TokenKind::User), Some(&another_owner)).await.unwrap();
}

pub(crate) async fn a_refused_token_takes_no_key(store: &dyn Store) {
    let key = key("key");
    let orphan = ApiToken { owner_id: Some(TokenId::generate()), ..token(TokenKind::Session) };
    let error = store.insert_token(&orphan, Some(&key)).await.unwrap_err();
    assert!(matches!(error, InsertTokenError::UnknownOwner { .. }), "{error:?}");
    store.insert_token(&token(TokenKind::User), Some(&key)).await.unwrap();
}

pub(crate) async fn old_keys_of_tokens_are_forgotten(store: &dyn Store) {
    let (old, new) = (key("old"), key("new"));
    let made = ApiToken { created_at: NOON - Duration::from_secs(60), ..token(TokenKind::User) };
    store.insert_token(&made, Some(&old)).await.unwrap();
    store.insert_token(&token(TokenKind::User), Some(&new)).await.unwrap();
    assert_eq!(store.prune_idempotency_keys(NOON).await.unwrap(), 1);
    store.insert_token(&token(TokenKind::User), Some(&old)).await.unwrap();
    known_token(store, &new).await;
}

pub(crate) async fn of_many_tokens_with_one_key_one_is_made(store: &dyn Store) {
    let key = key("key");
    let tokens: Vec<_> = (0..20).map(|_| token(TokenKind::User)).collect();
    let answers = join_all(tokens.iter().map(|token| store.insert_token(token, Some(&key)))).await;
    let made: Vec<_> =
        tokens.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()).map(|(token, _)| token.id).collect();
    assert_eq!(made.len(), 1);
    for answer in answers.into_iter().filter_map(Result::err) {
        assert!(
            matches!(answer, InsertTokenError::KeyKnown { token_id, same_request: true } if token_id == made[0]),
            "{answer:?}"
        );
    }
}
