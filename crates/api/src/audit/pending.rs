//! Entries that wait to be written.

use std::collections::HashMap;

use emergent_store::{AuditEntry, AuditFinish, AuditOutcome};
use uuid::Uuid;

/// How many entries wait at most. About 20 MiB where each has a long summary.
pub(super) const MAX_PENDING: usize = 16_384;

/// How many are written at once.
pub(super) const BATCH: usize = 500;

/// Entries that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Not in the database yet.
    begun: HashMap<Uuid, AuditEntry>,
    /// Ends of what is there, or is on its way there.
    finished: HashMap<Uuid, AuditFinish>,
    dropped: u64,
}

/// What is written in one go.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) begun: Vec<AuditEntry>,
    pub(super) finished: Vec<AuditFinish>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.finished.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.begun.len() + self.finished.len()
    }
}

impl Pending {
    pub(super) fn len(&self) -> usize {
        self.begun.len() + self.finished.len()
    }

    pub(super) fn begin(&mut self, entry: AuditEntry) {
        if self.len() >= MAX_PENDING {
            self.dropped += 1;
        } else {
            self.begun.insert(entry.id, entry);
        }
    }

    pub(super) fn finish(&mut self, finish: AuditFinish) {
        let is_full = self.len() >= MAX_PENDING;
        match self.begun.get_mut(&finish.id) {
            Some(entry) => apply(entry, finish),
            None if is_full => self.dropped += 1,
            None => drop(self.finished.insert(finish.id, finish)),
        }
    }

    /// How many were lost since this was asked last.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// What to write next.
    pub(super) fn take(&mut self) -> Batch {
        let begun: Vec<Uuid> = self.begun.keys().take(BATCH).copied().collect();
        let finished: Vec<Uuid> = self.finished.keys().take(BATCH).copied().collect();
        Batch {
            begun: begun.iter().filter_map(|id| self.begun.remove(id)).collect(),
            finished: finished.iter().filter_map(|id| self.finished.remove(id)).collect(),
        }
    }

    /// What could not be written comes back. Ends that came meanwhile find their beginning.
    pub(super) fn put_back(&mut self, batch: Batch) {
        for mut entry in batch.begun {
            if let Some(finish) = self.finished.remove(&entry.id) {
                apply(&mut entry, finish);
            }
            self.begin(entry);
        }
        for finish in batch.finished {
            self.finish(finish);
        }
    }
}

fn apply(entry: &mut AuditEntry, finish: AuditFinish) {
    if entry.outcome != AuditOutcome::Running {
        return;
    }
    entry.outcome = finish.outcome;
    entry.duration_ms = Some(finish.duration_ms);
    entry.error_code = finish.error_code;
    if let Some(summary) = finish.summary {
        entry.summary = summary;
    }
    entry.workspace_id = finish.workspace_id.or(entry.workspace_id);
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn entry() -> AuditEntry {
        AuditEntry {
            id: Uuid::now_v7(),
            at: emergent_store::now(),
            tool: "bash".to_owned(),
            workspace_id: None,
            session_id: None,
            caller: None,
            request_id: String::new(),
            duration_ms: None,
            outcome: AuditOutcome::Running,
            error_code: None,
            summary: Map::new(),
        }
    }

    fn end(id: Uuid) -> AuditFinish {
        let (outcome, workspace_id) = (AuditOutcome::Ok, None);
        AuditFinish { id, duration_ms: 5, outcome, error_code: None, summary: None, workspace_id }
    }

    #[test]
    fn a_short_call_is_one_row() {
        let mut pending = Pending::default();
        let entry = entry();
        pending.begin(entry.clone());
        pending.finish(end(entry.id));
        let batch = pending.take();
        assert_eq!((batch.begun.len(), batch.finished.len()), (1, 0));
        assert_eq!((batch.begun[0].outcome, batch.begun[0].duration_ms), (AuditOutcome::Ok, Some(5)));
        assert!(pending.take().is_empty());
    }

    #[test]
    fn a_long_call_is_a_row_and_a_change() {
        let mut pending = Pending::default();
        let entry = entry();
        pending.begin(entry.clone());
        assert_eq!(pending.take().begun[0].outcome, AuditOutcome::Running);
        pending.finish(end(entry.id));
        assert_eq!(pending.take().finished, [end(entry.id)]);
    }

    #[test]
    fn what_fails_comes_back_with_its_end() {
        let mut pending = Pending::default();
        let entry = entry();
        pending.begin(entry.clone());
        let failed = pending.take();
        pending.finish(end(entry.id));
        pending.put_back(failed);
        let batch = pending.take();
        assert_eq!((batch.begun.len(), batch.finished.len()), (1, 0));
        assert_eq!(batch.begun[0].outcome, AuditOutcome::Ok);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut pending = Pending::default();
        for _ in 0..MAX_PENDING + 3 {
            pending.begin(entry());
        }
        assert_eq!((pending.len(), pending.take_dropped(), pending.take_dropped()), (MAX_PENDING, 3, 0));
        // An end needs no room where its beginning is there.
        let id = *pending.begun.keys().next().unwrap();
        pending.finish(end(id));
        assert_eq!(pending.take_dropped(), 0);
    }
}
