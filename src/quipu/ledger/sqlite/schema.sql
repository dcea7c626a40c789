-- The embedded ledger. Every key begins with the tenant; `record.row` is only SQLite's own name for a version,
-- short enough to key the vectors with.

CREATE TABLE tenant (
  tenant TEXT NOT NULL PRIMARY KEY,
  created_at INTEGER NOT NULL,
  -- the head of the chain
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL,
  at INTEGER NOT NULL,
  -- the last position at which a record, a mark or a link changed: readers that are there need not look further
  changed INTEGER NOT NULL,
  -- positions before this one can no longer be read as of
  horizon INTEGER NOT NULL DEFAULT 0,
  -- the vector space that recall searches in
  space INTEGER,
  -- how often versions that were there already got a vector in it, or other terms: readers from before read it anew
  refilled INTEGER NOT NULL DEFAULT 0,
  -- while set, none of the tenant's credentials is good
  suspended_at INTEGER,
  -- the position at which the list of secrets last changed: a write that was checked against an older list is refused
  guarded INTEGER NOT NULL DEFAULT 0,
  -- the tenant's own rules, in their order; a change of them moves `guarded`
  rules TEXT,
  -- the latest time of creation that lay beyond its own commit, which only an import brings; 0 if none did
  ahead INTEGER NOT NULL DEFAULT 0,
  -- which rules the terms of all its versions were cut by; where they are not the program's own, `quipu reembed` cuts anew
  terms INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT tenant_hash CHECK (length(hash) = 32)
) STRICT, WITHOUT ROWID;

