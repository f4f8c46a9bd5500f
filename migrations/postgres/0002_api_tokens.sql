-- Bearer tokens. Only a SHA-256 of the token is kept: tokens are 256 random bits, so a slow
-- password hash would protect nothing and cost every request.

CREATE TABLE core.api_tokens (
    id          UUID        PRIMARY KEY,
    name        TEXT        NOT NULL,
    kind        TEXT        NOT NULL CHECK (kind IN ('admin', 'user', 'read_only', 'session', 'e2b')),
    hash        BYTEA       NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at  TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    expires_at  TIMESTAMPTZ
);
