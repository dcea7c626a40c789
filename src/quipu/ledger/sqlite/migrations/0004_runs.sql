-- Runs: executions of workflows that saw memory as it was when they began, what happened in them, and refs.

CREATE TABLE run (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  workflow_id TEXT NOT NULL,
  status TEXT NOT NULL,
  driver TEXT NOT NULL,
  -- what it sees of memory: a position of the journal, and when it was taken
  position INTEGER NOT NULL,
  taken_at INTEGER NOT NULL,
  authority TEXT NOT NULL,
  inputs TEXT NOT NULL,
  configurable TEXT NOT NULL,
  metadata TEXT NOT NULL,
  tags TEXT NOT NULL,
  agent TEXT,
  -- ids of the secrets that were resolved in it, never values
  secrets TEXT NOT NULL,
  -- the engine that executes it, and until when others leave it alone
  worker TEXT,
  lease_until INTEGER NOT NULL,
  -- number of its last event
  last INTEGER NOT NULL,
  source_run_id TEXT,
  from_seq INTEGER,
  mode TEXT,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  error TEXT,
  -- its events and variables are gone
  expired INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT run_key PRIMARY KEY (tenant, id),
  CONSTRAINT run_status CHECK (status IN ('pending', 'running', 'cancelling', 'completed', 'failed', 'cancelled')),
  CONSTRAINT run_driver CHECK (driver IN ('engine', 'external', 'replay')),
  CONSTRAINT run_mode CHECK (mode IN ('replay', 'branch')),
  CONSTRAINT run_expired CHECK (expired IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE INDEX run_unfinished ON run (tenant, id) WHERE status IN ('pending', 'running', 'cancelling');
CREATE INDEX run_ended ON run (tenant, ended_at) WHERE expired = 0;

CREATE TABLE run_event (
  tenant TEXT NOT NULL,
  run_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  type TEXT NOT NULL,
  node_id TEXT,
  payload TEXT NOT NULL,
  at INTEGER NOT NULL,
  causation_id TEXT,
  -- where in the journal it was told
  position INTEGER NOT NULL,
  CONSTRAINT run_event_key PRIMARY KEY (tenant, run_id, sequence),
  CONSTRAINT run_event_sequence CHECK (sequence >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_variable (
  tenant TEXT NOT NULL,
  run_id TEXT NOT NULL,
  name TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  value TEXT NOT NULL,
  CONSTRAINT run_variable_key PRIMARY KEY (tenant, run_id, name, sequence)
) STRICT, WITHOUT ROWID;

-- Which records a variable repeats, so that erasing one erases the value.
CREATE TABLE run_variable_record (
  tenant TEXT NOT NULL,
  record_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  name TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  CONSTRAINT run_variable_record_key PRIMARY KEY (tenant, record_id, run_id, name, sequence)
) STRICT, WITHOUT ROWID;

CREATE INDEX run_variable_record_run ON run_variable_record (tenant, run_id);

-- What a run notes for itself while it is at work; nothing of it is left when it has ended.
CREATE TABLE run_note (
  tenant TEXT NOT NULL,
  run_id TEXT NOT NULL,
  backend TEXT NOT NULL,
  position INTEGER NOT NULL,
  text TEXT NOT NULL,
  CONSTRAINT run_note_key PRIMARY KEY (tenant, run_id, backend, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_ref (
  tenant TEXT NOT NULL,
  ref TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  store_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  CONSTRAINT memory_ref_key PRIMARY KEY (tenant, ref),
  CONSTRAINT memory_ref_owner UNIQUE (tenant, agent_id, store_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX record_created ON record (tenant, agent_id, created_at, born, id);

-- the latest time of creation that lay beyond its own commit, which only an import brings; 0 if none did
ALTER TABLE tenant ADD COLUMN ahead INTEGER NOT NULL DEFAULT 0;
UPDATE tenant SET ahead = coalesce((SELECT max(created_at) FROM record WHERE record.tenant = tenant.tenant), 0);
