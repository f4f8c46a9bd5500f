-- The GitHub App that this installation acts as. The columns are those of the founding design, but for two:
-- whoever sets the app up without a browser has no webhook secret (webhooks are refused then), and people
-- are known by their tokens here.

CREATE TABLE core.github_app_config (
    id                       UUID        PRIMARY KEY DEFAULT gen_random_uuid(),
    app_id                   BIGINT      NOT NULL,
    app_slug                 TEXT        NOT NULL,
    private_key_encrypted    BYTEA       NOT NULL,
    webhook_secret_encrypted BYTEA,
    -- NULL until the app is installed somewhere.
    installation_id          BIGINT,
    installation_org         TEXT,
    owner_id                 UUID        REFERENCES core.api_tokens (id),
    created_at               TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at               TIMESTAMPTZ NOT NULL DEFAULT NOW()
);
