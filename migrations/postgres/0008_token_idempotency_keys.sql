-- Keys under which tokens were made, so that a request that is sent again makes no second one. The
-- token itself is not here: it is shown once and kept nowhere.

CREATE TABLE core.token_idempotency_keys (
    owner_id     UUID        NOT NULL,
    key          TEXT        NOT NULL,
    -- Tells the same request from another one under the same key.
    fingerprint  BYTEA       NOT NULL CHECK (length(fingerprint) = 32),
    token_id     UUID        NOT NULL UNIQUE,
    created_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (owner_id, key)
);

CREATE INDEX idx_token_idempotency_keys_by_age ON core.token_idempotency_keys (created_at);
