-- The ledger on PostgreSQL. Every key begins with the tenant, so that the tables can be spread over machines by it;
-- `record.row` numbers a tenant's versions in the order they were written. Names are compared byte by byte.
-- The extension `vector` (pgvector) is there already.

-- Which steps of migrations/ have been taken: what tells a database of ours from any other.
CREATE TABLE quipu_migration (
  number integer NOT NULL,
  taken_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT quipu_migration_key PRIMARY KEY (number)
);

CREATE TABLE tenant (
  tenant text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  -- the head of the chain
  seq bigint NOT NULL,
  hash bytea NOT NULL,
  at bigint NOT NULL,
  -- the last position at which a record, a mark or a link changed: readers that are there need not look further
  changed bigint NOT NULL,
  -- positions before this one can no longer be read as of
  horizon bigint NOT NULL DEFAULT 0,
  -- the vector space that recall searches in
  space integer,
  -- how often versions that were there already got a vector in it, or other terms: readers from before read it anew
  refilled bigint NOT NULL DEFAULT 0,
  -- while set, none of the tenant's credentials is good
  suspended_at bigint,
  -- the position at which the list of secrets last changed: a write that was checked against an older list is refused
  guarded bigint NOT NULL DEFAULT 0,
  -- the number of the newest version
  last_row bigint NOT NULL DEFAULT 0,
  -- the tenant's own rules, in their order; a change of them moves `guarded`
  rules json,
  -- the latest time of creation that lay beyond its own commit, which only an import brings; 0 if none did
  ahead bigint NOT NULL DEFAULT 0,
  -- which rules the terms of all its versions were cut by; where they are not the program's own, `quipu reembed` cuts anew
  terms integer NOT NULL DEFAULT 0,
  CONSTRAINT tenant_key PRIMARY KEY (tenant),
  CONSTRAINT tenant_hash CHECK (length(hash) = 32)
) WITH (fillfactor = 50);

CREATE TABLE space (
  tenant text COLLATE "C" NOT NULL,
  number integer NOT NULL,
  model text COLLATE "C" NOT NULL,
  dimensions integer NOT NULL,
  CONSTRAINT space_key PRIMARY KEY (tenant, number),
  CONSTRAINT space_model UNIQUE (tenant, model, dimensions),
  CONSTRAINT space_dimensions CHECK (dimensions > 0)
);

CREATE TABLE store (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  scope text NOT NULL,
  tier text NOT NULL,
  namespace text,
  description text,
  created_at bigint NOT NULL,
  CONSTRAINT store_key PRIMARY KEY (tenant, id),
  CONSTRAINT store_name UNIQUE (tenant, name),
  CONSTRAINT store_scope CHECK (scope IN ('user', 'session', 'agent', 'team', 'global')),
  CONSTRAINT store_tier CHECK (tier IN ('short_term', 'long_term'))
);

-- JSON is kept as `json`, letter for letter: `jsonb` would rewrite numbers that a digest covers.
CREATE TABLE record (
  row bigint NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  version integer NOT NULL,
  born bigint NOT NULL,
  died bigint,
  ending text,
  merged_into text COLLATE "C",
  -- position of the erasure or pruning that emptied this version
  emptied bigint,
  store_id text COLLATE "C" NOT NULL,
  agent_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C",
  session_id text COLLATE "C",
  type text NOT NULL,
  tier text NOT NULL,
  state text NOT NULL,
  content text NOT NULL,
  metadata json,
  tags json,
  links json,
  confidence double precision NOT NULL,
  importance double precision,
  source text,
  provenance json NOT NULL,
  details json,
  privacy json,
  subject text COLLATE "C",
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  expires_at bigint,
  salt bytea,
  digest bytea NOT NULL,
  -- derived: hashes and counts of the stemmed words, what keyword search reads; null keeps it out of search
  terms bytea,
  CONSTRAINT record_key PRIMARY KEY (tenant, id, version),
  CONSTRAINT record_row UNIQUE (tenant, row),
  CONSTRAINT record_version CHECK (version > 0),
  CONSTRAINT record_life CHECK (died IS NULL OR died >= born),
  CONSTRAINT record_ending CHECK (ending IN ('replaced', 'forgotten', 'merged', 'expired')),
  CONSTRAINT record_type CHECK (type IN ('semantic', 'episodic', 'procedural', 'emotional')),
  CONSTRAINT record_tier CHECK (tier IN ('short_term', 'long_term')),
  CONSTRAINT record_state CHECK (state IN ('live', 'archived', 'erased')),
  CONSTRAINT record_confidence CHECK (confidence BETWEEN 0 AND 1),
  CONSTRAINT record_digest CHECK (length(digest) = 32)
);

