//! Copies of disks, and what they may become.

use emergent_types::{ByteSize, IsolationLevel, NetworkMode, ProviderKind, SnapshotId, WorkspaceId};

use crate::{ProviderError, SandboxSpec};

/// A copy of a sandbox's disk as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub id: SnapshotId,
    /// Whose disk it was. That sandbox may be gone.
    pub workspace: WorkspaceId,
    /// The level that sandbox had.
    pub isolation: IsolationLevel,
    /// What it could reach.
    pub network: NetworkMode,
    /// How large its disk was.
    pub disk: ByteSize,
}

impl Snapshot {
    /// Refuses what would loosen the terms under which the disk's content came about: what somebody
    /// wrote where nothing could be reached must not come to where something can.
    pub fn check_restore(
        &self,
        provider: ProviderKind,
        level: IsolationLevel,
        spec: &SandboxSpec,
    ) -> Result<(), ProviderError> {
        let refuse = |what, reason: String| Err(ProviderError::NotEnforceable { provider, what, reason });
        if level < self.isolation {
            return refuse(
                "isolation",
                format!("snapshot {} is of a sandbox with level {}", self.id, self.isolation),
            );
        }
        if spec.network == NetworkMode::Internet && self.network == NetworkMode::Isolated {
            return refuse("network", format!("snapshot {} is of a sandbox without a network", self.id));
        }
        if spec.limits.disk < self.disk {
            return refuse("disk", format!("snapshot {} is of a disk of {}", self.id, self.disk));
        }
        Ok(())
    }
}

/// What exists of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservedSnapshot {
    /// All of it.
    Whole(Snapshot),
    /// Remains of one that was not finished, or not removed to the end.
    Partial(SnapshotId),
}

impl ObservedSnapshot {
    /// Its name.
    pub fn id(&self) -> SnapshotId {
        match self {
            Self::Whole(snapshot) => snapshot.id,
            Self::Partial(id) => *id,
        }
    }
}

#[cfg(test)]
mod tests {
    use emergent_agent_client::AgentKey;
    use emergent_types::{Cpu, NamedDemands, ResourceLimits};

    use super::*;

    #[test]
    fn nothing_is_restored_with_more_reach_less_room_or_a_weaker_wall() {
        let id = WorkspaceId::generate();
        let check = |level, was, network, disk_mib, refused: Option<&str>| {
            let snapshot = Snapshot {
                id: SnapshotId::generate(),
                workspace: WorkspaceId::generate(),
                isolation: IsolationLevel::Gvisor,
                network: was,
                disk: ByteSize::from_mib(64),
            };
            let spec = SandboxSpec {
                id,
                limits: ResourceLimits {
                    cpu: Cpu::from_millis(1000),
                    memory: ByteSize::from_mib(64),
                    disk: ByteSize::from_mib(disk_mib),
                },
                network,
                base_image: None,
                named: NamedDemands::default(),
                volumes: Vec::new(),
                agent_key: AgentKey::derive(b"test", id),
            };
            let checked = snapshot.check_restore(ProviderKind::Gvisor, level, &spec);
            let what = checked.err().map(|error| match error {
                ProviderError::NotEnforceable { what, .. } => what,
                other => panic!("{other}"),
            });
            assert_eq!(what, refused, "{level} {was} {network} {disk_mib}");
        };
        use IsolationLevel::{Container, Gvisor, Microvm};
        use NetworkMode::{Internet, Isolated};
        check(Gvisor, Isolated, Isolated, 64, None);
        check(Gvisor, Internet, Internet, 128, None);
        check(Microvm, Internet, Isolated, 64, None);
        check(Container, Isolated, Isolated, 64, Some("isolation"));
        check(Gvisor, Isolated, Internet, 64, Some("network"));
        check(Gvisor, Isolated, Isolated, 63, Some("disk"));
    }
}
