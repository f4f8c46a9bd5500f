//! Tokens for git hosts that are not GitHub.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::client::NO_QUERY;
use crate::{Client, ClientError};

const GIT_HOSTS: &str = "/api/v1/settings/git-hosts";

/// A git host that a token is stored for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitHost {
    /// Its scheme, name and port.
    pub host: String,
    /// The name that goes with the token.
    pub username: String,
    /// When it was stored.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// The git hosts that tokens are stored for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitHosts {
    /// By name.
    pub items: Vec<GitHost>,
}

impl Client {
    /// The git hosts that tokens are stored for.
    pub async fn git_hosts(&self) -> Result<GitHosts, ClientError> {
        self.get(GIT_HOSTS, &NO_QUERY).await
    }

    /// Stores the token of a git host.
    pub async fn set_git_host(
        &self,
        host: &str,
        username: Option<&str>,
        token: &str,
    ) -> Result<GitHost, ClientError> {
        self.put(GIT_HOSTS, &json!({ "host": host, "username": username, "token": token })).await
    }

    /// Forgets the token of a git host.
    pub async fn forget_git_host(&self, host: &str) -> Result<Value, ClientError> {
        self.delete(GIT_HOSTS, &[("host", host)]).await
    }
}
