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
  -- how often versions that were there already got a vector in it: readers from before read it anew
  refilled bigint NOT NULL DEFAULT 0,
  -- while set, none of the tenant's credentials is good
  suspended_at bigint,
  -- the position at which the list of secrets last changed: a write that was checked against an older list is refused
  guarded bigint NOT NULL DEFAULT 0,
  -- the number of the newest version
  last_row bigint NOT NULL DEFAULT 0,
  -- the tenant's own rules, in their order; a change of them moves `guarded`
  rules json,
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
  CONSTRAINT proposal_key PRIMARY KEY (tenant, id),
  CONSTRAINT proposal_status CHECK (status IN ('pending', 'approved', 'rejected'))
);

CREATE INDEX proposal_record ON proposal (tenant, record_id) WHERE record_id IS NOT NULL;

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
  rate integer,
  recall_budget integer,
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
ALTER TABLE proposal ALTER salt SET STATISTICS 0;
ALTER TABLE secret ALTER sealed SET STATISTICS 0;