CREATE INDEX record_agent ON record (tenant, agent_id, id);
CREATE INDEX record_store ON record (tenant, store_id, died);
CREATE INDEX record_died ON record (tenant, agent_id, died) WHERE died IS NOT NULL;
CREATE INDEX record_expiry ON record (tenant, expires_at) WHERE expires_at IS NOT NULL AND died IS NULL;
CREATE INDEX record_emptied ON record (tenant, emptied) WHERE emptied IS NOT NULL;
CREATE INDEX record_created ON record (tenant, agent_id, created_at, born, id);

-- Vectors; `vector` is the name of their type here. A tenant moves between two spaces at a time, which may differ in
-- dimensions, so the column has none of its own.
CREATE TABLE embedding (
  tenant text COLLATE "C" NOT NULL,
  row bigint NOT NULL,
  space integer NOT NULL,
  data vector NOT NULL,
  CONSTRAINT embedding_key PRIMARY KEY (tenant, row, space)
);

CREATE TABLE link (
  tenant text COLLATE "C" NOT NULL,
  from_id text COLLATE "C" NOT NULL,
  to_id text COLLATE "C" NOT NULL,
  rel text COLLATE "C" NOT NULL,
  born bigint NOT NULL,
  died bigint,
  CONSTRAINT link_key PRIMARY KEY (tenant, from_id, to_id, rel, born)
);

CREATE INDEX link_back ON link (tenant, to_id);

CREATE TABLE mark (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  last_recalled_at bigint,
  recall_count bigint NOT NULL DEFAULT 0,
  demoted boolean NOT NULL DEFAULT false,
  -- position of the last change of `demoted`
  changed bigint NOT NULL DEFAULT 0,
  CONSTRAINT mark_key PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);

CREATE INDEX mark_changed ON mark (tenant, changed) WHERE changed > 0;

CREATE TABLE journal (
  tenant text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  at bigint NOT NULL,
  actor text NOT NULL,
  op text NOT NULL,
  store text,
  agent text,
  run text,
  node text,
  records json NOT NULL,
  detail json NOT NULL,
  prev bytea NOT NULL,
  hash bytea NOT NULL,
  CONSTRAINT journal_key PRIMARY KEY (tenant, seq),
  CONSTRAINT journal_seq CHECK (seq > 0),
  CONSTRAINT journal_hash CHECK (length(hash) = 32 AND length(prev) = 32)
);

CREATE FUNCTION refuse_to_change_the_journal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the journal is append-only';
END
$$;

CREATE TRIGGER journal_is_never_changed BEFORE UPDATE OR DELETE ON journal
FOR EACH ROW EXECUTE FUNCTION refuse_to_change_the_journal();

CREATE TRIGGER journal_is_never_cut BEFORE TRUNCATE ON journal
FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_the_journal();

-- Why something was done, in somebody's words: beside the journal, so that erasing a record erases it too.
CREATE TABLE reason (
  tenant text COLLATE "C" NOT NULL,
  record_id text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  text text NOT NULL,
  CONSTRAINT reason_key PRIMARY KEY (tenant, record_id, seq)
);

CREATE TABLE checkpoint (
  tenant text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  hash bytea NOT NULL,
  at bigint NOT NULL,
  key_id text NOT NULL,
  signature text NOT NULL,
  CONSTRAINT checkpoint_key PRIMARY KEY (tenant, seq)
);

CREATE TABLE answer (
  tenant text COLLATE "C" NOT NULL,
  principal text COLLATE "C" NOT NULL,
  operation text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  fingerprint text NOT NULL,
  answer json NOT NULL,
  at bigint NOT NULL,
  seq bigint NOT NULL,
  CONSTRAINT answer_key PRIMARY KEY (tenant, principal, operation, key)
);

CREATE INDEX answer_at ON answer (tenant, at);

-- Which records an answer speaks of, so that erasing one erases the answer.
CREATE TABLE answer_record (
  tenant text COLLATE "C" NOT NULL,
  record_id text COLLATE "C" NOT NULL,
  principal text COLLATE "C" NOT NULL,
  operation text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  CONSTRAINT answer_record_key PRIMARY KEY (tenant, record_id, principal, operation, key),
  CONSTRAINT answer_record_answer FOREIGN KEY (tenant, principal, operation, key)
    REFERENCES answer (tenant, principal, operation, key) ON DELETE CASCADE
);

