-- Runs: executions of workflows that saw memory as it was when they began, what happened in them, and refs.

CREATE TABLE run (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  workflow_id text NOT NULL,
  status text NOT NULL,
  driver text NOT NULL,
  -- what it sees of memory: a position of the journal, and when it was taken
  position bigint NOT NULL,
  taken_at bigint NOT NULL,
  authority json NOT NULL,
  inputs json NOT NULL,
  configurable json NOT NULL,
  metadata json NOT NULL,
  tags json NOT NULL,
  agent json,
  -- ids of the secrets that were resolved in it, never values
  secrets json NOT NULL,
  -- the engine that executes it, and until when others leave it alone
  worker text,
  lease_until bigint NOT NULL,
  -- number of its last event
  last integer NOT NULL,
  source_run_id text COLLATE "C",
  from_seq integer,
  mode text,
  created_at bigint NOT NULL,
  ended_at bigint,
  error json,
  -- its events and variables are gone
  expired integer NOT NULL DEFAULT 0,
  CONSTRAINT run_key PRIMARY KEY (tenant, id),
  CONSTRAINT run_status CHECK (status IN ('pending', 'running', 'cancelling', 'completed', 'failed', 'cancelled')),
  CONSTRAINT run_driver CHECK (driver IN ('engine', 'external', 'replay')),
  CONSTRAINT run_mode CHECK (mode IN ('replay', 'branch')),
  CONSTRAINT run_expired CHECK (expired IN (0, 1))
);

CREATE INDEX run_unfinished ON run (tenant, id) WHERE status IN ('pending', 'running', 'cancelling');
CREATE INDEX run_ended ON run (tenant, ended_at) WHERE expired = 0;

CREATE TABLE run_event (
  tenant text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  sequence integer NOT NULL,
  type text NOT NULL,
  node_id text,
  payload json NOT NULL,
  at bigint NOT NULL,
  causation_id text,
  -- where in the journal it was told
  position bigint NOT NULL,
  CONSTRAINT run_event_key PRIMARY KEY (tenant, run_id, sequence),
  CONSTRAINT run_event_sequence CHECK (sequence >= 0)
);

CREATE TABLE run_variable (
  tenant text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  sequence integer NOT NULL,
  value json NOT NULL,
  CONSTRAINT run_variable_key PRIMARY KEY (tenant, run_id, name, sequence)
);

-- Which records a variable repeats, so that erasing one erases the value.
CREATE TABLE run_variable_record (
  tenant text COLLATE "C" NOT NULL,
  record_id text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  sequence integer NOT NULL,
  CONSTRAINT run_variable_record_key PRIMARY KEY (tenant, record_id, run_id, name, sequence)
);

CREATE INDEX run_variable_record_run ON run_variable_record (tenant, run_id);

-- What a run notes for itself while it is at work; nothing of it is left when it has ended.
CREATE TABLE run_note (
  tenant text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  backend text COLLATE "C" NOT NULL,
  position bigint NOT NULL,
  text text NOT NULL,
  CONSTRAINT run_note_key PRIMARY KEY (tenant, run_id, backend, position)
);

CREATE TABLE memory_ref (
  tenant text COLLATE "C" NOT NULL,
  ref text COLLATE "C" NOT NULL,
  agent_id text COLLATE "C" NOT NULL,
  store_id text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  CONSTRAINT memory_ref_key PRIMARY KEY (tenant, ref),
  CONSTRAINT memory_ref_owner UNIQUE (tenant, agent_id, store_id)
);

CREATE INDEX record_created ON record (tenant, agent_id, created_at, born, id);

ALTER TABLE run ALTER inputs SET STATISTICS 0, ALTER configurable SET STATISTICS 0, ALTER metadata SET STATISTICS 0;
ALTER TABLE run_event ALTER payload SET STATISTICS 0;
ALTER TABLE run_variable ALTER value SET STATISTICS 0;
ALTER TABLE run_note ALTER text SET STATISTICS 0;

-- the latest time of creation that lay beyond its own commit, which only an import brings; 0 if none did
ALTER TABLE tenant ADD COLUMN ahead bigint NOT NULL DEFAULT 0;
UPDATE tenant SET ahead = coalesce((SELECT max(created_at) FROM record WHERE record.tenant = tenant.tenant), 0);
