-- open_tenant --
-- A tenant at the very start of its chain.
INSERT INTO tenant (tenant, created_at, seq, hash, at, changed) VALUES (:tenant, :at, 0, zeroblob(32), 0, 0)
ON CONFLICT DO NOTHING;

-- head --
-- Where the tenant's chain stands.
SELECT t.seq, t.hash, t.at, t.horizon, t.changed, t.space, s.dimensions, t.refilled, s.model, t.guarded
FROM tenant AS t LEFT JOIN space AS s ON s.tenant = t.tenant AND s.number = t.space
WHERE t.tenant = :tenant;

-- move_head --
-- The chain has grown.
UPDATE tenant SET seq = :seq, hash = :hash, at = :at, changed = :changed WHERE tenant = :tenant;

-- add_entry --
-- Tie a knot.
INSERT INTO journal (tenant, seq, at, actor, op, store, agent, run, node, records, detail, prev, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- entries --
-- A stretch of the chain.
SELECT tenant, seq, at, actor, op, store, agent, run, node, records, detail, prev, hash
FROM journal WHERE tenant = :tenant AND seq > :after ORDER BY seq LIMIT :limit;

-- entry_time --
-- When an entry was written.
SELECT at FROM journal WHERE tenant = :tenant AND seq = :seq;

-- latest --
-- The newest version of a record, whatever became of it.
SELECT row, version, died, emptied, state, born, digest FROM record
WHERE tenant = :tenant AND id = :id ORDER BY version DESC LIMIT 1;

-- add_version --
-- A version of a record, with its search terms.
INSERT INTO record (tenant, id, version, born, store_id, agent_id, user_id, session_id, type, tier, state, content,
  metadata, tags, links, confidence, importance, source, provenance, details, privacy, subject, created_at,
  updated_at, expires_at, salt, digest, terms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- copy_terms --
-- The text has not changed, so neither have its words.
UPDATE record SET terms = (SELECT terms FROM record WHERE row = :source) WHERE row = :target;

-- close_version --
-- A version ends. Nothing else of a version ever changes, but by erasure.
UPDATE record SET died = :seq, ending = :ending, merged_into = :merged_into WHERE row = :row AND died IS NULL;

-- add_vector --
-- The vector of a version in one space.
INSERT OR REPLACE INTO vector (slot, space, data) VALUES (:slot, :space, :data);

-- copy_vectors --
-- The text has not changed, so neither has its place in any space.
INSERT INTO vector (slot, space, data)
SELECT slot - 2 * :source + 2 * :target, space, data FROM vector WHERE slot IN (2 * :source, 2 * :source + 1);

-- add_link --
-- An edge of the graph.
INSERT OR IGNORE INTO link (tenant, from_id, to_id, rel, born) VALUES (:tenant, :from_id, :to_id, :rel, :seq);

-- close_links --
-- The edges of a version end with it.
UPDATE link SET died = :seq WHERE tenant = :tenant AND from_id = :id AND died IS NULL;

-- merged_into --
-- Where a record has gone, if it was merged away.
SELECT merged_into FROM record WHERE tenant = :tenant AND id = :id ORDER BY version DESC LIMIT 1;

-- redirect_links --
-- What pointed to a merged record points to the one it was merged into.
INSERT OR IGNORE INTO link (tenant, from_id, to_id, rel, born)
SELECT tenant, from_id, :merged_into, rel, :seq FROM link
WHERE tenant = :tenant AND to_id = :id AND died IS NULL AND from_id <> :merged_into;

-- close_links_to --
-- And no longer to the merged one.
UPDATE link SET died = :seq WHERE tenant = :tenant AND to_id = :id AND died IS NULL;

-- links_at --
-- Edges from or to a record at a position.
SELECT from_id, to_id FROM link
WHERE tenant = :tenant AND from_id = :id AND born <= :seq AND (died IS NULL OR died > :seq)
UNION
SELECT from_id, to_id FROM link
WHERE tenant = :tenant AND to_id = :id AND born <= :seq AND (died IS NULL OR died > :seq);

-- rows_of --
-- Every version of a record.
SELECT row, version, digest, emptied FROM record WHERE tenant = :tenant AND id = :id ORDER BY version;

-- empty_versions --
-- Erasure: nothing is left of what a version said, nor of whom it was about.
UPDATE record SET content = '', metadata = NULL, tags = NULL, links = NULL, source = NULL, details = NULL,
  privacy = NULL, subject = NULL, user_id = NULL, session_id = NULL, salt = NULL, terms = NULL, importance = NULL,
  confidence = 0, provenance = '{}', expires_at = NULL, merged_into = NULL, state = 'erased',
  died = coalesce(died, :seq), emptied = :seq
WHERE tenant = :tenant AND id = :id AND state <> 'erased';

-- drop_vectors_of --
-- Erasure: vectors in every space.
DELETE FROM vector WHERE slot IN (2 * :row, 2 * :row + 1);

-- drop_links_of --
-- Erasure: edges from and to the record.
DELETE FROM link WHERE tenant = :tenant AND (from_id = :id OR to_id = :id);

-- add_reason --
-- Why a record was changed.
INSERT INTO reason (tenant, record_id, seq, text) VALUES (:tenant, :record_id, :seq, :text);

-- reasons --
-- Why a record was changed, by position.
SELECT seq, text FROM reason WHERE tenant = :tenant AND record_id = :id ORDER BY seq;

-- drop_reasons --
-- Erasure: every reason given with the record, also where it was given for others too.
DELETE FROM reason WHERE tenant = :tenant AND seq IN
  (SELECT seq FROM reason WHERE tenant = :tenant AND record_id = :id);

-- drop_mark --
-- Erasure: use and standing.
DELETE FROM mark WHERE tenant = :tenant AND id = :id;

-- drop_answers --
-- Erasure: remembered answers that speak of the record.
DELETE FROM answer WHERE tenant = :tenant AND (principal, operation, key) IN
  (SELECT principal, operation, key FROM answer_record WHERE tenant = :tenant AND record_id = :id);

-- drop_proposals --
-- Erasure: staged copies.
UPDATE proposal SET request = NULL, reason = NULL, salt = NULL, status = 'rejected',
  reviewer = coalesce(reviewer, 'erased'), reviewed_at = coalesce(reviewed_at, :at)
WHERE tenant = :tenant AND (record_id = :id OR id = :id);

-- demote --
-- Rank lower from now on.
INSERT INTO mark (tenant, id, demoted, changed) VALUES (:tenant, :id, 1, :seq)
ON CONFLICT DO UPDATE SET demoted = 1, changed = :seq;

-- lift_demotion --
-- A change of the record takes a demotion away.
UPDATE mark SET demoted = 0, changed = :seq WHERE tenant = :tenant AND id = :id AND demoted = 1;

-- touch --
-- A recall returned the record.
INSERT INTO mark (tenant, id, last_recalled_at, recall_count) VALUES (:tenant, :id, :at, 1)
ON CONFLICT DO UPDATE SET last_recalled_at = max(coalesce(last_recalled_at, 0), :at), recall_count = recall_count + 1;

-- mark --
-- Use and standing of a record.
SELECT id, last_recalled_at, recall_count, demoted FROM mark WHERE tenant = :tenant AND id = :id;

-- open_store --
-- A new memory store.
INSERT INTO store (tenant, id, name, scope, tier, namespace, description, created_at)
VALUES (:tenant, :id, :name, :scope, :tier, :namespace, :description, :created_at);

-- stores --
-- The tenant's memory stores.
SELECT id, name, scope, tier, namespace, description, created_at FROM store WHERE tenant = :tenant ORDER BY created_at, id;

-- store_exists --
-- Is there such a store?
SELECT 1 FROM store WHERE tenant = :tenant AND id = :id;

-- current_in_store --
-- Is anything still current in a store?
SELECT 1 FROM record WHERE tenant = :tenant AND store_id = :id AND died IS NULL LIMIT 1;

-- drop_store --
-- A memory store goes.
DELETE FROM store WHERE tenant = :tenant AND id = :id;

-- answer --
-- What was answered under an idempotency key.
SELECT fingerprint, answer, at, seq FROM answer
WHERE tenant = :tenant AND principal = :principal AND operation = :operation AND key = :key;

-- keep_answer --
-- Remember the answer, so that a repetition gets it again.
INSERT OR REPLACE INTO answer (tenant, principal, operation, key, fingerprint, answer, at, seq)
VALUES (:tenant, :principal, :operation, :key, :fingerprint, :answer, :at, :seq);

-- keep_answer_record --
-- Erasing this record erases the answer.
INSERT OR IGNORE INTO answer_record (tenant, record_id, principal, operation, key)
VALUES (:tenant, :record_id, :principal, :operation, :key);

-- forget_answers --
-- Keys live for a day.
DELETE FROM answer WHERE tenant = :tenant AND at < :before;

-- stage --
-- Keep a held write aside.
INSERT INTO proposal (tenant, id, operation, agent_id, record_id, request, writer, held_by, status, created_at, lapses_at,
  approvals, because, salt)
VALUES (:tenant, :id, :operation, :agent_id, :record_id, :request, :writer, :held_by, 'pending', :created_at, :lapses_at,
  :approvals, :because, :salt);

-- settle --
-- Decide a proposal, once; its staged content goes.
UPDATE proposal SET status = :status, reviewer = :reviewer, reviewed_at = :at, reason = :reason, request = NULL,
  salt = NULL
WHERE tenant = :tenant AND id = :id AND status = 'pending';

-- approve --
-- One more of several has said yes; the number who had is the one that was expected.
UPDATE proposal SET given = :given
WHERE tenant = :tenant AND id = :id AND status = 'pending' AND json_array_length(given) = :expects;

-- proposals --
-- Proposals by status, oldest first.
SELECT tenant, id, operation, agent_id, record_id, request, writer, held_by, status, created_at, lapses_at, reviewer,
  reviewed_at, reason, approvals, given, because, salt
FROM proposal WHERE tenant = :tenant AND (:status IS NULL OR status = :status) ORDER BY created_at, id;

-- intend --
-- An effect to be carried to a mirror.
INSERT INTO outbox (tenant, mirror, seq) VALUES (:tenant, :mirror, :seq);

-- record_newest --
-- The newest version of one record.
SELECT * FROM record WHERE tenant = :tenant AND id = :id ORDER BY version DESC LIMIT 1;

-- record_at --
-- The version of one record that was current at a position.
SELECT * FROM record WHERE tenant = :tenant AND id = :id AND born <= :seq AND (died IS NULL OR died > :seq)
ORDER BY version DESC LIMIT 1;

-- record_versions --
-- All versions of one record.
SELECT * FROM record WHERE tenant = :tenant AND id = :id ORDER BY version;

-- versions_after --
-- All versions in the order they were born, a page at a time.
SELECT * FROM record WHERE tenant = :tenant AND row > :after ORDER BY row LIMIT :limit;

-- page_at --
-- Newest ids first: what was current at a position, of all agents.
SELECT * FROM record WHERE tenant = :tenant AND id < :below AND born <= :seq AND (died IS NULL OR died > :seq)
ORDER BY id DESC LIMIT :limit;

-- page_of_agent_at --
-- The same of one agent.
SELECT * FROM record WHERE tenant = :tenant AND agent_id = :agent_id AND id < :below
  AND born <= :seq AND (died IS NULL OR died > :seq)
ORDER BY id DESC LIMIT :limit;

-- page_of_newest --
-- Newest ids first: the newest version of each record, whatever became of it.
SELECT * FROM record AS r WHERE tenant = :tenant AND id < :below
  AND version = (SELECT max(version) FROM record AS n WHERE n.tenant = r.tenant AND n.id = r.id)
ORDER BY id DESC LIMIT :limit;

-- page_of_agent_newest --
-- The same of one agent.
SELECT * FROM record AS r WHERE tenant = :tenant AND agent_id = :agent_id AND id < :below
  AND version = (SELECT max(version) FROM record AS n WHERE n.tenant = r.tenant AND n.id = r.id)
ORDER BY id DESC LIMIT :limit;

-- due --
-- Current records whose time is up.
SELECT * FROM record WHERE tenant = :tenant AND expires_at <= :now AND died IS NULL LIMIT :limit;

-- load_agent --
-- What search needs to know of each version of one agent.
SELECT r.row, r.id, r.version, r.born, r.died, r.expires_at, r.created_at, r.user_id, r.store_id, r.session_id, r.type,
  r.state, r.confidence, r.subject, r.privacy ->> 'sensitivity', coalesce(r.details ->> 'event_time', r.created_at),
  r.terms, v.data, r.agent_id, r.privacy ->> 'share_with', rtrim(r.content) LIKE '%?'
FROM record AS r LEFT JOIN vector AS v ON v.slot = 2 * r.row + :parity AND v.space = :space
WHERE r.tenant = :tenant AND r.agent_id = :owner AND r.emptied IS NULL;

-- load_store --
-- The same for a store that all agents share.
SELECT r.row, r.id, r.version, r.born, r.died, r.expires_at, r.created_at, r.user_id, r.store_id, r.session_id, r.type,
  r.state, r.confidence, r.subject, r.privacy ->> 'sensitivity', coalesce(r.details ->> 'event_time', r.created_at),
  r.terms, v.data, r.agent_id, r.privacy ->> 'share_with', rtrim(r.content) LIKE '%?'
FROM record AS r LEFT JOIN vector AS v ON v.slot = 2 * r.row + :parity AND v.space = :space
WHERE r.tenant = :tenant AND r.store_id = :owner AND r.emptied IS NULL;

-- follow_agent --
-- Versions of one agent added since the partition was read.
SELECT r.row, r.id, r.version, r.born, r.died, r.expires_at, r.created_at, r.user_id, r.store_id, r.session_id, r.type,
  r.state, r.confidence, r.subject, r.privacy ->> 'sensitivity', coalesce(r.details ->> 'event_time', r.created_at),
  r.terms, v.data, r.agent_id, r.privacy ->> 'share_with', rtrim(r.content) LIKE '%?'
FROM record AS r NOT INDEXED LEFT JOIN vector AS v ON v.slot = 2 * r.row + :parity AND v.space = :space
WHERE r.row > :after AND r.tenant = :tenant AND r.agent_id = :owner AND r.emptied IS NULL;

-- follow_store --
-- The same for a shared store.
SELECT r.row, r.id, r.version, r.born, r.died, r.expires_at, r.created_at, r.user_id, r.store_id, r.session_id, r.type,
  r.state, r.confidence, r.subject, r.privacy ->> 'sensitivity', coalesce(r.details ->> 'event_time', r.created_at),
  r.terms, v.data, r.agent_id, r.privacy ->> 'share_with', rtrim(r.content) LIKE '%?'
FROM record AS r NOT INDEXED LEFT JOIN vector AS v ON v.slot = 2 * r.row + :parity AND v.space = :space
WHERE r.row > :after AND r.tenant = :tenant AND r.store_id = :owner AND r.emptied IS NULL;

-- last_row --
-- The newest version of all.
SELECT coalesce(max(row), 0) FROM record;

-- died_of_agent --
-- Versions of one agent that ended since a position.
SELECT row, died FROM record WHERE tenant = :tenant AND agent_id = :owner AND died > :after;

-- died_of_store --
-- The same for a shared store.
SELECT row, died FROM record WHERE tenant = :tenant AND store_id = :owner AND died > :after;

-- emptied_since --
-- Was anything erased or pruned since a position?
SELECT 1 FROM record WHERE tenant = :tenant AND emptied > :after LIMIT 1;

-- demoted_since --
-- Standing that changed since a position.
SELECT id, demoted FROM mark WHERE tenant = :tenant AND changed > :after;

-- metadata_row --
-- The metadata of one version by row, for filters over nothing else.
SELECT metadata FROM record WHERE row = :row AND tenant = :tenant;

-- record_row --
-- One whole version by row, for filters over fields the arrays do not hold.
SELECT * FROM record WHERE row = :row AND tenant = :tenant;

-- spaces --
-- The vector spaces a tenant has known.
SELECT number, model, dimensions FROM space WHERE tenant = :tenant ORDER BY number;

-- add_space --
-- A vector space gets its number.
INSERT INTO space (tenant, number, model, dimensions) VALUES (:tenant, :number, :model, :dimensions);

-- drop_space --
-- A vector space nobody is in any more.
DELETE FROM space WHERE tenant = :tenant AND number = :number;

-- note_refill --
-- Versions that were there already got a vector in the space in use.
UPDATE tenant SET refilled = refilled + 1 WHERE tenant = :tenant AND space = :space;

-- choose_space --
-- Search in this space from now on.
UPDATE tenant SET space = :space WHERE tenant = :tenant;

-- drop_space_vectors --
-- Vectors of a space that was left.
DELETE FROM vector WHERE space = :space AND (slot / 2) IN (SELECT row FROM record WHERE tenant = :tenant);

-- without_vector --
-- Searchable versions that have no vector in a space.
SELECT r.* FROM record AS r
WHERE r.tenant = :tenant AND r.terms IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM vector AS v WHERE v.slot = 2 * r.row + :parity AND v.space = :space)
ORDER BY r.row LIMIT :limit;

-- row_of --
-- The row of a version that still says what it said.
SELECT row FROM record WHERE tenant = :tenant AND id = :id AND version = :version AND emptied IS NULL;

-- index_of --
-- The index rows of a version.
SELECT r.row, r.terms, length(v.data) FROM record AS r
LEFT JOIN vector AS v ON v.slot = 2 * r.row + :parity AND v.space = :space
WHERE r.tenant = :tenant AND r.id = :id AND r.version = :version;

-- orphan_vectors --
-- Vectors of no version.
SELECT count(*) FROM vector WHERE (slot / 2) NOT IN (SELECT row FROM record WHERE emptied IS NULL);

-- prune --
-- Empty the versions that ended at or before the horizon.
UPDATE record SET content = '', metadata = NULL, tags = NULL, links = NULL, source = NULL, details = NULL,
  privacy = NULL, subject = NULL, provenance = '{}', salt = NULL, terms = NULL, emptied = :seq
WHERE tenant = :tenant AND died <= :horizon AND emptied IS NULL;

-- drop_pruned_vectors --
-- Vectors of emptied versions.
DELETE FROM vector WHERE (slot / 2) IN (SELECT row FROM record WHERE tenant = :tenant AND emptied IS NOT NULL);

-- raise_horizon --
-- Positions before this one can no longer be read as of.
UPDATE tenant SET horizon = max(horizon, :horizon), changed = :seq WHERE tenant = :tenant;

-- checkpoints --
-- Signed statements about the chain.
SELECT tenant, seq, hash, at, key_id, signature FROM checkpoint WHERE tenant = :tenant ORDER BY seq;

-- add_checkpoint --
-- One more.
INSERT INTO checkpoint (tenant, seq, hash, at, key_id, signature) VALUES (:tenant, :seq, :hash, :at, :key_id, :signature)
ON CONFLICT DO NOTHING;

-- count_records --
-- How many records are current, by state.
SELECT state, count(*) FROM record WHERE tenant = :tenant AND died IS NULL GROUP BY state;

-- count_versions --
-- How many versions there are.
SELECT count(*) FROM record WHERE tenant = :tenant;

-- count_vectors --
-- How many vectors there are in a space.
SELECT count(*) FROM vector WHERE space = :space AND (slot / 2) IN (SELECT row FROM record WHERE tenant = :tenant);

-- nature --
-- Whose file it is, of which version, and how much there is in it: all at one moment.
SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
FROM pragma_application_id, pragma_user_version;

-- tenants --
-- Everybody who has a chain here.
SELECT tenant, created_at, suspended_at FROM tenant ORDER BY tenant;

-- tenant --
-- One of them.
SELECT tenant, created_at, suspended_at FROM tenant WHERE tenant = :tenant;

-- suspend_tenant --
-- Shut or open the door.
UPDATE tenant SET suspended_at = :at WHERE tenant = :tenant;

-- add_token --
-- A credential, known by the hash of its text.
INSERT INTO token (tenant, id, digest, name, prefix, permissions, agents, user_id, created_at, created_by, expires_at,
  revoked_at, rate, recall_budget)
VALUES (:tenant, :id, :digest, :name, :prefix, :permissions, :agents, :user_id, :created_at, :created_by, :expires_at,
  :revoked_at, :rate, :recall_budget);

-- end_token --
-- A credential ends; one that ended earlier stays ended.
UPDATE token SET revoked_at = :revoked_at
WHERE tenant = :tenant AND id = :id AND (revoked_at IS NULL OR revoked_at > :revoked_at);

-- token --
-- The credential with this text.
SELECT tenant, id, name, prefix, permissions, agents, user_id, created_at, created_by, expires_at, revoked_at, rate,
  recall_budget
FROM token WHERE tenant = :tenant AND digest = :digest;

-- tokens --
-- All credentials of a tenant.
SELECT tenant, id, name, prefix, permissions, agents, user_id, created_at, created_by, expires_at, revoked_at, rate,
  recall_budget
FROM token WHERE tenant = :tenant ORDER BY id;

-- keep_secret --
-- A value to keep out.
INSERT INTO secret (tenant, id, label, run_id, created_at, created_by, sealed)
VALUES (:tenant, :id, :label, :run_id, :created_at, :created_by, :sealed);

-- drop_secret --
-- It may come in again.
DELETE FROM secret WHERE tenant = :tenant AND id = :id;

-- move_guard --
-- The list of secrets has changed.
UPDATE tenant SET guarded = :seq WHERE tenant = :tenant;

-- keep_rules --
-- The tenant's own rules have changed, and what writes are checked against.
UPDATE tenant SET rules = :rules, guarded = :seq WHERE tenant = :tenant;

-- rules --
-- The tenant's own rules.
SELECT rules FROM tenant WHERE tenant = :tenant;

-- guard --
-- The list of secrets and when it last changed, at one moment.
SELECT t.guarded, s.id, s.label, s.run_id, s.created_at, s.created_by, s.sealed
FROM tenant AS t LEFT JOIN secret AS s ON s.tenant = t.tenant
WHERE t.tenant = :tenant ORDER BY s.id;
