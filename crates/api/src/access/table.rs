//! The table. Adding a row is a decision about who may do it.

use super::Access::{
    self, Administer, CallMcp, Make, ManageMcp, ManageWorkspace, Public, Read, ReadMcp, ReadWorkspace, Tools,
    Watch,
};
use super::Rule;

/// Every route with what it takes to call it.
pub(crate) const TABLE: &[Rule] = &[
    ("GET", "/healthz", Public),
    ("GET", "/readyz", Public),
    ("GET", "/api/v1/openapi.json", Public),
    ("GET", "/metrics", Watch),
    ("GET", "/api/v1/audit", Read),
    ("GET", "/api/v1/alerts", Watch),
    // Which events somebody hears is decided event by event.
    ("GET", "/api/v1/events", Read),
    // Who may make and revoke which tokens, the endpoints know.
    ("GET", "/api/v1/tokens", Read),
    ("POST", "/api/v1/tokens", Make),
    ("GET", "/api/v1/tokens/{token_id}", Read),
    ("DELETE", "/api/v1/tokens/{token_id}", Make),
    ("GET", "/api/v1/agent/workspaces", Read),
    ("POST", "/api/v1/agent/workspaces", Make),
    ("GET", "/api/v1/agent/workspaces/providers", Read),
    ("GET", "/api/v1/agent/workspaces/{id}", ReadWorkspace),
    ("GET", "/api/v1/agent/workspaces/{id}/metrics", ReadWorkspace),
    ("DELETE", "/api/v1/agent/workspaces/{id}", ManageWorkspace),
    ("POST", "/api/v1/agent/workspaces/{id}/stop", ManageWorkspace),
    ("POST", "/api/v1/agent/workspaces/{id}/resume", ManageWorkspace),
    ("POST", "/api/v1/agent/workspaces/{id}/attach", ManageWorkspace),
    ("POST", "/api/v1/agent/workspaces/{id}/detach", ManageWorkspace),
    ("GET", "/api/v1/agent/workspaces/{id}/attachments", ReadWorkspace),
    ("POST", "/api/v1/agent/workspaces/{id}/snapshot", ManageWorkspace),
    ("POST", "/api/v1/agent/workspaces/{id}/fork", ManageWorkspace),
    // Whose a snapshot is, the endpoints know.
    ("POST", "/api/v1/agent/workspaces/from-snapshot", Make),
    ("GET", "/api/v1/agent/snapshots", Read),
    ("GET", "/api/v1/agent/snapshots/{snapshot_id}", Read),
    ("DELETE", "/api/v1/agent/snapshots/{snapshot_id}", Make),
    ("GET", "/api/v1/warm-pool", Watch),
    ("PUT", "/api/v1/warm-pool", Administer),
    ("GET", "/api/v1/settings/git-hosts", Administer),
    ("PUT", "/api/v1/settings/git-hosts", Administer),
    ("DELETE", "/api/v1/settings/git-hosts", Administer),
    // Which servers a token may use, it says itself.
    ("GET", "/api/v1/mcp/servers", ReadMcp),
    ("POST", "/api/v1/mcp/servers", Administer),
    ("GET", "/api/v1/mcp/servers/{id}", ReadMcp),
    ("PATCH", "/api/v1/mcp/servers/{id}", ManageMcp),
    ("DELETE", "/api/v1/mcp/servers/{id}", ManageMcp),
    ("POST", "/api/v1/mcp/servers/{id}/restart", ManageMcp),
    ("GET", "/api/v1/mcp/servers/{id}/logs", ManageMcp),
    ("POST", "/api/v1/mcp/servers/{id}/call", CallMcp),
    ("POST", "/api/v1/mcp/servers/{id}/mcp", CallMcp),
    ("GET", "/api/v1/mcp/servers/{id}/mcp", CallMcp),
    ("DELETE", "/api/v1/mcp/servers/{id}/mcp", CallMcp),
    ("POST", "/api/v1/mcp", CallMcp),
    ("GET", "/api/v1/mcp", CallMcp),
    ("DELETE", "/api/v1/mcp", CallMcp),
    // A session's list names the tools of the contract; what else there is, is a part of one.
    ("POST", "/api/v1/agent/workspaces/{id}/bash", tool("bash")),
    ("POST", "/api/v1/agent/workspaces/{id}/exec", tool("bash")),
    ("POST", "/api/v1/agent/workspaces/{id}/read", tool("read")),
    ("POST", "/api/v1/agent/workspaces/{id}/write", tool("write")),
    ("POST", "/api/v1/agent/workspaces/{id}/edit", tool("edit")),
    ("POST", "/api/v1/agent/workspaces/{id}/glob", tool("glob")),
    ("POST", "/api/v1/agent/workspaces/{id}/grep", tool("grep")),
    ("POST", "/api/v1/agent/workspaces/{id}/git", tool("git")),
    // Which tools a client of this may list and call is decided tool by tool, by the rows above.
    ("POST", "/api/v1/agent/workspaces/{id}/mcp", Tools),
    ("GET", "/api/v1/agent/workspaces/{id}/files", part_of("read", "download")),
    ("PUT", "/api/v1/agent/workspaces/{id}/files", part_of("write", "upload")),
    ("GET", "/api/v1/agent/workspaces/{id}/watch", part_of("read", "watch")),
    ("GET", "/api/v1/agent/workspaces/{id}/terminal", part_of("bash", "terminal")),
    ("GET", "/api/v1/agent/workspaces/{id}/tunnel/{port}", part_of("bash", "tunnel")),
    ("GET", "/api/v1/agent/workspaces/{id}/processes", part_of("bash", "processes")),
    ("GET", "/api/v1/agent/workspaces/{id}/processes/{process_id}", part_of("bash", "processes")),
    ("GET", "/api/v1/agent/workspaces/{id}/processes/{process_id}/output", part_of("bash", "processes")),
    ("DELETE", "/api/v1/agent/workspaces/{id}/processes/{process_id}", part_of("bash", "processes")),
];

/// A tool of the contract.
const fn tool(name: &'static str) -> Access {
    Access::Tool { name, needs: name }
}

/// Something that whoever has the tool `needs` may do as well; it has its own name in the audit
/// log.
const fn part_of(needs: &'static str, name: &'static str) -> Access {
    Access::Tool { name, needs }
}
