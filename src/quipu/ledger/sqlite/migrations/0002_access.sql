-- Who may come in, and what must stay out.

-- while set, none of the tenant's credentials is good
ALTER TABLE tenant ADD COLUMN suspended_at INTEGER;

-- the position at which the list of secrets last changed: a write that was checked against an older list is refused
ALTER TABLE tenant ADD COLUMN guarded INTEGER NOT NULL DEFAULT 0;

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
