-- Who made a token, whether it is still accepted, and what a session's token is for.

ALTER TABLE core_api_tokens ADD COLUMN owner_id TEXT REFERENCES core_api_tokens (id);
ALTER TABLE core_api_tokens ADD COLUMN revoked_at INTEGER;
-- No reference: a token outlives its workspace, and is then good for nothing.
ALTER TABLE core_api_tokens ADD COLUMN session_workspace_id TEXT CHECK (length(session_workspace_id) = 36);
-- NULL: every tool.
ALTER TABLE core_api_tokens ADD COLUMN session_tools TEXT
    CHECK (session_tools IS NULL OR (session_workspace_id IS NOT NULL AND json_valid(session_tools)));

-- Lists of what a token has made, in order of creation; and what goes with it when it is revoked.
CREATE INDEX idx_tokens_by_owner ON core_api_tokens (owner_id, id);
