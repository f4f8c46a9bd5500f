-- What makes this database an installation of its own.
--
-- The same numbers and the same meaning as the SQLite migrations, where `kb.x` and `core.x`
-- are `kb_x` and `core_x`; ids are UUIDs, instants are timestamps (written to the
-- millisecond), JSON is JSONB. Columns ending in `_encrypted` are sealed: AES-256-GCM, bound
-- to their row. A published migration is never edited; its checksum is compared on every start.

CREATE SCHEMA IF NOT EXISTS core;
CREATE SCHEMA IF NOT EXISTS kb;

CREATE TABLE core.installation (
    only_row          BOOLEAN     PRIMARY KEY DEFAULT true CHECK (only_row),
    id                UUID        NOT NULL,
    secret_encrypted  BYTEA       NOT NULL,
    created_at        TIMESTAMPTZ NOT NULL,
    -- Counts the servers that have used this database. Every write looks whether it is still
    -- its own server's turn, so that one that lost its lock cannot write beside the next.
    server_epoch      BIGINT      NOT NULL DEFAULT 0
);
