//! Tokens for git hosts.

use emergent_store::{GitCredential, SecretText, Store, now};

use super::fixtures::owner;

pub(crate) async fn a_hosts_token_is_kept_and_forgotten(store: &dyn Store) {
    let row = |origin: &str, token: &str| GitCredential {
        origin: origin.to_owned(),
        username: "git".to_owned(),
        token: SecretText::from(token.to_owned()),
        owner_id: None,
        created_at: now(),
    };
    let first = row("https://git.example:443", "one");
    let second = GitCredential { owner_id: Some(owner(store).await), ..row("http://git.example:80", "two") };
    store.put_git_credential(&first).await.unwrap();
    store.put_git_credential(&second).await.unwrap();
    assert_eq!(store.list_git_credentials().await.unwrap(), [second.clone(), first.clone()]);
    assert_eq!(store.git_credential(&first.origin).await.unwrap(), Some(first.clone()));
    let newer = GitCredential { token: SecretText::from("three".to_owned()), ..first.clone() };
    store.put_git_credential(&newer).await.unwrap();
    assert_eq!(store.git_credential(&first.origin).await.unwrap(), Some(newer));
    assert!(store.delete_git_credential(&first.origin).await.unwrap());
    assert!(!store.delete_git_credential(&first.origin).await.unwrap());
    assert_eq!(store.git_credential(&first.origin).await.unwrap(), None);
    assert_eq!(store.list_git_credentials().await.unwrap(), [second]);
}
