//! Which host ids a sandbox's users are. Every running sandbox has 65,536 ids of its own, so
//! that even a process that broke out of its namespaces would be nobody on the host and a
//! stranger to every other sandbox.
//!
//! The ids mean nothing on disk: disks are mounted with the ids shifted back, so a sandbox
//! may have another range each time it is started.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use emergent_types::{InstallationId, WorkspaceId};
use serde::{Deserialize, Serialize};

/// How many ids a sandbox has.
const RANGE: u32 = 1 << 16;

/// The first id given out. Above everything that customarily owns ids: users and
/// `/etc/subuid` (from 100,000 up), `systemd-nspawn` (524,288 to 0x6FFF_FFFF); and below
/// systemd's foreign range at 0x7FFE_0000 and the sign bit.
const FIRST: u32 = 0x7000_0000;

/// How many ranges there are.
const SLOTS: u32 = (0x7FFE_0000 - FIRST) / RANGE;

/// The host ids of one sandbox: its root is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UidRange {
    pub(crate) first: u32,
}

impl UidRange {
    /// How many ids are in it.
    pub(crate) const SIZE: u32 = RANGE;

    fn of_slot(slot: u32) -> Self {
        Self { first: FIRST + slot * RANGE }
    }

    /// As `/proc/<pid>/uid_map` wants it.
    pub(crate) fn as_id_map(self) -> String {
        format!("0 {} {RANGE}", self.first)
    }
}

/// Which ranges are taken.
#[derive(Debug)]
pub(crate) struct UidRanges {
    /// Where this installation starts to look, so that two installations on one host are
    /// unlikely to meet.
    start: u32,
    taken: Mutex<HashMap<WorkspaceId, UidRange>>,
}

impl UidRanges {
    pub(crate) fn new(installation: InstallationId) -> Self {
        let random = u32::from_str_radix(&installation.short(), 16).unwrap_or(0);
        Self { start: random % SLOTS, taken: Mutex::new(HashMap::new()) }
    }

    /// A range no other sandbox of this installation has; `None` when all are taken. A
    /// sandbox that has one already keeps it.
    pub(crate) fn take(&self, id: WorkspaceId) -> Option<UidRange> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(range) = taken.get(&id) {
            return Some(*range);
        }
        let in_use: HashSet<u32> = taken.values().map(|range| range.first).collect();
        let free = (0..SLOTS)
            .map(|step| UidRange::of_slot((self.start + step) % SLOTS))
            .find(|range| !in_use.contains(&range.first))?;
        taken.insert(id, free);
        Some(free)
    }

    /// Notes a range that a sandbox found on the host has.
    pub(crate) fn note(&self, id: WorkspaceId, range: UidRange) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(id, range);
    }

    /// Gives a range back, once no process has its ids.
    pub(crate) fn give_back(&self, id: WorkspaceId) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_disjoint_until_there_are_no_more() {
        let ranges = UidRanges::new(InstallationId::generate());
        let slots: Vec<_> = (0..SLOTS).map(UidRange::of_slot).collect();
        assert!(slots.iter().all(|range| range.first >= FIRST && range.first + RANGE <= 0x7FFE_0000));
        let (two, rest) = slots.split_at(2);
        rest.iter().for_each(|range| ranges.note(WorkspaceId::generate(), *range));

        let ids = [WorkspaceId::generate(), WorkspaceId::generate()];
        let given: HashSet<_> = ids.iter().map(|id| ranges.take(*id).unwrap().first).collect();
        assert_eq!(given, two.iter().map(|range| range.first).collect());
        let late = WorkspaceId::generate();
        assert_eq!(ranges.take(late), None);
        ranges.give_back(ids[1]);
        assert!(ranges.take(late).is_some());
    }

    #[test]
    fn a_sandbox_keeps_its_range() {
        let ranges = UidRanges::new(InstallationId::generate());
        let id = WorkspaceId::generate();
        assert_eq!(ranges.take(id), ranges.take(id));
    }
}
