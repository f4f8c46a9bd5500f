//! API tokens.

use std::time::Duration;

use emergent_store::{
    ApiToken, InsertTokenError, Revocation, SessionScope, Store, TokenFilter, TokenHash, TokenId, TokenKind,
};
use emergent_types::WorkspaceId;
use futures::future::{join, join_all};

use super::fixtures::{NOON, count, token};

pub(crate) async fn a_token_is_found_by_its_hash(store: &dyn Store) {
    let mut tokens: Vec<_> = TokenKind::ALL.into_iter().map(token).collect();
    tokens[0].expires_at = Some(NOON + Duration::from_secs(1));
    for token in &tokens {
        store.insert_token(token, None).await.unwrap();
    }
    for token in tokens {
        assert_eq!(store.find_token_by_hash(&token.hash).await.unwrap(), Some(token));
    }
    assert_eq!(store.find_token_by_hash(&TokenHash::from([0; 32])).await.unwrap(), None);
}

pub(crate) async fn ids_and_hashes_are_unique(store: &dyn Store) {
    let first = token(TokenKind::Admin);
    store.insert_token(&first, None).await.unwrap();
    let same_id = ApiToken { hash: TokenHash::from([1; 32]), ..first.clone() };
    let same_hash = ApiToken { id: TokenId::generate(), ..first.clone() };
    for second in [same_id, same_hash] {
        let error = store.insert_token(&second, None).await.unwrap_err();
        assert!(matches!(error, InsertTokenError::AlreadyExists { id } if id == second.id), "{error:?}");
    }
    assert_eq!(store.find_token_by_hash(&first.hash).await.unwrap(), Some(first));
}

async fn made_with(store: &dyn Store, owner: TokenId) -> ApiToken {
    let made = ApiToken { owner_id: Some(owner), ..token(TokenKind::User) };
    store.insert_token(&made, None).await.unwrap();
    made
}

pub(crate) async fn a_token_comes_back_as_it_was_written(store: &dyn Store) {
    let owner = token(TokenKind::Admin);
    let session = |tools| ApiToken {
        owner_id: Some(owner.id),
        expires_at: Some(NOON),
        session: Some(SessionScope { workspace_id: WorkspaceId::generate(), tools }),
        ..token(TokenKind::Session)
    };
    let tools = vec!["bash".to_owned(), "a \"quoted\" tool".to_owned()];
    let granted = ApiToken { mcp_servers: Some(vec!["langfuse-mcp".to_owned()]), ..token(TokenKind::User) };
    for token in [owner.clone(), session(None), session(Some(vec![])), session(Some(tools)), granted] {
        store.insert_token(&token, None).await.unwrap();
        assert_eq!(store.get_token(token.id).await.unwrap().as_ref(), Some(&token));
        assert_eq!(store.find_token_by_hash(&token.hash).await.unwrap(), Some(token));
    }
    assert_eq!(store.get_token(TokenId::generate()).await.unwrap(), None);
}

pub(crate) async fn a_token_is_made_with_one_that_is_accepted(store: &dyn Store) {
    let stranger = TokenId::generate();
    let orphan = ApiToken { owner_id: Some(stranger), ..token(TokenKind::User) };
    let error = store.insert_token(&orphan, None).await.unwrap_err();
    assert!(
        matches!(error, InsertTokenError::UnknownOwner { id, owner } if id == orphan.id && owner == stranger),
        "{error:?}"
    );
    let owner = token(TokenKind::User);
    store.insert_token(&owner, None).await.unwrap();
    store.revoke_token(owner.id, NOON).await.unwrap();
    let late = ApiToken { owner_id: Some(owner.id), ..token(TokenKind::User) };
    let error = store.insert_token(&late, None).await.unwrap_err();
    assert!(matches!(error, InsertTokenError::OwnerRevoked { .. }), "{error:?}");
    assert!(!error.is_retryable());
    assert_eq!(store.get_token(late.id).await.unwrap(), None);
}

pub(crate) async fn a_revocation_takes_what_was_made_with_it(store: &dyn Store) {
    let root = token(TokenKind::Admin);
    let bystander = token(TokenKind::Admin);
    for token in [&root, &bystander] {
        store.insert_token(token, None).await.unwrap();
    }
    let child = made_with(store, root.id).await;
    let grandchild = made_with(store, child.id).await;
    let other = made_with(store, bystander.id).await;
    let early = NOON - Duration::from_secs(60);
    let revoked = store.revoke_token(grandchild.id, early).await.unwrap().unwrap();
    assert_eq!(revoked.ids, [grandchild.id]);

    let Revocation { token: now, ids } = store.revoke_token(root.id, NOON).await.unwrap().unwrap();
    assert_eq!(now, ApiToken { revoked_at: Some(NOON), ..root.clone() });
    assert_eq!(ids, [root.id, child.id, grandchild.id]);
    let since = async |id| store.get_token(id).await.unwrap().unwrap().revoked_at;
    assert_eq!(since(child.id).await, Some(NOON));
    assert_eq!(since(grandchild.id).await, Some(early), "what was revoked keeps its time");
    assert_eq!(since(bystander.id).await, None);
    assert_eq!(since(other.id).await, None);

    let again = store.revoke_token(root.id, NOON + Duration::from_secs(1)).await.unwrap().unwrap();
    assert_eq!((again.token.revoked_at, again.ids), (Some(NOON), ids));
    assert_eq!(store.revoke_token(TokenId::generate(), NOON).await.unwrap(), None);
}

/// However many are being made in that moment.
pub(crate) async fn no_token_escapes_a_revocation(store: &dyn Store) {
    let root = token(TokenKind::Admin);
    store.insert_token(&root, None).await.unwrap();
    let child = made_with(store, root.id).await;
    let new: Vec<_> =
        (0..20).map(|_| ApiToken { owner_id: Some(child.id), ..token(TokenKind::User) }).collect();
    let inserts = join_all(new.iter().map(|token| store.insert_token(token, None)));
    let (_, revoked) = join(inserts, store.revoke_token(root.id, NOON)).await;
    revoked.unwrap();
    for token in new {
        if let Some(token) = store.get_token(token.id).await.unwrap() {
            assert_eq!(token.revoked_at, Some(NOON));
        }
    }
}

pub(crate) async fn tokens_are_listed_newest_first(store: &dyn Store) {
    let owner = token(TokenKind::Admin);
    store.insert_token(&owner, None).await.unwrap();
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(made_with(store, owner.id).await);
        store.insert_token(&token(TokenKind::User), None).await.unwrap();
    }
    made.reverse();
    for page_size in [1, 2, 5, 6] {
        let mut seen = Vec::new();
        let mut cursor = None;
        loop {
            let filter = TokenFilter { owner: Some(owner.id) };
            let page = store.list_tokens(filter, cursor, count(page_size)).await.unwrap();
            seen.extend(page.items);
            // As a client has it: through text.
            cursor = page.next.map(|next| next.to_string().parse().unwrap());
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, made, "in pages of {page_size}");
    }
    let all = store.list_tokens(TokenFilter::default(), None, count(100)).await.unwrap();
    assert_eq!((all.items.len(), all.next), (11, None));
}
