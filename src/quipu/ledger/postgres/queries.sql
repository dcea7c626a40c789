-- open_tenant --
-- A tenant at the very start of its chain.
INSERT INTO tenant (tenant, created_at, seq, hash, at, changed)
VALUES (%(tenant)s, %(at)s, 0, decode(repeat('00', 32), 'hex'), 0, 0)
ON CONFLICT DO NOTHING;

-- head --
-- Where the tenant's chain stands.
SELECT t.seq, t.hash, t.at, t.horizon, t.changed, t.space, s.dimensions, t.refilled, s.model, t.guarded
FROM tenant AS t LEFT JOIN space AS s ON s.tenant = t.tenant AND s.number = t.space
WHERE t.tenant = %(tenant)s;

-- move_head --
-- The chain has grown, and with it the count of versions.
UPDATE tenant SET seq = %(seq)s, hash = %(hash)s, at = %(at)s, changed = %(changed)s, last_row = %(last_row)s
WHERE tenant = %(tenant)s;

-- add_entry --
-- Tie a knot.
INSERT INTO journal (tenant, seq, at, actor, op, store, agent, run, node, records, detail, prev, hash)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- entries --
-- A stretch of the chain.
SELECT tenant, seq, at, actor, op, store, agent, run, node, records, detail, prev, hash
FROM journal WHERE tenant = %(tenant)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s;

-- entry_time --
-- When an entry was written.
SELECT at FROM journal WHERE tenant = %(tenant)s AND seq = %(seq)s;

-- latest --
-- The newest version of each of these records, whatever became of it. SQLite asks for one at a time.
SELECT DISTINCT ON (id) id, row, version, died, emptied, state, merged_into, store_id FROM record
WHERE tenant = %(tenant)s AND id = ANY(%(ids)s) ORDER BY id, version DESC;

-- add_version --
-- A version of a record, with its search terms and its number.
INSERT INTO record (row, tenant, id, version, born, store_id, agent_id, user_id, session_id, type, tier, state, content,
  metadata, tags, links, confidence, importance, source, provenance, details, privacy, subject, created_at,
  updated_at, expires_at, salt, digest, terms)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- copy_terms --
-- The text has not changed, so neither have its words.
UPDATE record AS r SET terms = s.terms FROM record AS s
WHERE r.tenant = %(tenant)s AND r.row = %(target)s AND s.tenant = %(tenant)s AND s.row = %(source)s;

-- close_version --
-- A version ends. Nothing else of a version ever changes, but by erasure.
UPDATE record SET died = %(seq)s, ending = %(ending)s, merged_into = %(merged_into)s
WHERE tenant = %(tenant)s AND row = %(row)s AND died IS NULL;

-- add_vector --
-- The vector of a version in one space.
INSERT INTO embedding (tenant, row, space, data) VALUES (%s, %s, %s, %s)
ON CONFLICT (tenant, row, space) DO UPDATE SET data = excluded.data;

-- copy_vectors --
-- The text has not changed, so neither has its place in any space.
INSERT INTO embedding (tenant, row, space, data)
SELECT tenant, %(target)s, space, data FROM embedding WHERE tenant = %(tenant)s AND row = %(source)s;

-- add_link --
-- An edge of the graph.
INSERT INTO link (tenant, from_id, to_id, rel, born)
VALUES (%(tenant)s, %(from_id)s, %(to_id)s, %(rel)s, %(seq)s) ON CONFLICT DO NOTHING;

-- close_links --
-- The edges of a version end with it.
UPDATE link SET died = %(seq)s WHERE tenant = %(tenant)s AND from_id = %(id)s AND died IS NULL;

-- redirect_links --
-- What pointed to a merged record points to the one it was merged into.
INSERT INTO link (tenant, from_id, to_id, rel, born)
SELECT tenant, from_id, %(merged_into)s, rel, %(seq)s FROM link
WHERE tenant = %(tenant)s AND to_id = %(id)s AND died IS NULL AND from_id <> %(merged_into)s
ON CONFLICT DO NOTHING;

