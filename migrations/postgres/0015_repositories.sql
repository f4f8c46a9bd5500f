-- The repositories of a workspace, each with where it is and how its checkout went. NULL: none.
ALTER TABLE kb.agent_workspaces ADD COLUMN repositories JSONB;
ALTER TABLE kb.workspace_snapshots ADD COLUMN repositories JSONB;

-- Tokens for git hosts that are not GitHub. A host is its scheme, name and port.
CREATE TABLE core.git_credentials (
    origin          TEXT        PRIMARY KEY,
    username        TEXT        NOT NULL,
    token_encrypted BYTEA       NOT NULL,
    owner_id        UUID        REFERENCES core.api_tokens (id),
    created_at      TIMESTAMPTZ NOT NULL
);