CREATE INDEX answer_record_by_answer ON answer_record (tenant, principal, operation, key);

CREATE TABLE proposal (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  operation text NOT NULL,
  agent_id text NOT NULL,
  record_id text COLLATE "C",
  request json,
  writer text NOT NULL,
  held_by json NOT NULL,
  status text NOT NULL,
  created_at bigint NOT NULL,
  lapses_at bigint,
  reviewer text,
  reviewed_at bigint,
  reason text,
  -- how many different people must say yes, and who has
  approvals integer NOT NULL DEFAULT 1,
  given json NOT NULL DEFAULT '[]',
  -- why it was held, in the words of the rule
  because text,
  -- makes the digest in the journal one that nobody can guess; goes with the staged content
  salt bytea,
  -- what a held write is like, without its text: store, type, source, sensitivity
  traits json,
  CONSTRAINT proposal_key PRIMARY KEY (tenant, id),
  CONSTRAINT proposal_status CHECK (status IN ('pending', 'approved', 'rejected'))
);

CREATE INDEX proposal_record ON proposal (tenant, record_id) WHERE record_id IS NOT NULL;
CREATE INDEX proposal_waiting ON proposal (tenant, status, created_at, id);

-- Effects still to be carried to mirrors: intent, then done, or given up with the last error's code.
CREATE TABLE outbox (
  tenant text COLLATE "C" NOT NULL,
  mirror text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  status text NOT NULL DEFAULT 'intent',
  attempts integer NOT NULL DEFAULT 0,
  next_at bigint NOT NULL DEFAULT 0,
  error text,
  CONSTRAINT outbox_key PRIMARY KEY (tenant, mirror, seq),
  CONSTRAINT outbox_status CHECK (status IN ('intent', 'done', 'dead'))
);

-- A mirror of the tenant's records: whether it is written to, who carries effects to it now, and how it stands.
CREATE TABLE mirror (
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  writes integer NOT NULL DEFAULT 1,
  -- whether everything that was there before the mirror has been sent to it, and if not, how far down the ids
  filled integer NOT NULL DEFAULT 0,
  fill_below text,
  holder text,
  held_until bigint NOT NULL DEFAULT 0,
  succeeded_at bigint,
  error text,
  -- how many times it showed a text that is not the ledger's
  drift integer NOT NULL DEFAULT 0,
  CONSTRAINT mirror_key PRIMARY KEY (tenant, name),
  CONSTRAINT mirror_flags CHECK (writes IN (0, 1) AND filled IN (0, 1))
);

-- Which native id a record has in a mirror. A row stays when the copy is gone, so that nobody can bring it back.
CREATE TABLE mirrored (
  tenant text COLLATE "C" NOT NULL,
  mirror text COLLATE "C" NOT NULL,
  record_id text COLLATE "C" NOT NULL,
  native_id text COLLATE "C",
  version integer NOT NULL,
  store_id text COLLATE "C" NOT NULL,
  agent_id text COLLATE "C" NOT NULL,
  user_id text COLLATE "C",
  -- sending: on its way, perhaps there; deleted: no longer found, bytes may be left; gone: nothing is left
  state text NOT NULL,
  CONSTRAINT mirrored_key PRIMARY KEY (tenant, mirror, record_id),
  CONSTRAINT mirrored_state CHECK (state IN ('sending', 'kept', 'deleted', 'gone'))
);

CREATE INDEX mirrored_native ON mirrored (mirror, native_id, tenant);
CREATE INDEX mirrored_container ON mirrored (tenant, mirror, agent_id, store_id, user_id);

CREATE TABLE token (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  digest bytea NOT NULL,
  name text NOT NULL,
  prefix text NOT NULL,
  permissions json NOT NULL,
  agents json NOT NULL,
  user_id text,
  created_at bigint NOT NULL,
  created_by text NOT NULL,
  expires_at bigint,
  revoked_at bigint,
  rate bigint,
  recall_budget bigint,
  -- what a reviewer decides on: glob patterns of stores, and operations
  review_stores json NOT NULL DEFAULT '["*"]',
  review_operations json NOT NULL DEFAULT '["*"]',
  CONSTRAINT token_key PRIMARY KEY (tenant, id),
  CONSTRAINT token_digest UNIQUE (tenant, digest),
  CONSTRAINT token_digest_length CHECK (length(digest) = 32)
);

