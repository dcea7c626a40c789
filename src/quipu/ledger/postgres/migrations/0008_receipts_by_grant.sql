-- Receipts of one grant, those that end every grant, and those of one agent: without a walk along the whole chain.
CREATE INDEX receipt_grant ON receipt (tenant, grant_id, seq) WHERE grant_id IS NOT NULL;
CREATE INDEX receipt_kill_switch ON receipt (tenant, seq) WHERE type = 'kill_switch';
CREATE INDEX receipt_agent ON receipt (tenant, agent, seq);
