-- What decisions are learnt from, whom notices go to, and lists of proposals by page.

-- what a held write is like, without its text: store, type, source, sensitivity
ALTER TABLE proposal ADD COLUMN traits TEXT;

CREATE INDEX proposal_waiting ON proposal (tenant, status, created_at, id);

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

-- What a reviewer decides on: glob patterns of stores, and operations.
ALTER TABLE token ADD COLUMN review_stores TEXT NOT NULL DEFAULT '["*"]';
ALTER TABLE token ADD COLUMN review_operations TEXT NOT NULL DEFAULT '["*"]';
