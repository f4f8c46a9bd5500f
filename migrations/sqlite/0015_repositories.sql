-- The repositories of a workspace, each with where it is and how its checkout went. NULL: none.
ALTER TABLE kb_agent_workspaces ADD COLUMN repositories TEXT CHECK (json_valid(repositories));
ALTER TABLE kb_workspace_snapshots ADD COLUMN repositories TEXT CHECK (json_valid(repositories));

-- Tokens for git hosts that are not GitHub. A host is its scheme, name and port.
CREATE TABLE core_git_credentials (
    origin          TEXT    NOT NULL PRIMARY KEY,
    username        TEXT    NOT NULL,
    token_encrypted BLOB    NOT NULL,
    owner_id        TEXT    REFERENCES core_api_tokens (id),
    created_at      INTEGER NOT NULL
) STRICT;
