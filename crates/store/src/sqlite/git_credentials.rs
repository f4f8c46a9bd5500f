//! `core_git_credentials`.

use super::SqliteStore;
use super::statement::DIALECT;
use crate::columns::git_credentials;
use crate::{GitCredential, Operation, StoreError};

impl SqliteStore {
    pub(super) async fn all_git_credentials(&self) -> Result<Vec<GitCredential>, StoreError> {
        let rows = self.read(Operation::ReadGitCredentials, git_credentials::all(&DIALECT)).await?;
        rows.iter().map(|row| git_credentials::decode(&DIALECT, row, &self.vault)).collect()
    }

    pub(super) async fn git_credential_of(&self, origin: &str) -> Result<Option<GitCredential>, StoreError> {
        let rows = self.read(Operation::ReadGitCredentials, git_credentials::get(&DIALECT, origin)).await?;
        rows.first().map(|row| git_credentials::decode(&DIALECT, row, &self.vault)).transpose()
    }

    pub(super) async fn set_git_credential(&self, row: &GitCredential) -> Result<(), StoreError> {
        let put = git_credentials::put(&DIALECT, row, &self.vault)?;
        self.write(Operation::PutGitCredential, put).await.map(drop)
    }

    pub(super) async fn remove_git_credential(&self, origin: &str) -> Result<bool, StoreError> {
        let delete = git_credentials::delete(&DIALECT, origin);
        Ok(self.write(Operation::DeleteGitCredential, delete).await? > 0)
    }
}
