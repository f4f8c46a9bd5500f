//! What may be worth an alert, as it is now.

use emergent_orchestrator::ProviderState;
use emergent_types::WorkspaceStatus;
use time::OffsetDateTime;

use super::{Alert, AlertKind, CRITICAL, HYSTERESIS, Severity};
use crate::service::{Context, Entry};
use crate::usage;

/// Something that may be worth an alert.
pub(super) struct Condition {
    pub(super) id: String,
    pub(super) kind: AlertKind,
    pub(super) message: String,
    /// How much there is and how much is too much, in per cent; `None` where it is so without any measure.
    pub(super) value: Option<(f64, f64)>,
}

impl Condition {
    /// Whether it is worth an alert; one that is raised already stays a little longer.
    pub(super) fn holds(&self, raised: bool) -> bool {
        let Some((value, threshold)) = self.value else { return true };
        value >= if raised { threshold - HYSTERESIS } else { threshold }
    }

    pub(super) fn into_alert(self, since: OffsetDateTime) -> Alert {
        let severity = match self.value {
            Some((value, _)) if value < CRITICAL => Severity::Warning,
            _ => Severity::Critical,
        };
        Alert {
            id: self.id,
            kind: self.kind,
            severity,
            message: self.message,
            since,
            value: self.value.map(|(value, _)| value),
            threshold: self.value.map(|(_, threshold)| threshold),
        }
    }
}

/// All that is known now.
pub(super) fn now(context: &Context) -> Vec<Condition> {
    let mut conditions = of_host(context);
    conditions.extend(of_providers(context));
    conditions.extend(of_servers(context));
    let threshold = f64::from(context.options.alert_percent);
    context.registry.with_all(|entries| {
        conditions.extend(entries.filter_map(|entry| of_disk(entry, threshold)));
    });
    conditions
}

fn of_host(context: &Context) -> Vec<Condition> {
    let (host, threshold) = (context.options.host, f64::from(context.options.alert_percent));
    let used = usage::of_this_host(context);
    let bytes = |used: u64, has: Option<u64>| has.map(|has| (used as f64, has as f64));
    [
        (AlertKind::HostCpu, "processors", host.cpus.map(|cpus| (used.cpu_cores, cpus))),
        (AlertKind::HostMemory, "memory", bytes(used.memory_bytes, host.memory_bytes)),
        (AlertKind::HostDisk, "disk", bytes(used.disk_bytes, host.disk_bytes)),
    ]
    .into_iter()
    .filter_map(|(kind, what, figures)| {
        let (used, has) = figures.filter(|(_, has)| *has > 0.0)?;
        let percent = used / has * 100.0;
        Some(Condition {
            id: kind.to_string(),
            kind,
            message: format!("workspaces use {percent:.0} % of this host's {what}"),
            value: Some((percent, threshold)),
        })
    })
    .collect()
}

fn of_providers(context: &Context) -> impl Iterator<Item = Condition> {
    context.orchestrator.states().into_iter().filter_map(|(provider, state)| {
        let ProviderState::Unhealthy(reason) = state else { return None };
        let kind = AlertKind::ProviderUnhealthy;
        Some(Condition {
            id: format!("{kind}:{provider}"),
            kind,
            message: format!("provider {provider} is unhealthy: {reason}"),
            value: None,
        })
    })
}

fn of_servers(context: &Context) -> impl Iterator<Item = Condition> {
    context.alerts.troubled_servers().into_iter().map(|(name, trouble)| {
        let kind = AlertKind::McpServer;
        Condition {
            id: format!("{kind}:{name}"),
            kind,
            message: format!("MCP server {name} {trouble}"),
            value: None,
        }
    })
}

/// How full the disk of a running workspace is, where that is known.
fn of_disk(entry: &Entry, threshold: f64) -> Option<Condition> {
    let (status, limit) = {
        let row = entry.view.borrow();
        (row.status, row.resource_limits.disk)
    };
    if status != WorkspaceStatus::Ready {
        return None;
    }
    let percent = match entry.presence.disk.found() {
        Some(found) => found.percent() as f64,
        None => {
            let bytes = entry.presence.usage.latest()?.usage.disk_bytes?;
            bytes as f64 / limit.bytes().max(1) as f64 * 100.0
        }
    };
    let kind = AlertKind::WorkspaceDisk;
    Some(Condition {
        id: format!("{kind}:{}", entry.id),
        kind,
        message: format!("{percent:.0} % of the disk of workspace {} ({limit}) are used", entry.id),
        value: Some((percent, threshold)),
    })
}
