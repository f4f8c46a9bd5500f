-- Every call, by whom, and what came of it. It refers to nothing, because it outlives
-- workspaces and sessions.

CREATE TABLE kb.tool_audit (
    id            UUID        PRIMARY KEY,
    at            TIMESTAMPTZ NOT NULL,
    tool          TEXT        NOT NULL,
    workspace_id  UUID,
    session_id    UUID,
    caller        UUID,
    request_id    TEXT        NOT NULL,
    -- NULL while it runs.
    duration_ms   BIGINT      CHECK (duration_ms >= 0),
    outcome       TEXT        NOT NULL CHECK (outcome IN ('running', 'ok', 'error', 'cancelled', 'interrupted')),
    error_code    TEXT,
    summary       JSONB       NOT NULL
);

-- Lists, filtered and in order of time.
CREATE INDEX idx_tool_audit_by_time ON kb.tool_audit (at, id);
CREATE INDEX idx_tool_audit_by_workspace ON kb.tool_audit (workspace_id, at, id);
CREATE INDEX idx_tool_audit_by_caller ON kb.tool_audit (caller, at, id);
CREATE INDEX idx_tool_audit_by_tool ON kb.tool_audit (tool, at, id);
CREATE INDEX idx_tool_audit_by_outcome ON kb.tool_audit (outcome, at, id);