-- close_links_to --
-- And no longer to the merged one.
UPDATE link SET died = %(seq)s WHERE tenant = %(tenant)s AND to_id = %(id)s AND died IS NULL;

-- links_at --
-- Edges from or to records at a position, each with the record it was asked for.
SELECT from_id, to_id FROM link
WHERE tenant = %(tenant)s AND from_id = ANY(%(ids)s) AND born <= %(seq)s AND (died IS NULL OR died > %(seq)s)
UNION
SELECT to_id, from_id FROM link
WHERE tenant = %(tenant)s AND to_id = ANY(%(ids)s) AND born <= %(seq)s AND (died IS NULL OR died > %(seq)s);

-- rows_of --
-- Every version of these records.
SELECT id, version, digest FROM record WHERE tenant = %(tenant)s AND id = ANY(%(ids)s) ORDER BY id, version;

-- empty_versions --
-- Erasure: nothing is left of what a version said, nor of whom it was about.
UPDATE record SET content = '', metadata = NULL, tags = NULL, links = NULL, source = NULL, details = NULL,
  privacy = NULL, subject = NULL, user_id = NULL, session_id = NULL, salt = NULL, terms = NULL, importance = NULL,
  confidence = 0, provenance = '{}', expires_at = NULL, merged_into = NULL, state = 'erased',
  died = coalesce(died, %(seq)s), emptied = %(seq)s
WHERE tenant = %(tenant)s AND id = %(id)s AND state <> 'erased';

-- drop_vectors_of --
-- Erasure: vectors in every space.
DELETE FROM embedding WHERE tenant = %(tenant)s AND row IN
  (SELECT row FROM record WHERE tenant = %(tenant)s AND id = %(id)s);

-- drop_links_of --
-- Erasure: edges from and to the record.
DELETE FROM link WHERE tenant = %(tenant)s AND (from_id = %(id)s OR to_id = %(id)s);

-- add_reason --
-- Why a record was changed.
INSERT INTO reason (tenant, record_id, seq, text) VALUES (%(tenant)s, %(record_id)s, %(seq)s, %(text)s);

-- reasons --
-- Why a record was changed, by position.
SELECT seq, text FROM reason WHERE tenant = %(tenant)s AND record_id = %(id)s ORDER BY seq;

-- drop_reasons --
-- Erasure: every reason given with the record, also where it was given for others too.
DELETE FROM reason WHERE tenant = %(tenant)s AND seq IN
  (SELECT seq FROM reason WHERE tenant = %(tenant)s AND record_id = %(id)s);

-- drop_mark --
-- Erasure: use and standing.
DELETE FROM mark WHERE tenant = %(tenant)s AND id = %(id)s;

-- drop_answers --
-- Erasure: remembered answers that speak of the record.
DELETE FROM answer WHERE tenant = %(tenant)s AND (principal, operation, key) IN
  (SELECT principal, operation, key FROM answer_record WHERE tenant = %(tenant)s AND record_id = %(id)s);

-- drop_proposals --
-- Erasure: staged copies.
UPDATE proposal SET request = NULL, reason = NULL, salt = NULL, status = 'rejected',
  reviewer = coalesce(reviewer, 'erased'), reviewed_at = coalesce(reviewed_at, %(at)s)
WHERE tenant = %(tenant)s AND (record_id = %(id)s OR id = %(id)s);

-- demote --
-- Rank lower from now on.
INSERT INTO mark (tenant, id, demoted, changed) VALUES (%(tenant)s, %(id)s, true, %(seq)s)
ON CONFLICT (tenant, id) DO UPDATE SET demoted = true, changed = excluded.changed;

-- lift_demotion --
-- A change of the record takes a demotion away.
UPDATE mark SET demoted = false, changed = %(seq)s WHERE tenant = %(tenant)s AND id = %(id)s AND demoted;

