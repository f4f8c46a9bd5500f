-- Keys under which snapshots were made. They refer to nothing, because they outlive the snapshot: a request
-- that is sent again after the snapshot is gone must not make another.

CREATE TABLE core.snapshot_idempotency_keys (
    owner_id     UUID        NOT NULL,
    key          TEXT        NOT NULL,
    -- Tells the same request from another one under the same key.
    fingerprint  BYTEA       NOT NULL CHECK (length(fingerprint) = 32),
    snapshot_id  UUID        NOT NULL UNIQUE,
    created_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (owner_id, key)
);

CREATE INDEX idx_snapshot_idempotency_keys_by_age ON core.snapshot_idempotency_keys (created_at);
