-- Copies of workspaces' disks. The row is written before the copy is made and removed after it is gone. The
-- workspace, and the token that owns the copy, may be gone before it.

CREATE TABLE kb_workspace_snapshots (
    id              TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    workspace_id    TEXT    NOT NULL CHECK (length(workspace_id) = 36),
    provider        TEXT    NOT NULL CHECK (provider IN ('e2b', 'firecracker', 'gvisor', 'docker', 'local')),
    status          TEXT    NOT NULL CHECK (status IN ('creating', 'ready', 'deleting')),
    name            TEXT,
    isolation       TEXT    NOT NULL CHECK (isolation IN ('container', 'gvisor', 'microvm')),
    network         TEXT    NOT NULL CHECK (network IN ('internet', 'isolated')),
    resource_limits TEXT    NOT NULL CHECK (json_valid(resource_limits)),
    base_image      TEXT,
    repository_url  TEXT,
    branch          TEXT,
    owner_id        TEXT    REFERENCES core_api_tokens (id),
    created_at      INTEGER NOT NULL
) STRICT;

CREATE INDEX idx_snapshots_by_owner ON kb_workspace_snapshots (owner_id, id);
CREATE INDEX idx_snapshots_by_workspace ON kb_workspace_snapshots (workspace_id, id);

-- Which sessions have worked in which workspace, one after the other.

CREATE TABLE kb_workspace_attachments (
    id           TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    workspace_id TEXT    NOT NULL REFERENCES kb_agent_workspaces (id) ON DELETE CASCADE,
    session_id   TEXT    NOT NULL CHECK (length(session_id) = 36),
    attached_at  INTEGER NOT NULL,
    detached_at  INTEGER
) STRICT;

CREATE INDEX idx_attachments_by_workspace ON kb_workspace_attachments (workspace_id, id);
CREATE UNIQUE INDEX idx_attachments_now ON kb_workspace_attachments (workspace_id) WHERE detached_at IS NULL;