-- touch --
-- A recall returned the record.
INSERT INTO mark AS m (tenant, id, last_recalled_at, recall_count) VALUES (%(tenant)s, %(id)s, %(at)s, 1)
ON CONFLICT (tenant, id) DO UPDATE
SET last_recalled_at = greatest(m.last_recalled_at, excluded.last_recalled_at), recall_count = m.recall_count + 1;

-- mark --
-- Use and standing of records.
SELECT id, last_recalled_at, recall_count, demoted FROM mark WHERE tenant = %(tenant)s AND id = ANY(%(ids)s);

-- open_store --
-- A new memory store.
INSERT INTO store (tenant, id, name, scope, tier, namespace, description, created_at)
VALUES (%(tenant)s, %(id)s, %(name)s, %(scope)s, %(tier)s, %(namespace)s, %(description)s, %(created_at)s);

-- stores --
-- The tenant's memory stores.
SELECT id, name, scope, tier, namespace, description, created_at FROM store
WHERE tenant = %(tenant)s ORDER BY created_at, id;

-- current_in_store --
-- How much is still current in a store?
SELECT count(*) FROM record WHERE tenant = %(tenant)s AND store_id = %(id)s AND died IS NULL;

-- drop_store --
-- A memory store goes.
DELETE FROM store WHERE tenant = %(tenant)s AND id = %(id)s;

-- answer --
-- What was answered under idempotency keys, given as parallel lists.
SELECT a.principal, a.operation, a.key, a.fingerprint, a.answer, a.at, a.seq, ARRAY(
    SELECT r.record_id FROM answer_record AS r
    WHERE r.tenant = %(tenant)s AND r.principal = a.principal AND r.operation = a.operation AND r.key = a.key)
FROM unnest(%(principals)s::text[], %(operations)s::text[], %(keys)s::text[]) AS w (principal, operation, key)
JOIN answer AS a ON a.principal = w.principal AND a.operation = w.operation AND a.key = w.key
WHERE a.tenant = %(tenant)s;

-- keep_answer --
-- Remember the answer, so that a repetition gets it again.
INSERT INTO answer (tenant, principal, operation, key, fingerprint, answer, at, seq)
VALUES (%(tenant)s, %(principal)s, %(operation)s, %(key)s, %(fingerprint)s, %(answer)s, %(at)s, %(seq)s)
ON CONFLICT (tenant, principal, operation, key) DO UPDATE
SET fingerprint = excluded.fingerprint, answer = excluded.answer, at = excluded.at, seq = excluded.seq;

-- keep_answer_record --
-- Erasing this record erases the answer.
INSERT INTO answer_record (tenant, record_id, principal, operation, key)
VALUES (%(tenant)s, %(record_id)s, %(principal)s, %(operation)s, %(key)s) ON CONFLICT DO NOTHING;

-- forget_answers --
-- Keys live for a day.
DELETE FROM answer WHERE tenant = %(tenant)s AND at < %(before)s;

-- stage --
-- Keep a held write aside.
INSERT INTO proposal (tenant, id, operation, agent_id, record_id, request, writer, held_by, status, created_at, lapses_at,
  approvals, because, salt)
VALUES (%(tenant)s, %(id)s, %(operation)s, %(agent_id)s, %(record_id)s, %(request)s, %(writer)s, %(held_by)s, 'pending',
  %(created_at)s, %(lapses_at)s, %(approvals)s, %(because)s, %(salt)s);

-- settle --
-- Decide a proposal, once; its staged content goes.
UPDATE proposal SET status = %(status)s, reviewer = %(reviewer)s, reviewed_at = %(at)s, reason = %(reason)s, request = NULL,
  salt = NULL
WHERE tenant = %(tenant)s AND id = %(id)s AND status = 'pending';

