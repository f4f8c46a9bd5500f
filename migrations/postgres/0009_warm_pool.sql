-- Sandboxes that are made ahead of time have rows like any other and belong to a pool until somebody gets
-- them. They take no place under the concurrency limit.

ALTER TABLE kb.agent_workspaces ADD COLUMN warm_pool TEXT;

DROP INDEX kb.idx_workspaces_active;
CREATE INDEX idx_workspaces_active ON kb.agent_workspaces (status)
    WHERE container_type = 'agent_workspace' AND status IN ('creating', 'ready', 'stopping', 'resuming')
      AND warm_pool IS NULL;

-- Whoever gets one that was made before has a workspace that is new: lists are in order of creation, and
-- ids are not any more.
DROP INDEX kb.idx_workspaces_by_status;
DROP INDEX kb.idx_workspaces_by_container_type;
DROP INDEX kb.idx_workspaces_by_provider;
DROP INDEX kb.idx_workspaces_by_owner;
CREATE INDEX idx_workspaces_by_age ON kb.agent_workspaces (created_at, id);
CREATE INDEX idx_workspaces_by_status ON kb.agent_workspaces (status, created_at, id);
CREATE INDEX idx_workspaces_by_container_type ON kb.agent_workspaces (container_type, created_at, id);
CREATE INDEX idx_workspaces_by_provider ON kb.agent_workspaces (provider, created_at, id);
CREATE INDEX idx_workspaces_by_owner ON kb.agent_workspaces (owner_id, created_at, id);

-- What an administrator has set while the server ran.
CREATE TABLE core.settings (
    name       TEXT        PRIMARY KEY,
    value      JSONB       NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
