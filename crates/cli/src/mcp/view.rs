//! Servers, for people.

use std::time::Duration;

use emergent_client::McpServer;

use crate::output::{fields, table};
use crate::workspace::view::minute;

const NOTHING: &str = "-";

/// One line a server.
pub(super) fn rows(servers: &[McpServer]) -> String {
    let row = |server: &McpServer| {
        vec![
            server.name.clone(),
            server.health.to_string(),
            server.sandbox.provider.to_string(),
            server.mode.to_string(),
            server.uptime_seconds.map_or_else(|| NOTHING.to_owned(), age),
            server.restart_count.to_string(),
            program(server),
        ]
    };
    table(&["NAME", "HEALTH", "PROVIDER", "MODE", "UPTIME", "RESTARTS", "PROGRAM"], servers.iter().map(row))
}

/// Everything about one.
pub(super) fn details(server: &McpServer) -> String {
    let sandbox = &server.sandbox;
    let mut rows = vec![
        ("name", server.name.clone()),
        ("id", sandbox.id.to_string()),
        ("health", server.health.to_string()),
        ("status", sandbox.status.to_string()),
        ("provider", sandbox.provider.to_string()),
        ("program", program(server)),
        ("mode", server.mode.to_string()),
        ("restart policy", server.restart_policy.to_string()),
        ("restarts", server.restart_count.to_string()),
        ("network", sandbox.network.to_string()),
        ("created", minute(sandbox.created_at)),
    ];
    let mut more = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    more("uptime", server.uptime_seconds.map(age));
    more("next start", server.next_start_at.map(minute));
    more("era", server.bridge.era.clone());
    more("port", server.port.map(|port| port.to_string()));
    more("path", server.path.clone());
    more("tools", server.tools_allow.as_ref().map(|names| names.join(", ")));
    more("denied tools", some(server.tools_deny.join(", ")));
    more("environment", some(server.environment_names.join(", ")));
    let volumes: Vec<_> =
        server.volumes.iter().map(|volume| format!("{}:{}", volume.name, volume.target)).collect();
    more("volumes", some(volumes.join(", ")));
    if let Some(crash) = &server.last_crash {
        more("last crash", Some(format!("{} ({})", crash.reason, minute(crash.at))));
        more("its last line", crash.stderr.last().cloned());
    }
    more("error", sandbox.error.as_ref().map(|error| error.message.clone()));
    fields(rows)
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn program(server: &McpServer) -> String {
    match (&server.command, &server.image) {
        (Some(command), Some(image)) => format!("{image}: {}", command.join(" ")),
        (Some(command), None) => command.join(" "),
        (None, image) => image.clone().unwrap_or_default(),
    }
}

fn age(seconds: u64) -> String {
    let age = Duration::from_secs(seconds).as_secs();
    match age {
        0..=119 => format!("{age} s"),
        120..=7199 => format!("{} min", age / 60),
        7200..=172_799 => format!("{} h", age / 3600),
        _ => format!("{} d", age / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages_are_short() {
        for (seconds, expect) in [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d")]
        {
            assert_eq!(age(seconds), expect);
        }
    }
}
