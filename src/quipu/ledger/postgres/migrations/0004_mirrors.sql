-- Mirrors: how each stands, and the map from record ids to the ids a mirror gives.

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
