-- The GitHub App that this installation acts as. The columns are those of the founding design, but for two:
-- whoever sets the app up without a browser has no webhook secret (webhooks are refused then), and people
-- are known by their tokens here.

CREATE TABLE core_github_app_config (
    id                       TEXT    NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    app_id                   INTEGER NOT NULL,
    app_slug                 TEXT    NOT NULL,
    private_key_encrypted    BLOB    NOT NULL,
    webhook_secret_encrypted BLOB,
    -- NULL until the app is installed somewhere.
    installation_id          INTEGER,
    installation_org         TEXT,
    owner_id                 TEXT    REFERENCES core_api_tokens (id),
    created_at               INTEGER NOT NULL,
    updated_at               INTEGER NOT NULL
) STRICT;
