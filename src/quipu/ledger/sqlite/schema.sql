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
  -- how often versions that were there already got a vector in it: readers from before read it anew
  refilled INTEGER NOT NULL DEFAULT 0,
  -- while set, none of the tenant's credentials is good
  suspended_at INTEGER,
  -- the position at which the list of secrets last changed: a write that was checked against an older list is refused
  guarded INTEGER NOT NULL DEFAULT 0,
  -- the tenant's own rules, in their order; a change of them moves `guarded`
  rules TEXT,
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
  CONSTRAINT proposal_key PRIMARY KEY (tenant, id),
  CONSTRAINT proposal_status CHECK (status IN ('pending', 'approved', 'rejected'))
) STRICT, WITHOUT ROWID;

CREATE INDEX proposal_record ON proposal (tenant, record_id) WHERE record_id IS NOT NULL;

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
