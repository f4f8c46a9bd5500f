//! Why a repository could not be reached, as the broker knows it. What git in a sandbox says about it is the
//! sandbox's word; this is ours.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use emergent_types::WorkspaceId;

/// More workspaces than this are not remembered at once.
const MAX_REMEMBERED: usize = 10_000;

/// Why a repository could not be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is none of the workspace's.
    #[error("the repository is none of this workspace's")]
    NotTheWorkspaces,
    /// Its host is not, or not any more, one that may be spoken to.
    #[error("{host} is neither GitHub nor among the hosts that are allowed (CHECKOUT_ALLOWED_HOSTS)")]
    HostNotAllowed {
        /// The host.
        host: String,
    },
    /// Its host's name leads to an address that must not be spoken to.
    #[error("{host} is at an address that must not be reached")]
    AddressRefused {
        /// The host.
        host: String,
    },
    /// GitHub wants to know who asks, and nobody has connected it, or not for this repository.
    #[error("Repository authentication failed — connect GitHub in Settings > Integrations")]
    GitHubAuthentication,
    /// Another host does.
    #[error(
        "Repository authentication failed — {host} does not accept the token that is stored for it, or there is none"
    )]
    Authentication {
        /// The host.
        host: String,
    },
    /// A token could not be had.
    #[error("no token could be had for the repository: {reason}")]
    NoToken {
        /// Why, without secrets.
        reason: String,
    },
    /// The same, for the moment.
    #[error("no token could be looked up for the repository now")]
    NoTokenNow,
    /// There is no such repository, or not for whoever asks.
    #[error("the host knows no such repository, or does not show it")]
    NotFound,
    /// The host wants the repository to be looked for elsewhere.
    #[error("the host says that the repository has moved; use its new address")]
    Moved,
    /// The host does not speak git's smart HTTP.
    #[error("the host does not answer as a git server does")]
    NotGit,
    /// It could not be connected to, or the connection broke.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        /// The host.
        host: String,
        /// Why.
        reason: String,
    },
    /// It answers that it cannot now.
    #[error("{host} is not able to serve now (status {status})")]
    Unavailable {
        /// The host.
        host: String,
        /// Its status.
        status: u16,
    },
    /// It took too long.
    #[error("the transfer took too long")]
    TimedOut,
    /// The sandbox has stopped in the middle of what it sent.
    #[error("the sandbox broke the transfer off")]
    BrokenOff,
    /// It was too much.
    #[error("the transfer is larger than {limit_mib} MiB, which is the most that is allowed")]
    TooLarge {
        /// The most that is allowed.
        limit_mib: u64,
    },
    /// It was too much for the host.
    #[error("{host} does not take what is sent: it is too large")]
    TooLargeThere {
        /// The host.
        host: String,
    },
}

impl Refusal {
    /// Whether the same may succeed in a moment.
    pub fn is_worth_retrying(&self) -> bool {
        matches!(
            self,
            Self::NoTokenNow
                | Self::Unreachable { .. }
                | Self::Unavailable { .. }
                | Self::TimedOut
                | Self::BrokenOff
        )
    }

    /// Whether whoever asks is not known, or not well enough.
    pub fn is_authentication(&self) -> bool {
        matches!(self, Self::GitHubAuthentication | Self::Authentication { .. } | Self::NoToken { .. })
    }

    /// What helps.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotTheWorkspaces => {
                "name it in `repositories` when the workspace is created, or clone it with the git tool"
            }
            Self::HostNotAllowed { .. } | Self::AddressRefused { .. } => {
                "an administrator adds exactly this scheme, host and port to CHECKOUT_ALLOWED_HOSTS"
            }
            Self::GitHubAuthentication => {
                "connect GitHub in Settings > Integrations, and install the App for this repository"
            }
            Self::Authentication { .. } => "an administrator stores a token with `emergent git-host set`",
            Self::NoToken { .. } => "look at Settings > Integrations for what is wrong with the connection",
            Self::NotFound => "look at the spelling, and whether the App is installed for this repository",
            Self::Moved => "use the address that the host shows now",
            Self::NotGit => "use the address that `git clone` takes",
            Self::NoTokenNow | Self::Unreachable { .. } | Self::Unavailable { .. } | Self::TimedOut => {
                "try again later"
            }
            Self::BrokenOff => "try again",
            Self::TooLarge { .. } => "clone less of the history (`depth`)",
            Self::TooLargeThere { .. } => "push less at once",
        };
        Some(hint.to_owned())
    }

    /// For programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotTheWorkspaces | Self::HostNotAllowed { .. } | Self::AddressRefused { .. } => {
                "repository_not_allowed"
            }
            Self::GitHubAuthentication | Self::Authentication { .. } | Self::NoToken { .. } => {
                "repository_authentication_failed"
            }
            Self::NotFound | Self::Moved | Self::NotGit => "repository_not_found",
            Self::NoTokenNow
            | Self::Unreachable { .. }
            | Self::Unavailable { .. }
            | Self::TimedOut
            | Self::BrokenOff
            | Self::TooLarge { .. }
            | Self::TooLargeThere { .. } => "repository_unreachable",
        }
    }
}

/// The last refusal of each workspace.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<HashMap<WorkspaceId, (Instant, Refusal)>>);

impl Refusals {
    pub(crate) fn note(&self, id: WorkspaceId, refusal: Refusal) {
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() >= MAX_REMEMBERED && !refusals.contains_key(&id) {
            refusals.clear();
        }
        refusals.insert(id, (Instant::now(), refusal));
    }

    /// What a workspace was refused since then.
    pub(crate) fn since(&self, id: WorkspaceId, since: Instant) -> Option<Refusal> {
        let refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.get(&id).filter(|(at, _)| *at >= since).map(|(_, refusal)| refusal.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_since_is_told() {
        let (refusals, id) = (Refusals::default(), WorkspaceId::generate());
        let before = Instant::now();
        assert_eq!(refusals.since(id, before), None);
        refusals.note(id, Refusal::NotFound);
        assert_eq!(refusals.since(id, before), Some(Refusal::NotFound));
        assert_eq!(refusals.since(WorkspaceId::generate(), before), None);
        assert_eq!(refusals.since(id, Instant::now() + std::time::Duration::from_secs(1)), None);
    }

    #[test]
    fn an_authorisation_failure_is_not_tried_again() {
        assert!(!Refusal::GitHubAuthentication.is_worth_retrying());
        assert!(Refusal::TimedOut.is_worth_retrying());
        let words = Refusal::GitHubAuthentication.to_string();
        assert_eq!(words, "Repository authentication failed — connect GitHub in Settings > Integrations");
    }
}
