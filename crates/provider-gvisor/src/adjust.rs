//! Changing the limits of a container while it runs: processor time, under Docker's own runtime.
//!
//! Under `runsc` nothing is: it knows no `update`, and memory is limited by init, which is told once. Memory under
//! Docker's own runtime is not either, because the folders that are memory keep the sizes they were made with: in
//! a smaller sandbox one file in `/tmp` would take everything there is.

use bollard::models::{ContainerInspectResponse, ContainerUpdateBody};
use emergent_provider::{Operation, ProviderError, SandboxSpec};
use emergent_types::{AdjustableLimits, Cpu};

use crate::containers::{self, Condition};
use crate::engine::EngineError;
use crate::host::Host;
use crate::options::Runtime;

/// How long one turn on the processors is, in microseconds.
const CPU_PERIOD: i64 = 100_000;

impl Host {
    pub(crate) fn adjustable(&self) -> AdjustableLimits {
        AdjustableLimits { cpu: self.options.runtime == Runtime::Default, ..AdjustableLimits::NONE }
    }

    /// See [`WorkspaceProvider::adjust`](emergent_provider::WorkspaceProvider::adjust).
    pub(crate) async fn adjust(&self, spec: &SandboxSpec) -> Result<(), ProviderError> {
        let id = spec.id;
        if self.adjustable() == AdjustableLimits::NONE {
            return Err(ProviderError::unsupported(self.kind(), Operation::Adjust, id));
        }
        let failed = |step| move |error: EngineError| self.docker_step(Operation::Adjust, id, step)(error);
        let docker = self.docker().await?;
        let name = self.names.container(id);
        let seen = containers::look(&docker, &name).await.map_err(failed("look for its container"))?;
        match seen {
            Some(seen) if seen.condition == Condition::Running => {
                let host_cpus = self.probe.seen().map(|engine| engine.cpus);
                let wanted = processor_time(&seen.raw, spec.limits.cpu, host_cpus);
                let updated = docker.update_container(&name, wanted).await;
                updated.map_err(EngineError::from).map_err(failed("update its container"))
            }
            _ => match self.has_disk(&docker, id).await.map_err(failed("look for its volume"))? {
                true => Err(self.not_running(id)),
                false => Err(self.not_found(id)),
            },
        }
    }
}

/// In the words in which the container was made: Docker refuses to change from one to the other, and more
/// processors than there are, where all there are is the same.
fn processor_time(
    container: &ContainerInspectResponse,
    cpu: Cpu,
    host_cpus: Option<u32>,
) -> ContainerUpdateBody {
    let millis = i64::from(cpu.millis());
    let by_quota =
        container.host_config.as_ref().and_then(|made| made.cpu_quota).is_some_and(|quota| quota > 0);
    if by_quota {
        let cpu_quota = Some(millis * CPU_PERIOD / 1000);
        return ContainerUpdateBody {
            cpu_period: Some(CPU_PERIOD),
            cpu_quota,
            ..ContainerUpdateBody::default()
        };
    }
    let most = host_cpus.map_or(i64::MAX, |cpus| i64::from(cpus) * 1000);
    ContainerUpdateBody { nano_cpus: Some(millis.min(most) * 1_000_000), ..ContainerUpdateBody::default() }
}

#[cfg(test)]
mod tests {
    use bollard::models::HostConfig;

    use super::*;

    #[test]
    fn a_container_is_changed_in_the_words_it_was_made_in() {
        let made = |host_config| ContainerInspectResponse {
            host_config: Some(host_config),
            ..ContainerInspectResponse::default()
        };
        let check = |container: &ContainerInspectResponse, millis, cpus, expect: [Option<i64>; 3]| {
            let said = processor_time(container, Cpu::from_millis(millis), cpus);
            assert_eq!([said.nano_cpus, said.cpu_period, said.cpu_quota], expect, "{millis} of {cpus:?}");
        };
        let nano = made(HostConfig { nano_cpus: Some(2_000_000_000), ..HostConfig::default() });
        check(&nano, 500, Some(2), [Some(500_000_000), None, None]);
        check(&nano, 8000, Some(2), [Some(2_000_000_000), None, None]);
        check(&nano, 8000, None, [Some(8_000_000_000), None, None]);
        let quota = made(HostConfig {
            cpu_period: Some(100_000),
            cpu_quota: Some(400_000),
            nano_cpus: Some(0),
            ..HostConfig::default()
        });
        check(&quota, 500, Some(2), [None, Some(100_000), Some(50_000)]);
        check(&quota, 8000, Some(2), [None, Some(100_000), Some(800_000)]);
    }
}
