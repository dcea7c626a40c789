-- Without the id: what was created at the same moment and written by the same commit is sorted when it is read.
DROP INDEX record_created;
CREATE INDEX record_created ON record (tenant, agent_id, created_at, born);
