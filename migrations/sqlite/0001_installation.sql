-- What makes this database an installation of its own.
--
-- Conventions of every table here (and of the PostgreSQL migration with the same number,
-- where `kb_x` and `core_x` are `kb.x` and `core.x`):
--
-- * One file: the schema name is a prefix, because transactions over attached files are not
--   atomic under WAL.
-- * Ids are hyphenated lower-case UUIDs. As version 7 text they sort by time of creation.
-- * Times are INTEGER milliseconds since 1970 in UTC: one spelling per instant, compared and
--   indexed as numbers. RFC 3339 text has many spellings ("Z", "+00:00", any number of
--   digits), and text comparison of two spellings gives wrong answers.
-- * JSON is TEXT that `json_valid` has accepted.
-- * Columns ending in `_encrypted` are sealed: AES-256-GCM, bound to their row.
-- * A published migration is never edited; its checksum is compared on every start.

-- 'EMWS': tells this file from any other program's database.
PRAGMA application_id = 0x454D5753;

CREATE TABLE core_installation (
    only_row          INTEGER PRIMARY KEY CHECK (only_row = 1),
    id                TEXT    NOT NULL CHECK (length(id) = 36),
    secret_encrypted  BLOB    NOT NULL,
    created_at        INTEGER NOT NULL
) STRICT;
