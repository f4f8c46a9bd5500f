-- Keys under which snapshots were made. They refer to nothing, because they outlive the snapshot: a request
-- that is sent again after the snapshot is gone must not make another.

CREATE TABLE core_snapshot_idempotency_keys (
    owner_id     TEXT    NOT NULL CHECK (length(owner_id) = 36),
    key          TEXT    NOT NULL,
    -- Tells the same request from another one under the same key.
    fingerprint  BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    snapshot_id  TEXT    NOT NULL UNIQUE CHECK (length(snapshot_id) = 36),
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (owner_id, key)
) STRICT;

CREATE INDEX idx_snapshot_idempotency_keys_by_age ON core_snapshot_idempotency_keys (created_at);