-- approve --
-- One more of several has said yes; the number who had was checked under the tenant's lock.
UPDATE proposal SET given = %(given)s
WHERE tenant = %(tenant)s AND id = %(id)s AND status = 'pending';

-- proposals --
-- Proposals by status, oldest first.
SELECT tenant, id, operation, agent_id, record_id, request, writer, held_by, status, created_at, lapses_at, reviewer,
  reviewed_at, reason, approvals, given, because, salt
FROM proposal WHERE tenant = %(tenant)s AND (%(status)s::text IS NULL OR status = %(status)s) ORDER BY created_at, id;

-- intend --
-- An effect to be carried to a mirror.
INSERT INTO outbox (tenant, mirror, seq) VALUES (%(tenant)s, %(mirror)s, %(seq)s);

-- record_newest --
-- The newest version of each of these records.
SELECT DISTINCT ON (id) * FROM record WHERE tenant = %(tenant)s AND id = ANY(%(ids)s) ORDER BY id, version DESC;

-- record_at --
-- The version of each of these records that was current at a position.
SELECT DISTINCT ON (id) * FROM record
WHERE tenant = %(tenant)s AND id = ANY(%(ids)s) AND born <= %(seq)s AND (died IS NULL OR died > %(seq)s)
ORDER BY id, version DESC;

-- record_versions --
-- All versions of one record.
SELECT * FROM record WHERE tenant = %(tenant)s AND id = %(id)s ORDER BY version;

-- versions_after --
-- All versions in the order they were born, a page at a time.
SELECT * FROM record WHERE tenant = %(tenant)s AND row > %(after)s ORDER BY row LIMIT %(limit)s;

-- page_at --
-- Newest ids first: what was current at a position, of all agents.
SELECT * FROM record WHERE tenant = %(tenant)s AND id < %(below)s AND born <= %(seq)s AND (died IS NULL OR died > %(seq)s)
ORDER BY id DESC LIMIT %(limit)s;

-- page_of_agent_at --
-- The same of one agent.
SELECT * FROM record WHERE tenant = %(tenant)s AND agent_id = %(agent_id)s AND id < %(below)s
  AND born <= %(seq)s AND (died IS NULL OR died > %(seq)s)
ORDER BY id DESC LIMIT %(limit)s;

-- page_of_newest --
-- Newest ids first: the newest version of each record, whatever became of it.
SELECT * FROM record AS r WHERE tenant = %(tenant)s AND id < %(below)s
  AND NOT EXISTS (SELECT 1 FROM record AS n WHERE n.tenant = %(tenant)s AND n.id = r.id AND n.version > r.version)
ORDER BY id DESC LIMIT %(limit)s;

-- page_of_agent_newest --
-- The same of one agent.
SELECT * FROM record AS r WHERE tenant = %(tenant)s AND agent_id = %(agent_id)s AND id < %(below)s
  AND NOT EXISTS (SELECT 1 FROM record AS n WHERE n.tenant = %(tenant)s AND n.id = r.id AND n.version > r.version)
ORDER BY id DESC LIMIT %(limit)s;

-- due --
-- Current records whose time is up.
SELECT * FROM record WHERE tenant = %(tenant)s AND expires_at <= %(now)s AND died IS NULL LIMIT %(limit)s;

-- load_agent --
-- What search needs to know of each version of one agent; where vectors are not to be held, a mark that there is one.
SELECT r.row, r.id, r.version, r.born, r.died, r.expires_at, r.created_at, r.user_id, r.store_id, r.session_id, r.type,
  r.state, r.confidence, r.subject, r.privacy ->> 'sensitivity',
  CASE WHEN r.details ->> 'event_time' ~ '^-?[0-9]{1,18}$' THEN (r.details ->> 'event_time')::bigint ELSE r.created_at END,
  r.terms, CASE WHEN %(held)s THEN v.data WHEN v.row IS NOT NULL THEN '[0]'::vector END, r.agent_id,
  r.privacy ->> 'share_with', right(rtrim(r.content), 1) = '?'
