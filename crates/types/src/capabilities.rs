//! What a provider can do, as data.

use serde::{Deserialize, Serialize};

use crate::{ByteSize, DiskEnforcement, IsolationLevel, NetworkMode, Persistence, ResourceLimits};

/// What a provider can do on this host, now. Figures are measured, never guessed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Capabilities {
    /// The level every sandbox of this provider really has.
    pub isolation: IsolationLevel,
    /// What stop and resume keep; absent where a sandbox cannot be stopped.
    pub persistence: Option<Persistence>,
    /// Whether a stop can keep what runs (`mode` `memory`).
    pub suspend: bool,
    /// Whether snapshots can be taken and restored.
    pub snapshots: bool,
    /// Whether sandboxes can be made ahead of time and handed out.
    pub warm_pool: bool,
    /// Network modes that can be enforced.
    pub networks: Vec<NetworkMode>,
    /// Whether a request may name an image.
    pub base_image: bool,
    /// Which limits are really enforced.
    pub limits: LimitEnforcement,
    /// Which limits of a running sandbox can be changed.
    pub adjustable: AdjustableLimits,
    /// What the host must have (`"linux"`, `"root"`, `"kvm"`, `"docker"`).
    pub platform_needs: Vec<String>,
    /// What runs its sandboxes, as far as that is known; absent where nothing but the host's kernel does.
    pub runtime: Option<RuntimeFacts>,
    /// Measured over this process's own creates; absent before the first.
    pub startup_ms: Option<StartupMillis>,
    /// What is left on the host; absent where it cannot be known.
    pub free: Option<FreeResources>,
}

impl Capabilities {
    /// Whether a running sandbox of the one limits can be given the others. That of processes follows that of
    /// memory, so where it is upheld it must be adjustable too.
    pub fn can_adjust(&self, from: ResourceLimits, to: ResourceLimits) -> bool {
        let follows = self.adjustable.pids || self.limits.pids == Enforcement::NotEnforced;
        from.disk == to.disk
            && (from.cpu == to.cpu || self.adjustable.cpu)
            && (from.memory == to.memory
                || (self.adjustable.memory && follows && to.memory >= ResourceLimits::LEAST_MEMORY))
    }
}

/// The program that runs sandboxes, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuntimeFacts {
    /// Its name (`"runsc"`).
    pub name: String,
    /// Its version, by its own word; absent where it cannot be asked.
    pub version: Option<String>,
    /// How it catches what sandboxes ask of a kernel (`"systrap"`, `"kvm"`, `"ptrace"`).
    pub platform: Option<String>,
    /// Whose network stack sandboxes use: its own (`"sandbox"`) or that of their network namespace
    /// (`"host"`).
    pub network: Option<String>,
}

/// Whether one limit is upheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// The kernel or the runtime upholds it.
    Enforced,
    /// It cannot be upheld here.
    NotEnforced,
}

/// Per limit: enforced or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LimitEnforcement {
    /// CPU time.
    pub cpu: Enforcement,
    /// Memory, tmpfs included.
    pub memory: Enforcement,
    /// Number of processes.
    pub pids: Enforcement,
    /// Everything the sandbox can write.
    pub disk: DiskEnforcement,
}

/// Per limit: whether that of a running sandbox can be changed. A disk is as large as it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AdjustableLimits {
    /// CPU time.
    pub cpu: bool,
    /// Memory, and with it the sizes of folders that are memory.
    pub memory: bool,
    /// Number of processes.
    pub pids: bool,
}

impl AdjustableLimits {
    /// No limit is.
    pub const NONE: Self = Self { cpu: false, memory: false, pids: false };
    /// Every limit but that of the disk.
    pub const ALL: Self = Self { cpu: true, memory: true, pids: true };
}

/// How long creates took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StartupMillis {
    /// The median.
    pub p50: u64,
    /// 95 of 100 were faster.
    pub p95: u64,
}

/// What a host has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FreeResources {
    /// Processors of the host.
    pub cpus: u32,
    /// Memory available to new processes; absent where the host is another one than the server's.
    pub memory: Option<ByteSize>,
    /// Room on the file system that holds the sandboxes' disks; absent where that is not the server's own.
    pub disk: Option<ByteSize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cpu;

    #[test]
    fn what_can_be_adjusted() {
        let capabilities = |adjustable, pids| Capabilities {
            isolation: IsolationLevel::Container,
            persistence: None,
            suspend: false,
            snapshots: false,
            warm_pool: true,
            networks: Vec::new(),
            base_image: false,
            limits: LimitEnforcement {
                cpu: Enforcement::Enforced,
                memory: Enforcement::Enforced,
                pids,
                disk: DiskEnforcement::Hard,
            },
            adjustable,
            platform_needs: Vec::new(),
            runtime: None,
            startup_ms: None,
            free: None,
        };
        let was = ResourceLimits::WORKSPACE_DEFAULT;
        let cpu = ResourceLimits { cpu: Cpu::from_millis(500), ..was };
        let memory = ResourceLimits { memory: ByteSize::from_mib(256), ..was };
        let disk = ResourceLimits { disk: ByteSize::from_mib(256), ..was };
        let check = |adjustable, pids, expect: [bool; 4]| {
            let found = [was, cpu, memory, disk].map(|to| capabilities(adjustable, pids).can_adjust(was, to));
            assert_eq!(found, expect, "{adjustable:?}, processes {pids:?}");
        };
        let (upheld, not_upheld) = (Enforcement::Enforced, Enforcement::NotEnforced);
        check(AdjustableLimits::NONE, upheld, [true, false, false, false]);
        check(AdjustableLimits::ALL, upheld, [true, true, true, false]);
        check(AdjustableLimits { cpu: true, ..AdjustableLimits::NONE }, upheld, [true, true, false, false]);
        let without_pids = AdjustableLimits { pids: false, ..AdjustableLimits::ALL };
        check(without_pids, upheld, [true, true, false, false]);
        check(without_pids, not_upheld, [true, true, true, false]);
    }
}
