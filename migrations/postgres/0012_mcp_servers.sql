-- How a hosted MCP server is run. Its sandbox is the row of the same id in kb.agent_workspaces, and goes with it.

CREATE TABLE kb.mcp_servers (
    id                    UUID        PRIMARY KEY REFERENCES kb.agent_workspaces (id) ON DELETE CASCADE,
    name                  TEXT        NOT NULL UNIQUE,
    image                 TEXT,
    -- The program and its arguments. NULL: what the image's author wants to be run.
    command               JSONB,
    -- What that is, once there is a sandbox.
    image_defaults        JSONB,
    provider              TEXT        NOT NULL,
    restart_policy        TEXT        NOT NULL,
    mode                  TEXT        NOT NULL,
    serialize             BOOLEAN     NOT NULL,
    stdio_bridge          BOOLEAN     NOT NULL,
    port                  BIGINT,
    -- NULL: all.
    tools_allow           JSONB,
    tools_deny            JSONB       NOT NULL,
    call_timeout_ms       BIGINT      NOT NULL,
    environment_encrypted BYTEA,
    created_at            TIMESTAMPTZ NOT NULL,
    updated_at            TIMESTAMPTZ NOT NULL
);

-- The hosted MCP servers that a token may use beside what its kind allows. NULL: none.
ALTER TABLE core.api_tokens ADD COLUMN mcp_servers JSONB;
