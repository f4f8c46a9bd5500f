//! The audit log.

use std::time::Duration;

use emergent_store::{AuditEntry, AuditFilter, AuditFinish, AuditOutcome, Store, TokenId};
use emergent_types::WorkspaceId;
use serde_json::{Map, json};
use time::OffsetDateTime;
use uuid::Uuid;

use super::fixtures::{NO_LIMIT, NOON, count, object, workspace};

fn entry(tool: &str, at: OffsetDateTime) -> AuditEntry {
    AuditEntry {
        id: Uuid::now_v7(),
        at,
        tool: tool.to_owned(),
        workspace_id: None,
        session_id: None,
        caller: None,
        request_id: "request".to_owned(),
        duration_ms: None,
        outcome: AuditOutcome::Running,
        error_code: None,
        summary: Map::new(),
    }
}

fn full_entry() -> AuditEntry {
    AuditEntry {
        workspace_id: Some(WorkspaceId::generate()),
        session_id: Some(Uuid::now_v7()),
        caller: Some(TokenId::generate()),
        duration_ms: Some(1234),
        outcome: AuditOutcome::Error,
        error_code: Some("timeout".to_owned()),
        summary: object(json!({"command": "echo 'quoted \\u0000'", "nested": {"exit_code": 1}})),
        ..entry("bash", NOON)
    }
}

fn later(seconds: u64) -> OffsetDateTime {
    NOON + Duration::from_secs(seconds)
}

async fn walk(store: &dyn Store, filter: &AuditFilter, page_size: u32) -> Vec<AuditEntry> {
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.list_audit(filter, cursor, count(page_size)).await.unwrap();
        seen.extend(page.items);
        // As a client has it: through text.
        cursor = page.next.map(|next| next.to_string().parse().unwrap());
        if cursor.is_none() {
            return seen;
        }
    }
}

pub(crate) async fn an_entry_comes_back_as_it_was_written(store: &dyn Store) {
    let all = AuditFilter::default();
    store.append_audit(&[]).await.unwrap();
    assert_eq!(walk(store, &all, 3).await, []);
    let entries: Vec<_> = AuditOutcome::ALL
        .into_iter()
        .enumerate()
        .map(|(number, outcome)| AuditEntry { outcome, at: later(number as u64), ..full_entry() })
        .chain([entry("read", later(10))])
        .collect();
    store.append_audit(&entries).await.unwrap();
    let newest_first: Vec<_> = entries.into_iter().rev().collect();
    assert_eq!(walk(store, &all, 4).await, newest_first);
}

pub(crate) async fn many_entries_are_written_at_once(store: &dyn Store) {
    // More than one statement's worth.
    let many: Vec<_> = (0..1200).map(|_| entry("read", NOON)).collect();
    store.append_audit(&many).await.unwrap();
    assert_eq!(walk(store, &AuditFilter::default(), 1000).await.len(), 1200);
}

/// The answer to the first time may have been lost.
pub(crate) async fn what_may_have_been_written_can_be_written_again(store: &dyn Store) {
    let begun = AuditEntry { summary: object(json!({"command": "true"})), ..entry("bash", NOON) };
    let over = AuditEntry { at: later(1), ..full_entry() };
    store.append_audit(&[begun.clone(), over.clone()]).await.unwrap();
    store.append_audit(&[begun.clone(), over.clone()]).await.unwrap();
    assert_eq!(walk(store, &AuditFilter::default(), 5).await, [over.clone(), begun.clone()]);
    // It has ended meanwhile; what had ended stays as it was.
    let ended = AuditEntry { outcome: AuditOutcome::Ok, duration_ms: Some(5), ..begun };
    let changed = AuditEntry { outcome: AuditOutcome::Cancelled, error_code: None, ..over.clone() };
    store.append_audit(&[ended.clone(), changed]).await.unwrap();
    assert_eq!(walk(store, &AuditFilter::default(), 5).await, [over, ended]);
}

pub(crate) async fn an_end_is_written_once(store: &dyn Store) {
    let running = AuditEntry { summary: object(json!({"command": "true"})), ..entry("bash", NOON) };
    let other = entry("bash", later(1));
    store.append_audit(&[running.clone(), other.clone()]).await.unwrap();
    let finish = AuditFinish {
        id: running.id,
        duration_ms: 7,
        outcome: AuditOutcome::Error,
        error_code: Some("oom".to_owned()),
        summary: None,
        workspace_id: None,
    };
    let nobody = AuditFinish { id: Uuid::now_v7(), ..finish.clone() };
    assert_eq!(store.finish_audit(&[finish.clone(), nobody]).await.unwrap(), 1);
    let ended = AuditEntry {
        duration_ms: Some(7),
        outcome: AuditOutcome::Error,
        error_code: Some("oom".to_owned()),
        ..running
    };
    assert_eq!(walk(store, &AuditFilter::default(), 9).await, [other.clone(), ended.clone()]);
    let too_late = AuditFinish { outcome: AuditOutcome::Ok, ..finish.clone() };
    assert_eq!(store.finish_audit(&[too_late]).await.unwrap(), 0);

    let summary = object(json!({"exit_code": 0}));
    let done = AuditFinish {
        id: other.id,
        outcome: AuditOutcome::Ok,
        error_code: None,
        summary: Some(summary.clone()),
        ..finish
    };
    assert_eq!(store.finish_audit(&[done]).await.unwrap(), 1);
    let other = AuditEntry { duration_ms: Some(7), outcome: AuditOutcome::Ok, summary, ..other };
    assert_eq!(walk(store, &AuditFilter::default(), 9).await, [other, ended]);
}

