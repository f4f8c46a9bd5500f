-- Which limits, and whether the network, the request itself named; the others were defaults. What
-- is named and cannot be enforced is refused, also when a create that was cut off is begun again.
-- NULL: the row is older than this column.

ALTER TABLE kb_agent_workspaces ADD COLUMN named_demands TEXT CHECK (json_valid(named_demands));