CREATE TABLE secret (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  label text NOT NULL,
  run_id text,
  created_at bigint NOT NULL,
  created_by text NOT NULL,
  sealed bytea NOT NULL,
  CONSTRAINT secret_key PRIMARY KEY (tenant, id)
);

-- Where notices of held writes and decisions are sent, and how far along the journal each has been told.
CREATE TABLE webhook (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  url text NOT NULL,
  events json NOT NULL,
  agents json NOT NULL,
  with_content boolean NOT NULL DEFAULT false,
  created_at bigint NOT NULL,
  created_by text NOT NULL,
  -- the key that notices are signed with
  sealed bytea NOT NULL,
  position bigint NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  next_at bigint NOT NULL DEFAULT 0,
  error text,
  dropped integer NOT NULL DEFAULT 0,
  CONSTRAINT webhook_key PRIMARY KEY (tenant, id)
);

-- Suggested rules that a person does not want.
CREATE TABLE dismissal (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  reviewer text NOT NULL,
  CONSTRAINT dismissal_key PRIMARY KEY (tenant, id)
);

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

-- Grants: signed permissions for somebody outside to read a slice. `body` is what was signed; `disclosed` counts
-- different records, and its rows are those of lent_item.
CREATE TABLE lent_grant (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  hash text COLLATE "C" NOT NULL,
  body text NOT NULL,
  grantee text COLLATE "C" NOT NULL,
  status text NOT NULL,
  registered_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  revoked_at bigint,
  uses bigint NOT NULL DEFAULT 0,
  disclosed bigint NOT NULL DEFAULT 0,
  CONSTRAINT lent_grant_key PRIMARY KEY (tenant, id),
  CONSTRAINT lent_grant_status CHECK (status IN ('active', 'revoked', 'suspended'))
);

CREATE TABLE lent_item (
  tenant text COLLATE "C" NOT NULL,
  grant_id text COLLATE "C" NOT NULL,
  record_id text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  CONSTRAINT lent_item_key PRIMARY KEY (tenant, grant_id, record_id),
  CONSTRAINT lent_item_grant FOREIGN KEY (tenant, grant_id) REFERENCES lent_grant (tenant, id)
);

CREATE INDEX lent_item_record ON lent_item (tenant, record_id);

-- Two logs for each item that was ever lent: what it was, and who saw it. Hashes and ids only: they outlive an erasure.
CREATE TABLE item_log (
  tenant text COLLATE "C" NOT NULL,
  record_id text COLLATE "C" NOT NULL,
  log text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  version bigint NOT NULL,
  entry text NOT NULL,
  hash text COLLATE "C" NOT NULL,
  CONSTRAINT item_log_key PRIMARY KEY (tenant, record_id, log, seq),
  CONSTRAINT item_log_log CHECK (log IN ('state', 'disclosed'))
);

-- One chain of receipts for each owner; `body` is what was signed, with its signatures.
CREATE TABLE receipt (
  tenant text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  type text NOT NULL,
  agent text NOT NULL,
  grant_id text COLLATE "C",
  at bigint NOT NULL,
  body text NOT NULL,
  hash text COLLATE "C" NOT NULL,
  CONSTRAINT receipt_key PRIMARY KEY (tenant, seq),
  CONSTRAINT receipt_id UNIQUE (tenant, id)
);

-- Receipts of one grant, those that end every grant, and those of one agent: without a walk along the whole chain.
CREATE INDEX receipt_grant ON receipt (tenant, grant_id, seq) WHERE grant_id IS NOT NULL;
CREATE INDEX receipt_kill_switch ON receipt (tenant, seq) WHERE type = 'kill_switch';
CREATE INDEX receipt_agent ON receipt (tenant, agent, seq);

CREATE FUNCTION refuse_to_change_receipts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'receipts are append-only';
END
$$;

CREATE TRIGGER receipt_is_never_changed BEFORE UPDATE OR DELETE ON receipt
FOR EACH ROW EXECUTE FUNCTION refuse_to_change_receipts();

CREATE TRIGGER receipt_is_never_cut BEFORE TRUNCATE ON receipt
FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_receipts();

