//! From a row before and after to what is told of it.

use emergent_store::{SnapshotRow, WorkspaceRow};
use emergent_types::WorkspaceStatus;
use serde_json::{Value, json};

use super::{Event, Subject};

/// The state in which a workspace is that is none any more.
const DESTROYED: &str = "destroyed";

/// What a change of a row means to others; without `before`, it is new. `why` is what its owner knows about
/// the change.
pub(crate) fn of_change(
    before: Option<&WorkspaceRow>,
    after: &WorkspaceRow,
    why: Option<&str>,
) -> Vec<Event> {
    let mut events = Vec::new();
    // What waits in a pool is nobody's; when somebody gets it, there is a new workspace.
    if after.warm_pool.is_some() {
        return events;
    }
    let before = before.filter(|row| row.warm_pool.is_none());
    let from = before.map(|row| row.status);
    if from != Some(after.status) {
        // An error stays in the row until it works again; it is the reason only of the failure itself.
        let error = after.error.as_ref().filter(|_| after.status == WorkspaceStatus::Failed);
        let reason = error.map(|error| format!("{}: {}", error.code, error.message));
        let reason = reason.or_else(|| why.map(str::to_owned));
        events.push(state(after, from.map(WorkspaceStatus::as_str), after.status.as_str(), reason));
    }
    let known = before.map_or(&[][..], |row| &row.warnings);
    for warning in after.warnings.iter().filter(|warning| !known.contains(warning)) {
        let data = json!({ "workspace_id": after.id.to_string(), "message": warning });
        events.push(Event { kind: "workspace.warning", about: about(after), data });
    }
    events
}

/// How far the making of its sandbox is.
pub(crate) fn of_progress(row: &WorkspaceRow, said: &str) -> Event {
    let data = json!({ "workspace_id": row.id.to_string(), "message": said });
    Event { kind: "workspace.progress", about: about(row), data }
}

/// What it means that a row is gone.
pub(crate) fn of_end(last: &WorkspaceRow) -> Vec<Event> {
    let is_somebodys = last.warm_pool.is_none();
    let event = is_somebodys.then(|| state(last, Some(last.status.as_str()), DESTROYED, None));
    event.into_iter().collect()
}

/// A snapshot has come or gone.
pub(crate) fn of_snapshot(kind: &'static str, row: &SnapshotRow) -> Event {
    let data = json!({ "snapshot_id": row.id.to_string(), "workspace_id": row.workspace_id.to_string() });
    Event { kind, about: Subject::Workspace { id: row.workspace_id, owner: row.owner_id }, data }
}

/// A pool has another size.
pub(crate) fn of_pool(name: &str, size: u32) -> Event {
    Event { kind: "pool.resized", about: Subject::Installation, data: json!({ "pool": name, "size": size }) }
}

fn state(row: &WorkspaceRow, from: Option<&str>, to: &str, reason: Option<String>) -> Event {
    let data = json!({
        "workspace_id": row.id.to_string(),
        "from": from,
        "to": to,
        "provider": row.provider.as_str(),
        "reason": reason.map_or(Value::Null, Value::String),
    });
    Event { kind: "workspace.state", about: about(row), data }
}

fn about(row: &WorkspaceRow) -> Subject {
    Subject::Workspace { id: row.id, owner: row.owner_id }
}
