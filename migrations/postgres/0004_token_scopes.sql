-- Who made a token, whether it is still accepted, and what a session's token is for.

ALTER TABLE core.api_tokens ADD COLUMN owner_id UUID REFERENCES core.api_tokens (id);
ALTER TABLE core.api_tokens ADD COLUMN revoked_at TIMESTAMPTZ;
-- No reference: a token outlives its workspace, and is then good for nothing.
ALTER TABLE core.api_tokens ADD COLUMN session_workspace_id UUID;
-- NULL: every tool.
ALTER TABLE core.api_tokens ADD COLUMN session_tools JSONB
    CHECK (session_tools IS NULL OR session_workspace_id IS NOT NULL);

-- Lists of what a token has made, in order of creation; and what goes with it when it is revoked.
CREATE INDEX idx_tokens_by_owner ON core.api_tokens (owner_id, id);
