-- Copies of workspaces' disks. The row is written before the copy is made and removed after it is gone. The
-- workspace, and the token that owns the copy, may be gone before it.

CREATE TABLE kb.workspace_snapshots (
    id              UUID        PRIMARY KEY,
    workspace_id    UUID        NOT NULL,
    provider        TEXT        NOT NULL CHECK (provider IN ('e2b', 'firecracker', 'gvisor', 'docker', 'local')),
    status          TEXT        NOT NULL CHECK (status IN ('creating', 'ready', 'deleting')),
    name            TEXT,
    isolation       TEXT        NOT NULL CHECK (isolation IN ('container', 'gvisor', 'microvm')),
    network         TEXT        NOT NULL CHECK (network IN ('internet', 'isolated')),
    resource_limits JSONB       NOT NULL,
    base_image      TEXT,
    repository_url  TEXT,
    branch          TEXT,
    owner_id        UUID        REFERENCES core.api_tokens (id),
    created_at      TIMESTAMPTZ NOT NULL
);

CREATE INDEX idx_snapshots_by_owner ON kb.workspace_snapshots (owner_id, id);
CREATE INDEX idx_snapshots_by_workspace ON kb.workspace_snapshots (workspace_id, id);

-- Which sessions have worked in which workspace, one after the other.

CREATE TABLE kb.workspace_attachments (
    id           UUID        PRIMARY KEY,
    workspace_id UUID        NOT NULL REFERENCES kb.agent_workspaces (id) ON DELETE CASCADE,
    session_id   UUID        NOT NULL,
    attached_at  TIMESTAMPTZ NOT NULL,
    detached_at  TIMESTAMPTZ
);

CREATE INDEX idx_attachments_by_workspace ON kb.workspace_attachments (workspace_id, id);
CREATE UNIQUE INDEX idx_attachments_now ON kb.workspace_attachments (workspace_id) WHERE detached_at IS NULL;