-- Requests to delete, and how far they have come; after the erasure only ids are left in `request`.
CREATE TABLE erasure (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  step text NOT NULL,
  requested_at bigint NOT NULL,
  completed_at bigint,
  request text NOT NULL,
  receipt text,
  CONSTRAINT erasure_key PRIMARY KEY (tenant, id),
  CONSTRAINT erasure_step CHECK (step IN ('accepted', 'propagating', 'done'))
);

-- Grantees that hold something that was erased: each is told until it has answered.
CREATE TABLE cascade_step (
  tenant text COLLATE "C" NOT NULL,
  erasure_id text COLLATE "C" NOT NULL,
  grantee text COLLATE "C" NOT NULL,
  grant_id text COLLATE "C" NOT NULL,
  item_ids text NOT NULL,
  status text NOT NULL,
  attempts bigint NOT NULL DEFAULT 0,
  next_at bigint NOT NULL DEFAULT 0,
  receipt text,
  CONSTRAINT cascade_step_key PRIMARY KEY (tenant, erasure_id, grantee, grant_id),
  CONSTRAINT cascade_step_status CHECK (status IN ('waiting', 'done', 'unreachable'))
);

-- What other hosts have lent to us, until it expires or they want it back.
CREATE TABLE held_item (
  tenant text COLLATE "C" NOT NULL,
  source text COLLATE "C" NOT NULL,
  grant_id text COLLATE "C" NOT NULL,
  item_id text COLLATE "C" NOT NULL,
  item text NOT NULL,
  receipt_id text COLLATE "C" NOT NULL,
  received_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  CONSTRAINT held_item_key PRIMARY KEY (tenant, source, grant_id, item_id)
);

-- Proofs that were used, so that each is good once.
CREATE TABLE used_proof (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  until bigint NOT NULL,
  CONSTRAINT used_proof_key PRIMARY KEY (tenant, id)
);

-- Long work for somebody outside, such as a file that is made: how each stood, one line after the other. The newest line
-- is also the sign that somebody still works at it.
CREATE TABLE task_step (
  tenant text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  state text NOT NULL,
  at bigint NOT NULL,
  detail text NOT NULL,
  CONSTRAINT task_step_key PRIMARY KEY (tenant, task_id, number),
  CONSTRAINT task_step_state CHECK (
    state IN ('submitted', 'accepted', 'working', 'awaiting_input', 'completed', 'failed', 'canceled', 'expired')
  )
);

CREATE FUNCTION refuse_to_change_task_steps() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the steps of a task are append-only';
END
$$;

CREATE TRIGGER task_step_is_never_changed BEFORE UPDATE ON task_step
FOR EACH ROW EXECUTE FUNCTION refuse_to_change_task_steps();

-- What a server knows of its tables includes samples of their values. Of these columns it must keep none: an erasure
-- would not reach them.
ALTER TABLE record ALTER user_id SET STATISTICS 0, ALTER session_id SET STATISTICS 0, ALTER content SET STATISTICS 0,
  ALTER metadata SET STATISTICS 0, ALTER tags SET STATISTICS 0, ALTER links SET STATISTICS 0,
  ALTER source SET STATISTICS 0, ALTER provenance SET STATISTICS 0, ALTER details SET STATISTICS 0,
  ALTER privacy SET STATISTICS 0, ALTER subject SET STATISTICS 0, ALTER salt SET STATISTICS 0,
  ALTER terms SET STATISTICS 0;
ALTER TABLE embedding ALTER data SET STATISTICS 0;
ALTER TABLE link ALTER rel SET STATISTICS 0;
ALTER TABLE reason ALTER text SET STATISTICS 0;
ALTER TABLE answer ALTER answer SET STATISTICS 0;
ALTER TABLE proposal ALTER request SET STATISTICS 0, ALTER reason SET STATISTICS 0;
ALTER TABLE proposal ALTER salt SET STATISTICS 0, ALTER traits SET STATISTICS 0;
ALTER TABLE webhook ALTER sealed SET STATISTICS 0;
ALTER TABLE secret ALTER sealed SET STATISTICS 0;
ALTER TABLE run ALTER inputs SET STATISTICS 0, ALTER configurable SET STATISTICS 0, ALTER metadata SET STATISTICS 0;
ALTER TABLE run_event ALTER payload SET STATISTICS 0;
ALTER TABLE run_variable ALTER value SET STATISTICS 0;
ALTER TABLE run_note ALTER text SET STATISTICS 0;
ALTER TABLE held_item ALTER item SET STATISTICS 0;
