-- Keys under which tokens were made, so that a request that is sent again makes no second one. The
-- token itself is not here: it is shown once and kept nowhere.

CREATE TABLE core_token_idempotency_keys (
    owner_id     TEXT    NOT NULL CHECK (length(owner_id) = 36),
    key          TEXT    NOT NULL,
    -- Tells the same request from another one under the same key.
    fingerprint  BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    token_id     TEXT    NOT NULL UNIQUE CHECK (length(token_id) = 36),
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (owner_id, key)
) STRICT;

CREATE INDEX idx_token_idempotency_keys_by_age ON core_token_idempotency_keys (created_at);