FROM record AS r LEFT JOIN embedding AS v ON v.tenant = %(tenant)s AND v.row = r.row AND v.space = %(space)s
WHERE r.tenant = %(tenant)s AND r.agent_id = %(owner)s AND r.emptied IS NULL ORDER BY r.row;

-- load_store --
-- The same for a store that all agents share.
SELECT r.row, r.id, r.version, r.born, r.died, r.expires_at, r.created_at, r.user_id, r.store_id, r.session_id, r.type,
  r.state, r.confidence, r.subject, r.privacy ->> 'sensitivity',
  CASE WHEN r.details ->> 'event_time' ~ '^-?[0-9]{1,18}$' THEN (r.details ->> 'event_time')::bigint ELSE r.created_at END,
  r.terms, CASE WHEN %(held)s THEN v.data WHEN v.row IS NOT NULL THEN '[0]'::vector END, r.agent_id,
  r.privacy ->> 'share_with', right(rtrim(r.content), 1) = '?'
FROM record AS r LEFT JOIN embedding AS v ON v.tenant = %(tenant)s AND v.row = r.row AND v.space = %(space)s
WHERE r.tenant = %(tenant)s AND r.store_id = %(owner)s AND r.emptied IS NULL ORDER BY r.row;

-- follow_agent --
-- Versions of one agent added since the partition was read.
SELECT r.row, r.id, r.version, r.born, r.died, r.expires_at, r.created_at, r.user_id, r.store_id, r.session_id, r.type,
  r.state, r.confidence, r.subject, r.privacy ->> 'sensitivity',
  CASE WHEN r.details ->> 'event_time' ~ '^-?[0-9]{1,18}$' THEN (r.details ->> 'event_time')::bigint ELSE r.created_at END,
  r.terms, CASE WHEN %(held)s THEN v.data WHEN v.row IS NOT NULL THEN '[0]'::vector END, r.agent_id,
  r.privacy ->> 'share_with', right(rtrim(r.content), 1) = '?'
FROM record AS r LEFT JOIN embedding AS v ON v.tenant = %(tenant)s AND v.row = r.row AND v.space = %(space)s
WHERE r.tenant = %(tenant)s AND r.row > %(after)s AND r.agent_id = %(owner)s AND r.emptied IS NULL ORDER BY r.row;

-- follow_store --
-- The same for a shared store.
SELECT r.row, r.id, r.version, r.born, r.died, r.expires_at, r.created_at, r.user_id, r.store_id, r.session_id, r.type,
  r.state, r.confidence, r.subject, r.privacy ->> 'sensitivity',
  CASE WHEN r.details ->> 'event_time' ~ '^-?[0-9]{1,18}$' THEN (r.details ->> 'event_time')::bigint ELSE r.created_at END,
  r.terms, CASE WHEN %(held)s THEN v.data WHEN v.row IS NOT NULL THEN '[0]'::vector END, r.agent_id,
  r.privacy ->> 'share_with', right(rtrim(r.content), 1) = '?'
FROM record AS r LEFT JOIN embedding AS v ON v.tenant = %(tenant)s AND v.row = r.row AND v.space = %(space)s
WHERE r.tenant = %(tenant)s AND r.row > %(after)s AND r.store_id = %(owner)s AND r.emptied IS NULL ORDER BY r.row;

-- last_row --
-- The newest version of the tenant's. SQLite numbers the versions of all tenants together.
SELECT last_row FROM tenant WHERE tenant = %(tenant)s;

-- died_of_agent --
-- Versions of one agent that ended since a position.
SELECT row, died FROM record WHERE tenant = %(tenant)s AND agent_id = %(owner)s AND died > %(after)s;

-- died_of_store --
-- The same for a shared store.
SELECT row, died FROM record WHERE tenant = %(tenant)s AND store_id = %(owner)s AND died > %(after)s;

