-- How a hosted MCP server is run. Its sandbox is the row of the same id in kb_agent_workspaces, and goes with it.

CREATE TABLE kb_mcp_servers (
    id                    TEXT    NOT NULL PRIMARY KEY REFERENCES kb_agent_workspaces (id) ON DELETE CASCADE,
    name                  TEXT    NOT NULL UNIQUE,
    image                 TEXT,
    -- The program and its arguments. NULL: what the image's author wants to be run.
    command               TEXT    CHECK (json_valid(command)),
    -- What that is, once there is a sandbox.
    image_defaults        TEXT    CHECK (json_valid(image_defaults)),
    provider              TEXT    NOT NULL,
    restart_policy        TEXT    NOT NULL,
    mode                  TEXT    NOT NULL,
    serialize             INTEGER NOT NULL,
    stdio_bridge          INTEGER NOT NULL,
    port                  INTEGER,
    -- NULL: all.
    tools_allow           TEXT    CHECK (json_valid(tools_allow)),
    tools_deny            TEXT    NOT NULL CHECK (json_valid(tools_deny)),
    call_timeout_ms       INTEGER NOT NULL,
    environment_encrypted BLOB,
    created_at            INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL
) STRICT;

-- The hosted MCP servers that a token may use beside what its kind allows. NULL: none.
ALTER TABLE core_api_tokens ADD COLUMN mcp_servers TEXT CHECK (json_valid(mcp_servers));