pub(crate) async fn audit_filters_combine(store: &dyn Store) {
    let workspaces = [WorkspaceId::generate(), WorkspaceId::generate()];
    let callers = [TokenId::generate(), TokenId::generate()];
    let mut entries = Vec::new();
    for number in 0..64_u64 {
        let bit = |at: u64| usize::from(number & (1 << at) != 0);
        entries.push(AuditEntry {
            workspace_id: Some(workspaces[bit(0)]),
            caller: Some(callers[bit(1)]),
            outcome: [AuditOutcome::Ok, AuditOutcome::Error][bit(2)],
            // Four at a time in the same millisecond.
            ..entry(["bash", "read"][bit(3)], later(number / 4))
        });
    }
    store.append_audit(&entries).await.unwrap();
    for wanted in 0..64 {
        let if_wanted = |bit: u32| wanted & (1 << bit) != 0;
        let filter = AuditFilter {
            workspace_id: if_wanted(0).then_some(workspaces[1]),
            caller: if_wanted(1).then_some(callers[0]),
            outcome: if_wanted(2).then_some(AuditOutcome::Error),
            tool: if_wanted(3).then(|| "read".to_owned()),
            since: if_wanted(4).then_some(later(4)),
            until: if_wanted(5).then_some(later(12)),
        };
        let mut expect: Vec<_> = entries
            .iter()
            .filter(|entry| filter.workspace_id.is_none_or(|id| entry.workspace_id == Some(id)))
            .filter(|entry| filter.caller.is_none_or(|id| entry.caller == Some(id)))
            .filter(|entry| filter.outcome.is_none_or(|outcome| entry.outcome == outcome))
            .filter(|entry| filter.tool.as_ref().is_none_or(|tool| entry.tool == *tool))
            .filter(|entry| filter.since.is_none_or(|since| entry.at >= since))
            .filter(|entry| filter.until.is_none_or(|until| entry.at < until))
            .cloned()
            .collect();
        expect.sort_by_key(|entry| std::cmp::Reverse((entry.at, entry.id)));
        assert_eq!(walk(store, &filter, 5).await, expect, "{filter:?}");
    }
}

pub(crate) async fn old_entries_go_a_few_at_a_time(store: &dyn Store) {
    let entries: Vec<_> = (0..10).map(|number| entry("bash", later(number))).collect();
    store.append_audit(&entries).await.unwrap();
    assert_eq!(store.prune_audit(later(5), count(3)).await.unwrap(), 3);
    let left: Vec<_> = walk(store, &AuditFilter::default(), 20).await.iter().map(|entry| entry.at).collect();
    assert_eq!(left, (3..10).rev().map(later).collect::<Vec<_>>(), "the oldest went first");
    assert_eq!(store.prune_audit(later(5), count(3)).await.unwrap(), 2);
    assert_eq!(store.prune_audit(later(5), count(3)).await.unwrap(), 0);
    assert_eq!(walk(store, &AuditFilter::default(), 20).await.len(), 5);
}

pub(crate) async fn what_a_killed_server_ran_is_interrupted(store: &dyn Store) {
    let done = AuditEntry { outcome: AuditOutcome::Ok, ..entry("bash", NOON) };
    store.append_audit(&[done.clone(), entry("read", later(1)), entry("grep", later(2))]).await.unwrap();
    assert_eq!(store.interrupt_running_audit().await.unwrap(), 2);
    let outcomes: Vec<_> =
        walk(store, &AuditFilter::default(), 9).await.iter().map(|entry| entry.outcome).collect();
    assert_eq!(outcomes, [AuditOutcome::Interrupted, AuditOutcome::Interrupted, AuditOutcome::Ok]);
    assert_eq!(store.interrupt_running_audit().await.unwrap(), 0);
}

pub(crate) async fn the_log_outlives_its_workspace(store: &dyn Store) {
    let row = workspace();
    store.insert_workspace(&row, NO_LIMIT, None).await.unwrap();
    let entry = AuditEntry { workspace_id: Some(row.id), ..entry("bash", NOON) };
    store.append_audit(std::slice::from_ref(&entry)).await.unwrap();
    store.delete_workspace(row.id).await.unwrap();
    let filter = AuditFilter { workspace_id: Some(row.id), ..AuditFilter::default() };
    assert_eq!(walk(store, &filter, 2).await, [entry]);
}

/// Nobody escapes the log by sending what a database cannot keep.
pub(crate) async fn a_zero_byte_does_not_hide_a_call(store: &dyn Store) {
    let odd = AuditEntry {
        summary: object(json!({"path": "a\0b", "list": ["\0"], "k\0": {"x": "\0"}})),
        error_code: Some("\0".to_owned()),
        ..entry("re\0ad", NOON)
    };
    store.append_audit(std::slice::from_ref(&odd)).await.unwrap();
    let kept = walk(store, &AuditFilter::default(), 2).await.remove(0);
    assert_eq!(kept.tool, "re\u{FFFD}ad");
    assert_eq!(kept.summary["path"], "a\u{FFFD}b");
    assert_eq!(kept.summary["k\u{FFFD}"]["x"], "\u{FFFD}");
    let finish = AuditFinish {
        id: odd.id,
        duration_ms: 0,
        outcome: AuditOutcome::Error,
        error_code: Some("\0".to_owned()),
        summary: Some(odd.summary),
        workspace_id: None,
    };
    assert_eq!(store.finish_audit(&[finish]).await.unwrap(), 1);
}
