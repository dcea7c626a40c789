-- Lending: grants, item logs, receipts, erasures, and what others have lent.

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

ALTER TABLE held_item ALTER item SET STATISTICS 0;
