-- Keys under which workspaces were made. They refer to nothing, because they outlive the
-- workspace: a request that is sent again after the workspace is gone must not make another.

CREATE TABLE core.idempotency_keys (
    owner_id      UUID        NOT NULL,
    key           TEXT        NOT NULL,
    -- Tells the same request from another one under the same key.
    fingerprint   BYTEA       NOT NULL CHECK (length(fingerprint) = 32),
    workspace_id  UUID        NOT NULL UNIQUE,
    created_at    TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (owner_id, key)
);

CREATE INDEX idx_idempotency_keys_by_age ON core.idempotency_keys (created_at);
