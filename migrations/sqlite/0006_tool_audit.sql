-- Every call, by whom, and what came of it. It refers to nothing, because it outlives
-- workspaces and sessions.

CREATE TABLE kb_tool_audit (
    id            TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    at            INTEGER NOT NULL,
    tool          TEXT    NOT NULL,
    workspace_id  TEXT    CHECK (length(workspace_id) = 36),
    session_id    TEXT    CHECK (length(session_id) = 36),
    caller        TEXT    CHECK (length(caller) = 36),
    request_id    TEXT    NOT NULL,
    -- NULL while it runs.
    duration_ms   INTEGER CHECK (duration_ms >= 0),
    outcome       TEXT    NOT NULL CHECK (outcome IN ('running', 'ok', 'error', 'cancelled', 'interrupted')),
    error_code    TEXT,
    summary       TEXT    NOT NULL CHECK (json_valid(summary))
) STRICT;

-- Lists, filtered and in order of time.
CREATE INDEX idx_tool_audit_by_time ON kb_tool_audit (at, id);
CREATE INDEX idx_tool_audit_by_workspace ON kb_tool_audit (workspace_id, at, id);
CREATE INDEX idx_tool_audit_by_caller ON kb_tool_audit (caller, at, id);
CREATE INDEX idx_tool_audit_by_tool ON kb_tool_audit (tool, at, id);
CREATE INDEX idx_tool_audit_by_outcome ON kb_tool_audit (outcome, at, id);
