-- Lending: grants, item logs, receipts, erasures, and what others have lent.

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
