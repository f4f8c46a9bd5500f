//! Figures of all workspaces together, of alerts and providers, set when they are looked at. Labels are providers
//! and kinds: there are few of them. What names a workspace is in [`each_workspace`](super::each_workspace).

use emergent_orchestrator::ProviderState;
use emergent_workspaces::{AlertKind, Handle};

use super::names;

/// Sets them all.
pub(super) fn look(workspaces: &Handle) {
    for totals in workspaces.usage_totals() {
        let provider = totals.provider.as_str();
        let (all, idle) = (totals.all, totals.idle);
        metrics::gauge!(names::WORKSPACES_CPU, "provider" => provider).set(all.cpu_cores);
        metrics::gauge!(names::WORKSPACES_MEMORY, "provider" => provider).set(all.memory_bytes as f64);
        metrics::gauge!(names::WORKSPACES_DISK, "provider" => provider).set(all.disk_bytes as f64);
        metrics::gauge!(names::IDLE_WORKSPACES, "provider" => provider).set(idle.workspaces);
        metrics::gauge!(names::RESTING_WORKSPACES, "provider" => provider).set(totals.resting);
        let (cpu, memory) = idle.mean().unwrap_or_default();
        metrics::gauge!(names::IDLE_CPU, "provider" => provider).set(cpu);
        metrics::gauge!(names::IDLE_MEMORY, "provider" => provider).set(memory);
    }
    let active = workspaces.alerts();
    for kind in AlertKind::ALL {
        let count = active.iter().filter(|alert| alert.kind == kind).count();
        metrics::gauge!(names::ALERTS, "kind" => kind.as_str()).set(count as f64);
    }
    for (kind, times) in workspaces.alerts_raised() {
        metrics::counter!(names::ALERTS_RAISED, "kind" => kind.as_str()).absolute(times);
    }
    for (provider, state) in workspaces.provider_states() {
        let healthy = if state == ProviderState::Healthy { 1.0 } else { 0.0 };
        metrics::gauge!(names::PROVIDER_HEALTHY, "provider" => provider.as_str()).set(healthy);
    }
    for (provider, state, times) in workspaces.provider_state_changes() {
        metrics::counter!(names::PROVIDER_STATE_CHANGES, "provider" => provider, "state" => state)
            .absolute(times);
    }
}
