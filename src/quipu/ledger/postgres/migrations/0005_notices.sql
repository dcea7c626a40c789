-- What decisions are learnt from, whom notices go to, and lists of proposals by page.

-- what a held write is like, without its text: store, type, source, sensitivity
ALTER TABLE proposal ADD COLUMN traits json;
ALTER TABLE proposal ALTER traits SET STATISTICS 0;

CREATE INDEX proposal_waiting ON proposal (tenant, status, created_at, id);

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
ALTER TABLE webhook ALTER sealed SET STATISTICS 0;

-- Suggested rules that a person does not want.
CREATE TABLE dismissal (
  tenant text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  reviewer text NOT NULL,
  CONSTRAINT dismissal_key PRIMARY KEY (tenant, id)
);

-- What a reviewer decides on: glob patterns of stores, and operations.
ALTER TABLE token ADD COLUMN review_stores json NOT NULL DEFAULT '["*"]';
ALTER TABLE token ADD COLUMN review_operations json NOT NULL DEFAULT '["*"]';
