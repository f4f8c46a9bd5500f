//! What others work with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_agent_client::{Author, Broker};
use emergent_store::{GitCredential, Repository, SecretText, Store, StoreError, TokenId};
use emergent_types::WorkspaceId;
use emergent_workspaces::{CodeCheckout, HostService};

use crate::BROKER_PORT;
use crate::broker::GitBroker;
use crate::checkout::Checkout;
use crate::credentials::Credentials;
use crate::grants::{Grant, Grants};
use crate::hosts::{HostNotAllowed, Hosts};
use crate::origin::Origin;
use crate::pace::Pace;
use crate::refusal::{Refusal, Refusals};
use crate::told::Told;
use crate::transfers::Transfers;
use crate::url::RepositoryUrl;
use crate::uses::Uses;

/// Who commits where GitHub is not connected.
const NOBODY: &str = "Emergent Agent";
const NOBODYS_EMAIL: &str = "agent@emergent.local";

/// How much and how long.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The most that one answer of a host may bring.
    pub received_bytes: u64,
    /// The most that one request may send.
    pub sent_bytes: u64,
    /// How long nothing may come.
    pub silence: Duration,
    /// How long a host may take to begin its answer, from the first byte of what it is sent.
    pub answer: Duration,
    /// How long one connection of a sandbox may take in all.
    pub total: Duration,
    /// How long one attempt of a checkout may take.
    pub checkout: Duration,
    /// How long an action of the git tool may take.
    pub action: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            received_bytes: 8 << 30,
            sent_bytes: 2 << 30,
            silence: Duration::from_secs(60),
            answer: Duration::from_secs(30 * 60),
            total: Duration::from_secs(60 * 60),
            checkout: Duration::from_secs(30 * 60),
            action: Duration::from_secs(10 * 60),
        }
    }
}

/// What an administrator decides.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which hosts may be spoken to.
    pub hosts: Hosts,
    /// How much and how long.
    pub limits: Limits,
}

/// What every part works with.
pub(crate) struct Shared {
    pub(crate) hosts: Hosts,
    pub(crate) limits: Limits,
    pub(crate) credentials: Credentials,
    pub(crate) refusals: Refusals,
    pub(crate) grants: Arc<Grants>,
    pub(crate) pace: Pace,
    /// Workspaces of which it was said that no bot commits there.
    pub(crate) nobodys: Told<WorkspaceId>,
    /// Repositories whose host wants `.git` behind their names.
    pub(crate) dotted: Told<RepositoryUrl>,
    pub(crate) transfers: Transfers,
    pub(crate) uses: Uses,
    pub(crate) store: Arc<dyn Store>,
}

/// The running service.
pub struct Service {
    pub(crate) shared: Arc<Shared>,
}

impl Service {
    /// Starts it. Must be called on a runtime.
    pub fn start(options: Options, store: Arc<dyn Store>) -> Self {
        let shared = Shared {
            hosts: options.hosts,
            limits: options.limits,
            credentials: Credentials::new(store.clone()),
            refusals: Refusals::default(),
            grants: Arc::default(),
            pace: Pace::default(),
            nobodys: Told::default(),
            dotted: Told::default(),
            transfers: Transfers::default(),
            uses: Uses::start(store.clone()),
            store,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The broker, for programs in sandboxes.
    pub fn broker(&self) -> Arc<dyn HostService> {
        Arc::new(GitBroker { shared: self.shared.clone() })
    }

    /// Who checks out what a workspace starts with.
    pub fn checkout(&self) -> Arc<dyn CodeCheckout> {
        Arc::new(Checkout { shared: self.shared.clone() })
    }

    /// What the API works with.
    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone() }
    }
}

/// What the API works with. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    /// Refuses a repository at a host that may not be spoken to.
    pub fn check(&self, url: &RepositoryUrl) -> Result<(), HostNotAllowed> {
        self.shared.hosts.check(url)
    }

    /// How git in a sandbox reaches these repositories.
    pub fn broker(&self, repositories: &[Repository]) -> Broker {
        broker_for(repositories, self.shared.limits.action)
    }

    /// Lets a workspace reach one more repository until the answer is dropped.
    pub fn grant(&self, id: WorkspaceId, url: RepositoryUrl) -> Grant {
        self.shared.grants.begin(id, url)
    }

    /// Who commits in this workspace where nobody in it says otherwise.
    pub async fn author(&self, id: WorkspaceId) -> Author {
        author(&self.shared, id).await
    }

    /// Why a workspace could not reach a repository since then.
    pub fn refusal(&self, id: WorkspaceId, since: Instant) -> Option<Refusal> {
        self.shared.refusals.since(id, since)
    }

    /// The hosts that tokens are stored for, with who stored them.
    pub async fn host_tokens(&self) -> Result<Vec<GitCredential>, StoreError> {
        self.shared.store.list_git_credentials().await
    }

    /// Stores the token of a host that may be spoken to and is not GitHub.
    pub async fn set_host_token(
        &self,
        origin: &Origin,
        username: String,
        token: SecretText,
        owner: Option<TokenId>,
    ) -> Result<GitCredential, SetTokenError> {
        let standing = self.shared.hosts.standing(origin).map_err(SetTokenError::NotAllowed)?;
        if standing.is_github {
            return Err(SetTokenError::IsGitHub);
        }
        let row = GitCredential {
            origin: origin.to_string(),
            username,
            token,
            owner_id: owner,
            created_at: emergent_store::now(),
        };
        self.shared.store.put_git_credential(&row).await?;
        Ok(row)
    }

    /// Forgets the token of a host. Returns whether there was one.
    pub async fn forget_host_token(&self, origin: &Origin) -> Result<bool, StoreError> {
        self.shared.store.delete_git_credential(&origin.to_string()).await
    }
}

/// A token was not stored.
#[derive(Debug, thiserror::Error)]
pub enum SetTokenError {
    /// The host may not be spoken to.
    #[error(transparent)]
    NotAllowed(HostNotAllowed),
    /// GitHub is connected as an App, and by no token.
    #[error("GitHub is connected as an App, in Settings > Integrations, and by no token")]
    IsGitHub,
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How git in a sandbox reaches these repositories.
pub(crate) fn broker_for(repositories: &[Repository], time_limit: Duration) -> Broker {
    let urls = repositories.iter().filter_map(|repository| repository.url.parse::<RepositoryUrl>().ok());
    let repositories = urls.map(|url| (url.to_string(), url.broker_path())).collect();
    Broker { port: BROKER_PORT, repositories, time_limit }
}

/// Who commits in a workspace where nobody in it says otherwise.
pub(crate) async fn author(shared: &Shared, id: WorkspaceId) -> Author {
    if shared.nobodys.note(id) {
        tracing::warn!(workspace = %id,
            "GitHub is not connected: commits in workspace {id} are {NOBODY}'s, and no bot's");
    }
    Author { name: NOBODY.to_owned(), email: NOBODYS_EMAIL.to_owned() }
}
