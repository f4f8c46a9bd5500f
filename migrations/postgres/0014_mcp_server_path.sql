-- Where a server that speaks HTTP itself is spoken to. NULL: /mcp.
ALTER TABLE kb.mcp_servers ADD COLUMN path TEXT;