-- emptied_since --
-- Was anything erased or pruned since a position?
SELECT 1 FROM record WHERE tenant = %(tenant)s AND emptied > %(after)s LIMIT 1;

-- demoted_since --
-- Standing that changed since a position.
SELECT id, demoted FROM mark WHERE tenant = %(tenant)s AND changed > %(after)s AND changed > 0;

-- metadata_row --
-- The metadata of versions by row, for filters over nothing else.
SELECT row, metadata FROM record WHERE tenant = %(tenant)s AND row = ANY(%(rows)s);

-- record_row --
-- Whole versions by row, for filters over fields the arrays do not hold.
SELECT * FROM record WHERE tenant = %(tenant)s AND row = ANY(%(rows)s);

-- spaces --
-- The vector spaces a tenant has known.
SELECT number, model, dimensions FROM space WHERE tenant = %(tenant)s ORDER BY number;

-- add_space --
-- A vector space gets its number.
INSERT INTO space (tenant, number, model, dimensions) VALUES (%(tenant)s, %(number)s, %(model)s, %(dimensions)s);

-- drop_space --
-- A vector space nobody is in any more.
DELETE FROM space WHERE tenant = %(tenant)s AND number = %(number)s;

-- note_refill --
-- Versions that were there already got a vector in the space in use.
UPDATE tenant SET refilled = refilled + 1 WHERE tenant = %(tenant)s AND space = %(space)s;

-- choose_space --
-- Search in this space from now on.
UPDATE tenant SET space = %(space)s WHERE tenant = %(tenant)s;

-- drop_space_vectors --
-- Vectors of a space that was left.
DELETE FROM embedding WHERE tenant = %(tenant)s AND space = %(space)s;

-- without_vector --
-- Searchable versions that have no vector in a space.
SELECT r.* FROM record AS r
WHERE r.tenant = %(tenant)s AND r.terms IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM embedding AS v WHERE v.tenant = %(tenant)s AND v.row = r.row AND v.space = %(space)s)
ORDER BY r.row LIMIT %(limit)s;

-- row_of --
-- The rows of versions that still say what they said.
SELECT r.id, r.version, r.row FROM unnest(%(ids)s::text[], %(versions)s::integer[]) AS w (id, version)
JOIN record AS r ON r.id = w.id AND r.version = w.version
WHERE r.tenant = %(tenant)s AND r.emptied IS NULL;

-- index_of --
-- The index rows of versions.
SELECT r.id, r.version, r.terms, vector_dims(v.data)
FROM unnest(%(ids)s::text[], %(versions)s::integer[]) AS w (id, version)
JOIN record AS r ON r.id = w.id AND r.version = w.version
LEFT JOIN embedding AS v ON v.tenant = %(tenant)s AND v.row = r.row AND v.space = %(space)s
WHERE r.tenant = %(tenant)s;

-- orphan_vectors --
-- Vectors of no version.
SELECT count(*) FROM embedding AS v WHERE NOT EXISTS
  (SELECT 1 FROM record AS r WHERE r.tenant = v.tenant AND r.row = v.row AND r.emptied IS NULL);

-- prune --
-- Empty the versions that ended at or before the horizon.
UPDATE record SET content = '', metadata = NULL, tags = NULL, links = NULL, source = NULL, details = NULL,
  privacy = NULL, subject = NULL, provenance = '{}', salt = NULL, terms = NULL, emptied = %(seq)s
WHERE tenant = %(tenant)s AND died <= %(horizon)s AND emptied IS NULL;

-- drop_pruned_vectors --
-- Vectors of emptied versions.
DELETE FROM embedding WHERE tenant = %(tenant)s AND row IN
  (SELECT row FROM record WHERE tenant = %(tenant)s AND emptied IS NOT NULL);

-- raise_horizon --
-- Positions before this one can no longer be read as of.
UPDATE tenant SET horizon = greatest(horizon, %(horizon)s), changed = %(seq)s WHERE tenant = %(tenant)s;

