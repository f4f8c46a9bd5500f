//! Changing the limits of a sandbox while it runs.
//!
//! ```text
//!  control group ─► folders that are memory ─► record
//! ```
//!
//! The record comes last and nothing waits for it: whoever starts the sandbox again is told its limits anew.

use emergent_provider::{Operation, ProviderError, SandboxSpec};
use emergent_types::{AdjustableLimits, Enforcement, ResourceLimits};

use crate::enforceable;
use crate::launch::{CPU_PERIOD, cpu_quota, max_pids};
use crate::means::{Launcher, Means};
use crate::memory_folders;
use crate::provider::{Host, KIND, step_error};
use crate::state::Observed;

impl Means {
    /// What control groups limit, they limit anew. Without root nothing is limited by them.
    pub(crate) fn adjustable(&self) -> AdjustableLimits {
        let limits = self.limits();
        let is_adjustable = |limit| self.launcher == Launcher::Root && limit == Enforcement::Enforced;
        AdjustableLimits {
            cpu: is_adjustable(limits.cpu),
            memory: is_adjustable(limits.memory),
            pids: is_adjustable(limits.pids),
        }
    }
}

impl Host {
    pub(crate) fn adjust(&self, spec: &SandboxSpec) -> Result<(), ProviderError> {
        let id = spec.id;
        let prepared = self.prepared()?;
        let (mut record, init) = match self.observe(id) {
            Observed::Running(record, init, _) => (record, init),
            Observed::Stopped(_) => return Err(ProviderError::NotRunning { provider: KIND, id }),
            Observed::Partial | Observed::Absent => {
                return Err(ProviderError::NotFound { provider: KIND, id });
            }
        };
        let adjustable = prepared.means.adjustable();
        if adjustable == AdjustableLimits::NONE || record.launcher != Launcher::Root {
            return Err(ProviderError::unsupported(KIND, Operation::Adjust, id));
        }
        enforceable::check(spec)?;
        enforceable::check_limits(&prepared.means, spec.named, record.disk)?;
        let failed = |step| move |error: std::io::Error| step_error(Operation::Adjust, id, step, error);
        let (groups, group, limits) = (&prepared.cgroups, self.layout.group(id), spec.limits);
        if adjustable.cpu {
            groups.set_cpu(&group, cpu_quota(limits.cpu), CPU_PERIOD).map_err(failed("processor"))?;
        }
        if adjustable.memory {
            groups.set_memory(&group, limits.memory.bytes()).map_err(failed("memory"))?;
            memory_folders::resize(&init, limits.memory).map_err(failed("folders that are memory"))?;
        }
        if adjustable.pids {
            groups.set_pids(&group, max_pids(limits.memory)).map_err(failed("processes"))?;
        }
        record.limits = ResourceLimits { disk: record.limits.disk, ..limits };
        record.named = spec.named;
        record.save(&self.layout.sandbox(id)).map_err(failed("record"))
    }
}
