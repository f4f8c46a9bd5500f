//! What may change in a workspace's row after it was written. What was asked for never does.

use std::collections::BTreeMap;

use emergent_types::{
    DiskEnforcement, IsolationLevel, Lifecycle, NetworkMode, Persistence, ProviderKind, WorkspaceId,
    WorkspaceStatus,
};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::{
    AttemptRecord, ClaimResumeError, Repository, Touch, UpdateWorkspaceError, WorkspaceError, WorkspaceRow,
};

/// A change of one row. What is `None` (or `Keep`) stays as it is.
///
/// ```
/// # use emergent_store::{ErrorUpdate, WorkspaceError, WorkspaceUpdate};
/// # use emergent_types::WorkspaceStatus;
/// let failed = WorkspaceUpdate {
///     expected_status: Some(WorkspaceStatus::Creating),
///     status: Some(WorkspaceStatus::Failed),
///     error: ErrorUpdate::Set(WorkspaceError {
///         code: "no_provider".to_owned(),
///         message: "every provider refused".to_owned(),
///     }),
///     ..WorkspaceUpdate::default()
/// };
/// # assert_eq!(failed.provider, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkspaceUpdate {
    /// Change nothing unless the row has this status now.
    pub expected_status: Option<WorkspaceStatus>,
    /// The new status.
    pub status: Option<WorkspaceStatus>,
    /// Who makes, or has made, the sandbox.
    pub provider: Option<ProviderKind>,
    /// The provider's own name for it.
    pub provider_workspace_id: Option<String>,
    /// The isolation it really has.
    pub isolation: Option<IsolationLevel>,
    /// The network it really has.
    pub network: Option<NetworkMode>,
    /// What stop and resume keep.
    pub persistence: Option<Persistence>,
    /// How the disk limit is upheld.
    pub disk_enforcement: Option<DiskEnforcement>,
    /// The providers that were tried: the whole list.
    pub attempts: Option<Vec<AttemptRecord>>,
    /// What the user should know.
    pub warnings: WarningsUpdate,
    /// Why it failed.
    pub error: ErrorUpdate,
    /// When it was last used.
    pub last_used_at: Option<OffsetDateTime>,
    /// When it ends. A persistent workspace has no end and ignores this.
    pub expires_at: Option<OffsetDateTime>,
    /// How often it was resumed after its sandbox was lost.
    pub resume_attempts: Option<u32>,
    /// Whatever whoever asked for it wants to remember: the whole map.
    pub metadata: Option<Map<String, Value>>,
    /// Its repositories: the whole list.
    pub repositories: Option<Vec<Repository>>,
}

/// What to do with the warnings that are there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum WarningsUpdate {
    /// Leave them.
    #[default]
    Keep,
    /// Add these, each once.
    Append(Vec<String>),
    /// These instead.
    Replace(Vec<String>),
}

/// What to do with the error that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ErrorUpdate {
    /// Leave it.
    #[default]
    Keep,
    /// There is none any more.
    Clear,
    /// This one.
    Set(WorkspaceError),
}

impl WorkspaceUpdate {
    /// Only a new status.
    pub fn to_status(status: WorkspaceStatus) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// The row as it is after this change, where it may be made: in the status that is expected,
    /// and without taking a place that was not claimed.
    pub(crate) fn judged(self, mut row: WorkspaceRow) -> Result<WorkspaceRow, UpdateWorkspaceError> {
        let (id, from, had_a_place) = (row.id, row.status, row.takes_a_place());
        if let Some(expected) = self.expected_status
            && expected != from
        {
            return Err(UpdateWorkspaceError::WrongStatus { id, expected, actual: from });
        }
        self.apply_to(&mut row);
        if row.takes_a_place() && !had_a_place {
            return Err(UpdateWorkspaceError::PlaceNotClaimed { id, from, to: row.status });
        }
        Ok(row)
    }

    /// The row as it is after this change. Pure, so that every database changes rows alike;
    /// `expected_status` is the caller's to compare.
    pub fn apply_to(self, row: &mut WorkspaceRow) {
        let Self {
            expected_status: _,
            status,
            provider,
            provider_workspace_id,
            isolation,
            network,
            persistence,
            disk_enforcement,
            attempts,
            warnings,
            error,
            last_used_at,
            expires_at,
            resume_attempts,
            metadata,
            repositories,
        } = self;
        replace(&mut row.status, status);
        replace(&mut row.provider, provider);
        replace(&mut row.provider_workspace_id, provider_workspace_id);
        replace(&mut row.network, network);
        replace(&mut row.attempts, attempts);
        replace(&mut row.last_used_at, last_used_at);
        replace(&mut row.resume_attempts, resume_attempts);
        replace(&mut row.metadata, metadata);
        replace(&mut row.repositories, repositories);
        row.isolation = isolation.or(row.isolation);
        row.persistence = persistence.or(row.persistence);
        row.disk_enforcement = disk_enforcement.or(row.disk_enforcement);
        if row.lifecycle == Lifecycle::Ephemeral {
            row.expires_at = expires_at.or(row.expires_at);
        }
        match warnings {
            WarningsUpdate::Keep => {}
            WarningsUpdate::Replace(warnings) => row.warnings = warnings,
            WarningsUpdate::Append(warnings) => {
                // A step that is retried warns again; the user needs to read it once.
                for warning in warnings {
                    if !row.warnings.contains(&warning) {
                        row.warnings.push(warning);
                    }
                }
            }
        }
        match error {
            ErrorUpdate::Keep => {}
            ErrorUpdate::Clear => row.error = None,
            ErrorUpdate::Set(error) => row.error = Some(error),
        }
    }
}

/// The row of a stopped workspace that is to run again; the place is still to be claimed.
pub(crate) fn resuming(row: WorkspaceRow) -> Result<WorkspaceRow, ClaimResumeError> {
    match row.status {
        WorkspaceStatus::Stopped => Ok(WorkspaceRow { status: WorkspaceStatus::Resuming, ..row }),
        status => Err(ClaimResumeError::WrongStatus { id: row.id, status }),
    }
}

/// Of several touches of a workspace the last one: a database would apply any one of them.
pub(crate) fn last_touches(touches: &[Touch]) -> BTreeMap<WorkspaceId, &Touch> {
    touches.iter().map(|touch| (touch.id, touch)).collect()
}

fn replace<T>(field: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *field = new;
    }
}