CREATE TABLE space (
  tenant TEXT NOT NULL,
  number INTEGER NOT NULL,
  model TEXT NOT NULL,
  dimensions INTEGER NOT NULL,
  CONSTRAINT space_key PRIMARY KEY (tenant, number),
  CONSTRAINT space_model UNIQUE (tenant, model, dimensions),
  CONSTRAINT space_dimensions CHECK (dimensions > 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE store (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  scope TEXT NOT NULL,
  tier TEXT NOT NULL,
  namespace TEXT,
  description TEXT,
  created_at INTEGER NOT NULL,
  CONSTRAINT store_key PRIMARY KEY (tenant, id),
  CONSTRAINT store_name UNIQUE (tenant, name),
  CONSTRAINT store_scope CHECK (scope IN ('user', 'session', 'agent', 'team', 'global')),
  CONSTRAINT store_tier CHECK (tier IN ('short_term', 'long_term'))
) STRICT, WITHOUT ROWID;

CREATE TABLE record (
  row INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  version INTEGER NOT NULL,
  born INTEGER NOT NULL,
  died INTEGER,
  ending TEXT,
  merged_into TEXT,
  -- position of the erasure or pruning that emptied this version
  emptied INTEGER,
  store_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  user_id TEXT,
  session_id TEXT,
  type TEXT NOT NULL,
  tier TEXT NOT NULL,
  state TEXT NOT NULL,
  content TEXT NOT NULL,
  metadata TEXT,
  tags TEXT,
  links TEXT,
  confidence REAL NOT NULL,
  importance REAL,
  source TEXT,
  provenance TEXT NOT NULL,
  details TEXT,
  privacy TEXT,
  subject TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER,
  salt BLOB,
  digest BLOB NOT NULL,
  -- derived: hashes and counts of the stemmed words, what keyword search reads; null keeps it out of search
  terms BLOB,
  CONSTRAINT record_key UNIQUE (tenant, id, version),
  CONSTRAINT record_version CHECK (version > 0),
  CONSTRAINT record_life CHECK (died IS NULL OR died >= born),
  CONSTRAINT record_ending CHECK (ending IN ('replaced', 'forgotten', 'merged', 'expired')),
  CONSTRAINT record_type CHECK (type IN ('semantic', 'episodic', 'procedural', 'emotional')),
  CONSTRAINT record_tier CHECK (tier IN ('short_term', 'long_term')),
  CONSTRAINT record_state CHECK (state IN ('live', 'archived', 'erased')),
  CONSTRAINT record_confidence CHECK (confidence BETWEEN 0 AND 1),
  CONSTRAINT record_digest CHECK (length(digest) = 32)
) STRICT;

CREATE INDEX record_agent ON record (tenant, agent_id, id);
CREATE INDEX record_died ON record (tenant, agent_id, died) WHERE died IS NOT NULL;
CREATE INDEX record_expiry ON record (tenant, expires_at) WHERE expires_at IS NOT NULL AND died IS NULL;
CREATE INDEX record_emptied ON record (tenant, emptied) WHERE emptied IS NOT NULL;
CREATE INDEX record_created ON record (tenant, agent_id, created_at, born);

-- A tenant moves between two spaces at a time, so slot = 2 × row + (space mod 2) holds both without another index.
CREATE TABLE vector (
  slot INTEGER PRIMARY KEY,
  space INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;

CREATE TABLE link (
  tenant TEXT NOT NULL,
  from_id TEXT NOT NULL,
  to_id TEXT NOT NULL,
  rel TEXT NOT NULL,
  born INTEGER NOT NULL,
  died INTEGER,
  CONSTRAINT link_key PRIMARY KEY (tenant, from_id, to_id, rel, born)
) STRICT, WITHOUT ROWID;

CREATE INDEX link_back ON link (tenant, to_id);

CREATE TABLE mark (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  last_recalled_at INTEGER,
  recall_count INTEGER NOT NULL DEFAULT 0,
  demoted INTEGER NOT NULL DEFAULT 0,
  -- position of the last change of `demoted`
  changed INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT mark_key PRIMARY KEY (tenant, id),
  CONSTRAINT mark_demoted CHECK (demoted IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE INDEX mark_changed ON mark (tenant, changed) WHERE changed > 0;

CREATE TABLE journal (
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  op TEXT NOT NULL,
  store TEXT,
  agent TEXT,
  run TEXT,
  node TEXT,
  records TEXT NOT NULL,
  detail TEXT NOT NULL,
  prev BLOB NOT NULL,
  hash BLOB NOT NULL,
  CONSTRAINT journal_key PRIMARY KEY (tenant, seq),
  CONSTRAINT journal_seq CHECK (seq > 0),
  CONSTRAINT journal_hash CHECK (length(hash) = 32 AND length(prev) = 32)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER journal_is_never_changed BEFORE UPDATE ON journal
BEGIN
  SELECT RAISE(ABORT, 'the journal is append-only');
END;

CREATE TRIGGER journal_is_never_cut BEFORE DELETE ON journal
BEGIN
  SELECT RAISE(ABORT, 'the journal is append-only');
END;

-- Why something was done, in somebody's words: beside the journal, so that erasing a record erases it too.
CREATE TABLE reason (
  tenant TEXT NOT NULL,
  record_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  text TEXT NOT NULL,
  CONSTRAINT reason_key PRIMARY KEY (tenant, record_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoint (
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL,
  at INTEGER NOT NULL,
  key_id TEXT NOT NULL,
  signature TEXT NOT NULL,
  CONSTRAINT checkpoint_key PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE answer (
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  operation TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  answer TEXT NOT NULL,
  at INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  CONSTRAINT answer_key PRIMARY KEY (tenant, principal, operation, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX answer_at ON answer (tenant, at);

-- Which records an answer speaks of, so that erasing one erases the answer.
CREATE TABLE answer_record (
  tenant TEXT NOT NULL,
  record_id TEXT NOT NULL,
  principal TEXT NOT NULL,
  operation TEXT NOT NULL,
  key TEXT NOT NULL,
  CONSTRAINT answer_record_key PRIMARY KEY (tenant, record_id, principal, operation, key),
  CONSTRAINT answer_record_answer FOREIGN KEY (tenant, principal, operation, key)
    REFERENCES answer (tenant, principal, operation, key) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX answer_record_answer ON answer_record (tenant, principal, operation, key);

CREATE TABLE proposal (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  operation TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  record_id TEXT,
  request TEXT,
  writer TEXT NOT NULL,
  held_by TEXT NOT NULL,
  status TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  lapses_at INTEGER,
  reviewer TEXT,
  reviewed_at INTEGER,
  reason TEXT,
  -- how many different people must say yes, and who has
  approvals INTEGER NOT NULL DEFAULT 1,
  given TEXT NOT NULL DEFAULT '[]',
  -- why it was held, in the words of the rule
  because TEXT,
  -- makes the digest in the journal one that nobody can guess; goes with the staged content
  salt BLOB,
  -- what a held write is like, without its text: store, type, source, sensitivity
  traits TEXT,
  CONSTRAINT proposal_key PRIMARY KEY (tenant, id),
  CONSTRAINT proposal_status CHECK (status IN ('pending', 'approved', 'rejected'))
) STRICT, WITHOUT ROWID;

CREATE INDEX proposal_record ON proposal (tenant, record_id) WHERE record_id IS NOT NULL;
CREATE INDEX proposal_waiting ON proposal (tenant, status, created_at, id);

-- Effects still to be carried to mirrors: intent, then done, or given up with the last error's code.
CREATE TABLE outbox (
  tenant TEXT NOT NULL,
  mirror TEXT NOT NULL,
  seq INTEGER NOT NULL,
  status TEXT NOT NULL DEFAULT 'intent',
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL DEFAULT 0,
  error TEXT,
  CONSTRAINT outbox_key PRIMARY KEY (tenant, mirror, seq),
  CONSTRAINT outbox_status CHECK (status IN ('intent', 'done', 'dead'))
) STRICT, WITHOUT ROWID;

-- A mirror of the tenant's records: whether it is written to, who carries effects to it now, and how it stands.
CREATE TABLE mirror (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  writes INTEGER NOT NULL DEFAULT 1,
  -- whether everything that was there before the mirror has been sent to it, and if not, how far down the ids
  filled INTEGER NOT NULL DEFAULT 0,
  fill_below TEXT,
  holder TEXT,
  held_until INTEGER NOT NULL DEFAULT 0,
  succeeded_at INTEGER,
  error TEXT,
  -- how many times it showed a text that is not the ledger's
  drift INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT mirror_key PRIMARY KEY (tenant, name),
  CONSTRAINT mirror_flags CHECK (writes IN (0, 1) AND filled IN (0, 1))
) STRICT, WITHOUT ROWID;

-- Which native id a record has in a mirror. A row stays when the copy is gone, so that nobody can bring it back.
CREATE TABLE mirrored (
  tenant TEXT NOT NULL,
  mirror TEXT NOT NULL,
  record_id TEXT NOT NULL,
  native_id TEXT,
  version INTEGER NOT NULL,
  store_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  user_id TEXT,
  -- sending: on its way, perhaps there; deleted: no longer found, bytes may be left; gone: nothing is left
  state TEXT NOT NULL,
  CONSTRAINT mirrored_key PRIMARY KEY (tenant, mirror, record_id),
  CONSTRAINT mirrored_state CHECK (state IN ('sending', 'kept', 'deleted', 'gone'))
) STRICT, WITHOUT ROWID;

CREATE INDEX mirrored_native ON mirrored (mirror, native_id, tenant);
CREATE INDEX mirrored_container ON mirrored (tenant, mirror, agent_id, store_id, user_id);

CREATE TABLE token (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  name TEXT NOT NULL,
  prefix TEXT NOT NULL,
  permissions TEXT NOT NULL,
  agents TEXT NOT NULL,
  user_id TEXT,
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  rate INTEGER,
  recall_budget INTEGER,
  -- what a reviewer decides on: glob patterns of stores, and operations
  review_stores TEXT NOT NULL DEFAULT '["*"]',
  review_operations TEXT NOT NULL DEFAULT '["*"]',
  CONSTRAINT token_key PRIMARY KEY (tenant, id),
  CONSTRAINT token_digest UNIQUE (tenant, digest),
  CONSTRAINT token_digest_length CHECK (length(digest) = 32)
) STRICT, WITHOUT ROWID;

CREATE TABLE secret (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  label TEXT NOT NULL,
  run_id TEXT,
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  sealed BLOB NOT NULL,
  CONSTRAINT secret_key PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- Where notices of held writes and decisions are sent, and how far along the journal each has been told.
CREATE TABLE webhook (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  url TEXT NOT NULL,
  events TEXT NOT NULL,
  agents TEXT NOT NULL,
  with_content INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  -- the key that notices are signed with
  sealed BLOB NOT NULL,
  position INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL DEFAULT 0,
  error TEXT,
  dropped INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT webhook_key PRIMARY KEY (tenant, id),
  CONSTRAINT webhook_content CHECK (with_content IN (0, 1))
) STRICT, WITHOUT ROWID;

-- Suggested rules that a person does not want.
CREATE TABLE dismissal (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  reviewer TEXT NOT NULL,
  CONSTRAINT dismissal_key PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

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

-- Grants: signed permissions for somebody outside to read a slice. `body` is what was signed; `disclosed` counts
-- different records, and its rows are those of lent_item.
CREATE TABLE lent_grant (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  hash TEXT NOT NULL,
  body TEXT NOT NULL,
  grantee TEXT NOT NULL,
  status TEXT NOT NULL,
  registered_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER,
  uses INTEGER NOT NULL DEFAULT 0,
  disclosed INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT lent_grant_key PRIMARY KEY (tenant, id),
  CONSTRAINT lent_grant_status CHECK (status IN ('active', 'revoked', 'suspended'))
) STRICT, WITHOUT ROWID;

CREATE TABLE lent_item (
  tenant TEXT NOT NULL,
  grant_id TEXT NOT NULL,
  record_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  CONSTRAINT lent_item_key PRIMARY KEY (tenant, grant_id, record_id),
  CONSTRAINT lent_item_grant FOREIGN KEY (tenant, grant_id) REFERENCES lent_grant (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX lent_item_record ON lent_item (tenant, record_id);

-- Two logs for each item that was ever lent: what it was, and who saw it. Hashes and ids only: they outlive an erasure.
CREATE TABLE item_log (
  tenant TEXT NOT NULL,
  record_id TEXT NOT NULL,
  log TEXT NOT NULL,
  seq INTEGER NOT NULL,
  version INTEGER NOT NULL,
  entry TEXT NOT NULL,
  hash TEXT NOT NULL,
  CONSTRAINT item_log_key PRIMARY KEY (tenant, record_id, log, seq),
  CONSTRAINT item_log_log CHECK (log IN ('state', 'disclosed'))
) STRICT, WITHOUT ROWID;

-- One chain of receipts for each owner; `body` is what was signed, with its signatures.
CREATE TABLE receipt (
  tenant TEXT NOT NULL,
  seq INTEGER NOT NULL,
  id TEXT NOT NULL,
  type TEXT NOT NULL,
  agent TEXT NOT NULL,
  grant_id TEXT,
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  hash TEXT NOT NULL,
  CONSTRAINT receipt_key PRIMARY KEY (tenant, seq),
  CONSTRAINT receipt_id UNIQUE (tenant, id)
) STRICT, WITHOUT ROWID;

-- Receipts of one grant, those that end every grant, and those of one agent: without a walk along the whole chain.
CREATE INDEX receipt_grant ON receipt (tenant, grant_id, seq) WHERE grant_id IS NOT NULL;
CREATE INDEX receipt_kill_switch ON receipt (tenant, seq) WHERE type = 'kill_switch';
CREATE INDEX receipt_agent ON receipt (tenant, agent, seq);

CREATE TRIGGER receipt_is_never_changed BEFORE UPDATE ON receipt
BEGIN
  SELECT RAISE(ABORT, 'receipts are append-only');
END;

CREATE TRIGGER receipt_is_never_cut BEFORE DELETE ON receipt
BEGIN
  SELECT RAISE(ABORT, 'receipts are append-only');
END;

-- Requests to delete, and how far they have come; after the erasure only ids are left in `request`.
CREATE TABLE erasure (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  step TEXT NOT NULL,
  requested_at INTEGER NOT NULL,
  completed_at INTEGER,
  request TEXT NOT NULL,
  receipt TEXT,
  CONSTRAINT erasure_key PRIMARY KEY (tenant, id),
  CONSTRAINT erasure_step CHECK (step IN ('accepted', 'propagating', 'done'))
) STRICT, WITHOUT ROWID;

-- Grantees that hold something that was erased: each is told until it has answered.
CREATE TABLE cascade_step (
  tenant TEXT NOT NULL,
  erasure_id TEXT NOT NULL,
  grantee TEXT NOT NULL,
  grant_id TEXT NOT NULL,
  item_ids TEXT NOT NULL,
  status TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL DEFAULT 0,
  receipt TEXT,
  CONSTRAINT cascade_step_key PRIMARY KEY (tenant, erasure_id, grantee, grant_id),
  CONSTRAINT cascade_step_status CHECK (status IN ('waiting', 'done', 'unreachable'))
) STRICT, WITHOUT ROWID;

-- What other hosts have lent to us, until it expires or they want it back.
CREATE TABLE held_item (
  tenant TEXT NOT NULL,
  source TEXT NOT NULL,
  grant_id TEXT NOT NULL,
  item_id TEXT NOT NULL,
  item TEXT NOT NULL,
  receipt_id TEXT NOT NULL,
  received_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  CONSTRAINT held_item_key PRIMARY KEY (tenant, source, grant_id, item_id)
) STRICT, WITHOUT ROWID;

-- Proofs that were used, so that each is good once.
CREATE TABLE used_proof (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  until INTEGER NOT NULL,
  CONSTRAINT used_proof_key PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- Long work for somebody outside, such as a file that is made: how each stood, one line after the other. The newest line
-- is also the sign that somebody still works at it.
CREATE TABLE task_step (
  tenant TEXT NOT NULL,
  task_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  state TEXT NOT NULL,
  at INTEGER NOT NULL,
  detail TEXT NOT NULL,
  CONSTRAINT task_step_key PRIMARY KEY (tenant, task_id, number),
  CONSTRAINT task_step_state CHECK (
    state IN ('submitted', 'accepted', 'working', 'awaiting_input', 'completed', 'failed', 'canceled', 'expired')
  )
) STRICT, WITHOUT ROWID;

CREATE TRIGGER task_step_is_never_changed BEFORE UPDATE ON task_step
BEGIN
  SELECT RAISE(ABORT, 'the steps of a task are append-only');
END;
