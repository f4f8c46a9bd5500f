//! What somebody should look at: raised when it begins, cleared when it is over.
//!
//! ```text
//!   totals of this host, disks, states of providers ─► conditions ─► raised, kept or cleared
//!                                                                     └─ log, events, metrics
//! ```

mod conditions;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use emergent_orchestrator::{ProviderState, StateChange};
use emergent_types::ProviderKind;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::sync::broadcast::error::RecvError;

use self::conditions::Condition;
use crate::Handle;
use crate::events::{Event, Subject};
use crate::service::Context;

/// How far a value must fall below its threshold until the alert is over: one that goes up and down a
/// little is not news each time.
const HYSTERESIS: f64 = 5.0;

/// From here on it is serious.
const CRITICAL: f64 = 95.0;

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertKind {
    /// Workspaces use most of this host's processors.
    HostCpu,
    /// Workspaces use most of this host's memory.
    HostMemory,
    /// Workspaces use most of the disk they are kept on.
    HostDisk,
    /// A provider does not work.
    ProviderUnhealthy,
    /// A workspace's disk is nearly full.
    WorkspaceDisk,
    /// A hosted MCP server ends again and again, or does not answer.
    McpServer,
}

impl AlertKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::HostCpu,
        Self::HostMemory,
        Self::HostDisk,
        Self::ProviderUnhealthy,
        Self::WorkspaceDisk,
        Self::McpServer,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HostCpu => "host_cpu",
            Self::HostMemory => "host_memory",
            Self::HostDisk => "host_disk",
            Self::ProviderUnhealthy => "provider_unhealthy",
            Self::WorkspaceDisk => "workspace_disk",
            Self::McpServer => "mcp_server",
        }
    }
}

impl fmt::Display for AlertKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It works, and may soon not.
    Warning,
    /// Something does not work, or is about not to.
    Critical,
}

impl Severity {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Something that somebody should look at.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// Names it as long as it lasts: its kind, and what it is about.
    pub id: String,
    /// What it is about.
    pub kind: AlertKind,
    /// How much it matters now.
    pub severity: Severity,
    /// For people.
    pub message: String,
    /// When it was raised.
    pub since: OffsetDateTime,
    /// How much it is now, in per cent; `None` where it is not a matter of more or less.
    pub value: Option<f64>,
    /// From how much on.
    pub threshold: Option<f64>,
}

/// The alerts of this installation.
#[derive(Default)]
pub(crate) struct Alerts {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    active: BTreeMap<String, Alert>,
    raised: BTreeMap<AlertKind, u64>,
    /// What is wrong with MCP servers, by name, as whoever hosts them says.
    servers: BTreeMap<String, String>,
}

/// What a look at the conditions changed.
#[derive(Debug, PartialEq)]
enum Change {
    Raised(Alert),
    Cleared(Alert),
}

impl Alerts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn active(&self) -> Vec<Alert> {
        self.state().active.values().cloned().collect()
    }

    /// What is wrong with MCP servers, by name.
    fn troubled_servers(&self) -> BTreeMap<String, String> {
        self.state().servers.clone()
    }

    /// How often each kind was raised.
    pub(crate) fn times_raised(&self) -> Vec<(AlertKind, u64)> {
        let state = self.state();
        AlertKind::ALL.iter().map(|kind| (*kind, state.raised.get(kind).copied().unwrap_or(0))).collect()
    }
}

impl State {
    /// Compares what is with what was. What is no condition any more is over.
    fn judge(&mut self, conditions: Vec<Condition>, now: OffsetDateTime) -> Vec<Change> {
        let mut before = std::mem::take(&mut self.active);
        let mut changes = Vec::new();
        for condition in conditions {
            let known = before.remove(&condition.id);
            if !condition.holds(known.is_some()) {
                changes.extend(known.map(Change::Cleared));
                continue;
            }
            let alert = condition.into_alert(known.as_ref().map_or(now, |known| known.since));
            if known.is_none() {
                *self.raised.entry(alert.kind).or_default() += 1;
                changes.push(Change::Raised(alert.clone()));
            }
            self.active.insert(alert.id.clone(), alert);
        }
        changes.extend(before.into_values().map(Change::Cleared));
        changes
    }
}

