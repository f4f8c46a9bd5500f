-- Agent workspaces and hosted MCP servers: one table, because they share one lifecycle. The
-- first columns are those of the founding design, as it has them.

CREATE TABLE kb.agent_workspaces (
    id                     UUID        PRIMARY KEY,
    -- Becomes a reference when kb.agent_sessions exists.
    agent_session_id       UUID,
    container_type         TEXT        NOT NULL CHECK (container_type IN ('agent_workspace', 'mcp_server')),
    provider               TEXT        NOT NULL
                                       CHECK (provider IN ('e2b', 'firecracker', 'gvisor', 'docker', 'local')),
    -- The provider's own name. The row is written before the provider is asked; until it has
    -- answered, this is the workspace's id, from which every resource's name derives.
    provider_workspace_id  TEXT        NOT NULL,
    repository_url         TEXT,
    branch                 TEXT,
    deployment_mode        TEXT        NOT NULL CHECK (deployment_mode IN ('managed', 'self-hosted')),
    lifecycle              TEXT        NOT NULL CHECK (lifecycle IN ('ephemeral', 'persistent')),
    status                 TEXT        NOT NULL
                                       CHECK (status IN ('creating', 'ready', 'stopping', 'stopped',
                                                         'resuming', 'destroying', 'failed')),
    created_at             TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    last_used_at           TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    -- NULL: never. What is persistent has no end.
    expires_at             TIMESTAMPTZ CHECK (expires_at IS NULL OR lifecycle = 'ephemeral'),
    resource_limits        JSONB,
    snapshot_id            TEXT,
    mcp_config             JSONB,
    metadata               JSONB,

    -- What was asked for. The defaults are for rows that are written by hand.
    requested_provider     TEXT        NOT NULL DEFAULT 'auto'
                                       CHECK (requested_provider IN ('auto', 'e2b', 'firecracker', 'gvisor',
                                                                     'docker', 'local')),
    min_isolation          TEXT        NOT NULL DEFAULT 'container'
                                       CHECK (min_isolation IN ('container', 'gvisor', 'microvm')),
    network                TEXT        NOT NULL DEFAULT 'isolated' CHECK (network IN ('internet', 'isolated')),
    base_image             TEXT,
    ttl_seconds            BIGINT      CHECK (ttl_seconds >= 0),
    environment_encrypted  BYTEA,
    owner_id               UUID        REFERENCES core.api_tokens (id),

    -- What there is. NULL until a sandbox has been made.
    isolation              TEXT        CHECK (isolation IN ('container', 'gvisor', 'microvm')),
    persistence            TEXT        CHECK (persistence IN ('full', 'home')),
    disk_enforcement       TEXT        CHECK (disk_enforcement IN ('hard', 'monitored')),

    -- What happened.
    attempts               JSONB       NOT NULL DEFAULT '[]',
    warnings               JSONB       NOT NULL DEFAULT '[]',
    error                  JSONB,
    resume_attempts        BIGINT      NOT NULL DEFAULT 0 CHECK (resume_attempts >= 0),
    -- Whether its creation was answered before there was a sandbox.
    acknowledged           BOOLEAN     NOT NULL DEFAULT true
);

-- MCP servers that should be running.
CREATE INDEX idx_workspaces_persistent ON kb.agent_workspaces (container_type, lifecycle, status)
    WHERE container_type = 'mcp_server' AND lifecycle = 'persistent';

-- What counts against the concurrency limit: never more rows than the limit allows, so that
-- claiming a place stays cheap however many stopped workspaces there are.
CREATE INDEX idx_workspaces_active ON kb.agent_workspaces (status)
    WHERE container_type = 'agent_workspace' AND status IN ('creating', 'ready', 'stopping', 'resuming');

-- What the sweeper looks for.
CREATE INDEX idx_workspaces_expiry ON kb.agent_workspaces (expires_at)
    WHERE lifecycle = 'ephemeral' AND expires_at IS NOT NULL;

-- Lists, filtered and in order of creation.
CREATE INDEX idx_workspaces_by_status ON kb.agent_workspaces (status, id);
CREATE INDEX idx_workspaces_by_container_type ON kb.agent_workspaces (container_type, id);
CREATE INDEX idx_workspaces_by_provider ON kb.agent_workspaces (provider, id);
CREATE INDEX idx_workspaces_by_owner ON kb.agent_workspaces (owner_id, id);
