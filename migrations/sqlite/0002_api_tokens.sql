-- Bearer tokens. Only a SHA-256 of the token is kept: tokens are 256 random bits, so a slow
-- password hash would protect nothing and cost every request.

CREATE TABLE core_api_tokens (
    id          TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    name        TEXT    NOT NULL,
    kind        TEXT    NOT NULL CHECK (kind IN ('admin', 'user', 'read_only', 'session', 'e2b')),
    hash        BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER
) STRICT;
