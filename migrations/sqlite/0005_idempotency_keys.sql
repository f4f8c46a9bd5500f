-- Keys under which workspaces were made. They refer to nothing, because they outlive the
-- workspace: a request that is sent again after the workspace is gone must not make another.

CREATE TABLE core_idempotency_keys (
    owner_id      TEXT    NOT NULL CHECK (length(owner_id) = 36),
    key           TEXT    NOT NULL,
    -- Tells the same request from another one under the same key.
    fingerprint   BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    workspace_id  TEXT    NOT NULL UNIQUE CHECK (length(workspace_id) = 36),
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (owner_id, key)
) STRICT;

CREATE INDEX idx_idempotency_keys_by_age ON core_idempotency_keys (created_at);
