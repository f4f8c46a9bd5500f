//! What can go wrong.

use std::io;

/// Why a sandbox's network could not be made, looked at or removed.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The host cannot enforce the rules, so nothing is connected.
    #[error("{0}")]
    Unenforceable(String),
    /// Every address of the pool is in use.
    #[error("no address is left for another sandbox")]
    NoAddress,
    /// A program that is needed could not be run to its end.
    #[error("{program} cannot be run: {error}")]
    Program {
        /// Its name.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// A program said no.
    #[error("{program}: {reason}")]
    Refused {
        /// Its name.
        program: String,
        /// What it said.
        reason: String,
    },
    /// The kernel refused a change of links, addresses or routes.
    #[error("{step}: {reason}")]
    Netlink {
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        reason: String,
    },
    /// A system call failed.
    #[error("{step}: {error}")]
    System {
        /// What was being done.
        step: &'static str,
        /// Why.
        error: io::Error,
    },
}

impl NetworkError {
    pub(crate) fn system(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { step, error }
    }

    pub(crate) fn netlink(step: &'static str) -> impl FnOnce(rtnetlink::Error) -> Self {
        move |error| Self::Netlink { step, reason: said(&error) }
    }
}

/// What the kernel said, without the message around it.
fn said(error: &rtnetlink::Error) -> String {
    match error {
        rtnetlink::Error::NetlinkError(message) => io::Error::from(message.clone()).to_string(),
        other => other.to_string(),
    }
}