/// Looks at everything that may be worth an alert.
pub(crate) fn look(context: &Context) {
    let conditions = conditions::now(context);
    // Held until all is told, so that nobody hears of the end of an alert before its beginning.
    let mut state = context.alerts.state();
    for change in state.judge(conditions, emergent_store::now()) {
        let (kind, alert) = match &change {
            Change::Raised(alert) => {
                tracing::warn!(alert = alert.id, "alert {} is raised: {}", alert.id, alert.message);
                ("alert.raised", alert)
            }
            Change::Cleared(alert) => {
                tracing::info!(alert = alert.id, "alert {} is over", alert.id);
                ("alert.cleared", alert)
            }
        };
        context.events.publish(Event { kind, about: Subject::Installation, data: describe(alert) });
    }
}

fn describe(alert: &Alert) -> Value {
    json!({
        "alert_id": alert.id,
        "kind": alert.kind.as_str(),
        "severity": alert.severity.as_str(),
        "message": alert.message,
        "value": alert.value,
        "threshold": alert.threshold,
    })
}

/// Tells of every change of a provider's state for ever, and looks at the alerts when there is one.
pub(crate) async fn watch_providers(context: Arc<Context>) {
    let mut changes = context.orchestrator.changes();
    // A provider may have been away from the beginning.
    look(&context);
    loop {
        match changes.recv().await {
            Ok(StateChange { provider, from, to }) => {
                let data = json!({
                    "name": provider.as_str(),
                    "from": from,
                    "status": to.as_str(),
                    "reason": to.reason(),
                });
                context.events.publish(Event { kind: "provider.state", about: Subject::Installation, data });
            }
            // There were more than anybody could follow; the state is what it is.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
        look(&context);
    }
}

impl Handle {
    /// What somebody should look at now, by id.
    pub fn alerts(&self) -> Vec<Alert> {
        self.context().alerts.active()
    }

    /// Says what is wrong with an MCP server, or that nothing is.
    pub fn report_server(&self, name: &str, trouble: Option<String>) {
        {
            let mut state = self.context().alerts.state();
            match trouble {
                Some(trouble) => drop(state.servers.insert(name.to_owned(), trouble)),
                None => drop(state.servers.remove(name)),
            }
        }
        look(self.context());
    }

    /// How often alerts of each kind were raised.
    pub fn alerts_raised(&self) -> Vec<(AlertKind, u64)> {
        self.context().alerts.times_raised()
    }

    /// The state of every provider that is used.
    pub fn provider_states(&self) -> Vec<(ProviderKind, ProviderState)> {
        self.context().orchestrator.states()
    }

    /// How often each provider came into each state: its name, the state's and how often.
    pub fn provider_state_changes(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.context().orchestrator.times_entered()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(value: f64) -> Condition {
        Condition {
            id: "host_cpu".to_owned(),
            kind: AlertKind::HostCpu,
            message: format!("{value} %"),
            value: Some((value, 80.0)),
        }
    }

    #[test]
    fn an_alert_lasts_until_the_value_is_well_below_its_threshold() {
        let mut state = State::default();
        let begin = emergent_store::now();
        let mut judge = |values: &[f64], later: i64| {
            let conditions = values.iter().map(|value| condition(*value)).collect();
            state.judge(conditions, begin + time::Duration::seconds(later))
        };
        assert_eq!(judge(&[79.9], 0), []);
        assert!(
            matches!(&judge(&[80.1], 1)[..], [Change::Raised(alert)] if alert.severity == Severity::Warning)
        );
        assert_eq!(judge(&[96.0], 2), [], "the same one");
        assert_eq!(judge(&[75.1], 3), [], "not well below");
        assert!(matches!(&judge(&[74.9], 4)[..], [Change::Cleared(_)]));
        assert_eq!(judge(&[79.9], 5), []);
        assert!(matches!(&judge(&[99.0], 6)[..], [Change::Raised(alert)]
            if alert.severity == Severity::Critical && alert.since == begin + time::Duration::seconds(6)));
        assert!(matches!(&judge(&[], 7)[..], [Change::Cleared(_)]), "what is not there any more is over");
        assert_eq!(state.raised.get(&AlertKind::HostCpu), Some(&2));
        assert!(state.active.is_empty());
    }
}
