-- Mirrors: how each stands, and the map from record ids to the ids a mirror gives.

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
