//! Workspaces, for people.

use emergent_client::Workspace;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::output::{fields, table};

const MINUTE: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day] [hour]:[minute]Z");

const SECOND: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]Z");

/// Many, one per line.
pub(super) fn rows(workspaces: &[Workspace]) -> String {
    let head = ["ID", "STATUS", "PROVIDER", "ISOLATION", "CPU", "MEMORY", "DISK", "CREATED", "EXPIRES"];
    let row = |workspace: &Workspace| {
        vec![
            workspace.id.to_string(),
            workspace.status.to_string(),
            workspace.provider.to_string(),
            or_dash(workspace.isolation),
            workspace.resource_limits.cpu.to_string(),
            workspace.resource_limits.memory.to_string(),
            workspace.resource_limits.disk.to_string(),
            minute(workspace.created_at),
            workspace.expires_at.map_or_else(|| "never".to_owned(), minute),
        ]
    };
    table(&head, workspaces.iter().map(row))
}

/// One, in full.
pub(super) fn details(workspace: &Workspace) -> String {
    let limits = workspace.resource_limits;
    let mut rows = vec![
        ("id", workspace.id.to_string()),
        ("status", workspace.status.to_string()),
        ("provider", workspace.provider.to_string()),
        ("isolation", or_dash(workspace.isolation)),
        ("network", workspace.network.to_string()),
        ("limits", format!("{} cpu, {} memory, {} disk", limits.cpu, limits.memory, limits.disk)),
        ("created", minute(workspace.created_at)),
        ("last used", minute(workspace.last_used_at)),
        ("expires", workspace.expires_at.map_or_else(|| "never".to_owned(), minute)),
    ];
    if let Some(url) = &workspace.repository_url {
        let checkout = &workspace.checkout;
        let more = checkout.reason.as_deref().or(checkout.commit.as_deref()).unwrap_or_default();
        rows.push(("repository", format!("{url}: {} {more}", checkout.status)));
        rows.extend(checkout.hint.iter().map(|hint| ("hint", hint.clone())));
    }
    if let Some(error) = &workspace.error {
        rows.push(("error", format!("{} ({})", error.message, error.code)));
    }
    rows.extend(workspace.progress.iter().map(|progress| ("progress", progress.clone())));
    rows.extend(workspace.warnings.iter().map(|warning| ("warning", warning.clone())));
    fields(rows)
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A time, for people.
pub(crate) fn minute(instant: OffsetDateTime) -> String {
    instant.format(MINUTE).unwrap_or_else(|_| instant.to_string())
}

/// As [`minute`], where minutes are too long.
pub(super) fn second(instant: OffsetDateTime) -> String {
    instant.format(SECOND).unwrap_or_else(|_| instant.to_string())
}