-- checkpoints --
-- Signed statements about the chain.
SELECT tenant, seq, hash, at, key_id, signature FROM checkpoint WHERE tenant = %(tenant)s ORDER BY seq;

-- add_checkpoint --
-- One more.
INSERT INTO checkpoint (tenant, seq, hash, at, key_id, signature)
VALUES (%(tenant)s, %(seq)s, %(hash)s, %(at)s, %(key_id)s, %(signature)s)
ON CONFLICT DO NOTHING;

-- count_records --
-- How many records are current, by state.
SELECT state, count(*) FROM record WHERE tenant = %(tenant)s AND died IS NULL GROUP BY state;

-- count_versions --
-- How many versions there are.
SELECT count(*) FROM record WHERE tenant = %(tenant)s;

-- count_vectors --
-- How many vectors there are in a space.
SELECT count(*) FROM embedding WHERE tenant = %(tenant)s AND space = %(space)s;

-- tenants --
-- Everybody who has a chain here.
SELECT tenant, created_at, suspended_at FROM tenant ORDER BY tenant;

-- tenant --
-- One of them.
SELECT tenant, created_at, suspended_at FROM tenant WHERE tenant = %(tenant)s;

-- suspend_tenant --
-- Shut or open the door.
UPDATE tenant SET suspended_at = %(at)s WHERE tenant = %(tenant)s;

-- add_token --
-- A credential, known by the hash of its text.
INSERT INTO token (tenant, id, digest, name, prefix, permissions, agents, user_id, created_at, created_by, expires_at,
  revoked_at, rate, recall_budget)
VALUES (%(tenant)s, %(id)s, %(digest)s, %(name)s, %(prefix)s, %(permissions)s, %(agents)s, %(user_id)s, %(created_at)s,
  %(created_by)s, %(expires_at)s, %(revoked_at)s, %(rate)s, %(recall_budget)s);

-- end_token --
-- A credential ends; one that ended earlier stays ended.
UPDATE token SET revoked_at = %(revoked_at)s
WHERE tenant = %(tenant)s AND id = %(id)s AND (revoked_at IS NULL OR revoked_at > %(revoked_at)s);

-- token --
-- The credential with this text.
SELECT tenant, id, name, prefix, permissions, agents, user_id, created_at, created_by, expires_at, revoked_at, rate,
  recall_budget
FROM token WHERE tenant = %(tenant)s AND digest = %(digest)s;

-- tokens --
-- All credentials of a tenant.
SELECT tenant, id, name, prefix, permissions, agents, user_id, created_at, created_by, expires_at, revoked_at, rate,
  recall_budget
FROM token WHERE tenant = %(tenant)s ORDER BY id;

-- keep_secret --
-- A value to keep out.
INSERT INTO secret (tenant, id, label, run_id, created_at, created_by, sealed)
VALUES (%(tenant)s, %(id)s, %(label)s, %(run_id)s, %(created_at)s, %(created_by)s, %(sealed)s);

-- drop_secret --
-- It may come in again.
DELETE FROM secret WHERE tenant = %(tenant)s AND id = %(id)s;

-- move_guard --
-- The list of secrets has changed.
UPDATE tenant SET guarded = %(seq)s WHERE tenant = %(tenant)s;

-- keep_rules --
-- The tenant's own rules have changed, and what writes are checked against.
UPDATE tenant SET rules = %(rules)s, guarded = %(seq)s WHERE tenant = %(tenant)s;

-- rules --
-- The tenant's own rules.
SELECT rules FROM tenant WHERE tenant = %(tenant)s;

-- guard --
-- The list of secrets and when it last changed, at one moment.
SELECT t.guarded, s.id, s.label, s.run_id, s.created_at, s.created_by, s.sealed
FROM tenant AS t LEFT JOIN secret AS s ON s.tenant = t.tenant
WHERE t.tenant = %(tenant)s ORDER BY s.id;
