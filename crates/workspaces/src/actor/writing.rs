//! Writing a workspace's row, and showing what is new to everybody.

use std::time::{Duration, Instant};

use emergent_store::{StoreError, UpdateWorkspaceError, WarningsUpdate, WorkspaceRow, WorkspaceUpdate};
use emergent_types::WorkspaceStatus;

use super::{Actor, Reply, answer};
use crate::{LifecycleError, Place, events};

/// How long what has happened outside is tried to be written, while whoever asked for it waits, and everybody who
/// wants something else of the workspace: a database that is away for half a minute is back by then.
const RECORD_LIMIT: Duration = Duration::from_secs(40);

/// The same on a full disk.
const FULL_DISK_LIMIT: Duration = Duration::from_secs(5);

/// How long between two tries; doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(3);

impl Actor {
    /// Writes a change and shows it to everybody.
    pub(super) async fn write(&self, update: WorkspaceUpdate) -> Result<(), LifecycleError> {
        self.try_to_write(update).await.map_err(|error| {
            let retryable = matches!(&error, UpdateWorkspaceError::Store(error) if error.is_retryable());
            LifecycleError::Store { retryable, reason: error.to_string() }
        })
    }

    async fn try_to_write(&self, update: WorkspaceUpdate) -> Result<(), UpdateWorkspaceError> {
        let written = self.context.store.update_workspace(self.id, update).await;
        let row = written.inspect_err(|error| {
            tracing::error!(workspace = %self.id, %error, "the row of workspace {} was not written", self.id);
        })?;
        self.show(row);
        Ok(())
    }

    /// Shows a new row to everybody, and tells what is new about it.
    pub(super) fn show(&self, row: WorkspaceRow) {
        let why = self.why.filter(|(status, _)| *status == row.status).map(|(_, why)| why);
        let before = self.published.send_replace(row.clone());
        self.tell(events::of_change(Some(&before), &row, why));
    }

    pub(super) fn tell(&self, events: Vec<events::Event>) {
        for event in events {
            self.context.events.publish(event);
        }
    }

    /// Writes what is going to happen, before anything is done about it. What cannot be written
    /// now is not begun, and whoever asked is told at once.
    pub(super) async fn intend(&self, status: WorkspaceStatus, reply: Reply) -> Option<Vec<Reply>> {
        if status == WorkspaceStatus::Destroying {
            self.context.reach(Place::DestroyBeforeTheIntent).await;
        }
        match self.write(WorkspaceUpdate::to_status(status)).await {
            Ok(()) => Some(vec![reply]),
            Err(error) => {
                answer([reply], Err(error));
                None
            }
        }
    }

    /// Writes what has already happened outside. The outside cannot be undone, so this tries
    /// for a while; what still cannot be written is repaired by the next start. Returns whether it is written.
    pub(super) async fn record(&self, update: WorkspaceUpdate) -> bool {
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let Err(error) = self.try_to_write(update.clone()).await else { return true };
            if started.elapsed() + pause > patience(&error) || self.context.is_closing() {
                break;
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(LAST_PAUSE);
        }
        let mut row = self.row();
        update.apply_to(&mut row);
        self.show(row);
        false
    }

    pub(super) async fn warn(&self, warning: String) {
        let warnings = WarningsUpdate::Append(vec![warning]);
        self.record(WorkspaceUpdate { warnings, ..WorkspaceUpdate::default() }).await;
    }
}

/// How long it is worth trying after this.
fn patience(error: &UpdateWorkspaceError) -> Duration {
    match error {
        // Somebody has to make room, and most of what makes room waits for this.
        UpdateWorkspaceError::Store(StoreError::DiskFull { .. }) => FULL_DISK_LIMIT,
        UpdateWorkspaceError::Store(error) if error.is_retryable() => RECORD_LIMIT,
        // What the database refuses now it refuses always.
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use emergent_store::Operation;
    use emergent_types::WorkspaceId;

    use super::*;

    #[test]
    fn a_database_that_is_away_is_worth_more_patience_than_a_full_disk() {
        let id = WorkspaceId::generate();
        let operation = Operation::UpdateWorkspace(id);
        let away = patience(&StoreError::Busy { operation }.into());
        let full = patience(&StoreError::DiskFull { operation }.into());
        assert!(away > Duration::from_secs(30) && away < Duration::from_secs(60), "{away:?}");
        assert!(full > Duration::ZERO && full < Duration::from_secs(10), "{full:?}");
        assert_eq!(patience(&UpdateWorkspaceError::NotFound { id }), Duration::ZERO);
    }
}
