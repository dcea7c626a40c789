-- open_tenant --
-- A tenant at the very start of its chain.
INSERT INTO tenant (tenant, created_at, seq, hash, at, changed, terms)
VALUES (%(tenant)s, %(at)s, 0, decode(repeat('00', 32), 'hex'), 0, 0, %(terms)s)
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

-- + meant --
-- What narrows a stretch before an entry is unpacked; a value that is not given asks for nothing.
  AND (%(ops)s::text IS NULL OR strpos(%(ops)s, ' ' || op || ' ') > 0) AND (%(agent)s::text IS NULL OR agent = %(agent)s)
  AND (%(actor)s::text IS NULL OR actor = %(actor)s) AND (%(run)s::text IS NULL OR run = %(run)s)
  AND (%(in_records)s::text IS NULL OR strpos(records::text, %(in_records)s) > 0)
  AND (%(in_detail)s::text IS NULL OR strpos(detail::text, %(in_detail)s) > 0)

-- entries_with --
-- Those of a stretch that are wanted.
SELECT tenant, seq, at, actor, op, store, agent, run, node, records, detail, prev, hash
FROM journal WHERE tenant = %(tenant)s AND seq > %(after)s AND seq <= %(last)s
  -- + meant
ORDER BY seq LIMIT %(limit)s;

-- entries_back --
-- The same, newest first.
SELECT tenant, seq, at, actor, op, store, agent, run, node, records, detail, prev, hash
FROM journal WHERE tenant = %(tenant)s AND seq > %(after)s AND seq <= %(last)s
  -- + meant
ORDER BY seq DESC LIMIT %(limit)s;

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
-- Erasure: nothing is left of what a version said, nor of whom it was about. Of many records at once; SQLite one by one.
UPDATE record SET content = '', metadata = NULL, tags = NULL, links = NULL, source = NULL, details = NULL,
  privacy = NULL, subject = NULL, user_id = NULL, session_id = NULL, salt = NULL, terms = NULL, importance = NULL,
  confidence = 0, provenance = '{}', expires_at = NULL, merged_into = NULL, state = 'erased',
  died = coalesce(died, %(seq)s), emptied = %(seq)s
WHERE tenant = %(tenant)s AND id = ANY(%(ids)s) AND state <> 'erased';

-- went_on_since --
-- Where something was made out of records since a position, or they were merged away.
SELECT to_id, max(born) FROM link WHERE tenant = %(tenant)s AND to_id = ANY(%(ids)s) AND born > %(after)s
  AND rel IN ('compacted_from', 'derived_from') GROUP BY to_id
UNION ALL
SELECT id, max(died) FROM record WHERE tenant = %(tenant)s AND id = ANY(%(ids)s) AND died > %(after)s
  AND merged_into IS NOT NULL GROUP BY id;

-- held_since --
-- What was held since a position, and where, as far as it still says something.
SELECT p.id, j.seq, p.request FROM journal AS j JOIN proposal AS p ON p.tenant = %(tenant)s AND p.id = j.detail ->> 'proposal'
WHERE j.tenant = %(tenant)s AND j.seq > %(after)s AND j.op = 'hold' AND p.request IS NOT NULL;

-- drop_vectors_of --
-- Erasure: vectors in every space.
DELETE FROM embedding WHERE tenant = %(tenant)s AND row IN
  (SELECT row FROM record WHERE tenant = %(tenant)s AND id = ANY(%(ids)s));

-- drop_links_of --
-- Erasure: edges from and to the record.
DELETE FROM link WHERE tenant = %(tenant)s AND (from_id = ANY(%(ids)s) OR to_id = ANY(%(ids)s));

-- add_reason --
-- Why a record was changed.
INSERT INTO reason (tenant, record_id, seq, text) VALUES (%(tenant)s, %(record_id)s, %(seq)s, %(text)s);

-- reasons --
-- Why a record was changed, by position.
SELECT seq, text FROM reason WHERE tenant = %(tenant)s AND record_id = %(id)s ORDER BY seq;

-- drop_reasons --
-- Erasure: every reason given with the record, also where it was given for others too.
DELETE FROM reason WHERE tenant = %(tenant)s AND seq IN
  (SELECT seq FROM reason WHERE tenant = %(tenant)s AND record_id = ANY(%(ids)s));

-- drop_mark --
-- Erasure: use and standing.
DELETE FROM mark WHERE tenant = %(tenant)s AND id = ANY(%(ids)s);

-- drop_answers --
-- Erasure: remembered answers that speak of the record.
DELETE FROM answer WHERE tenant = %(tenant)s AND (principal, operation, key) IN
  (SELECT principal, operation, key FROM answer_record WHERE tenant = %(tenant)s AND record_id = ANY(%(ids)s));

-- drop_proposals --
-- Erasure: staged copies.
UPDATE proposal SET request = NULL, reason = NULL, salt = NULL, traits = NULL,
  status = CASE status WHEN 'pending' THEN 'rejected' ELSE status END, reviewer = coalesce(reviewer, 'erased'), reviewed_at = coalesce(reviewed_at, %(at)s)
WHERE tenant = %(tenant)s AND (record_id = ANY(%(ids)s) OR id = ANY(%(ids)s));

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
  approvals, because, salt, traits)
VALUES (%(tenant)s, %(id)s, %(operation)s, %(agent_id)s, %(record_id)s, %(request)s, %(writer)s, %(held_by)s, 'pending',
  %(created_at)s, %(lapses_at)s, %(approvals)s, %(because)s, %(salt)s, %(traits)s);

-- settle --
-- Decide a proposal, once; its staged content goes, unless it is to be kept. A salt that stays says: for a while.
UPDATE proposal SET status = %(status)s, reviewer = %(reviewer)s, reviewed_at = %(at)s, reason = %(reason)s,
  salt = CASE WHEN %(undoable)s THEN salt END, request = CASE WHEN %(keeps)s OR %(undoable)s THEN request END,
  traits = CASE WHEN %(teaches)s THEN traits END
WHERE tenant = %(tenant)s AND id = %(id)s AND status = 'pending';

-- let_go --
-- What can no longer be taken back loses its staged content, unless what was rejected is kept for good.
UPDATE proposal SET salt = NULL, request = CASE WHEN %(keeps)s AND status = 'rejected' THEN request END
WHERE tenant = %(tenant)s AND status IN ('approved', 'rejected') AND salt IS NOT NULL AND reviewed_at < %(before)s
RETURNING id;

-- let_go_of --
-- One that is taken back, once.
UPDATE proposal SET salt = NULL, request = NULL, traits = NULL
WHERE tenant = %(tenant)s AND id = %(id)s AND status IN ('approved', 'rejected') AND salt IS NOT NULL
RETURNING id;

-- approve --
-- One more of several has said yes; who had was checked under the tenant's lock.
UPDATE proposal SET given = %(given)s
WHERE tenant = %(tenant)s AND id = %(id)s AND status = 'pending';

-- given --
-- Who has said yes to what still waits. SQLite asks for one at a time.
SELECT id, given FROM proposal WHERE tenant = %(tenant)s AND id = ANY(%(ids)s) AND status = 'pending';

-- + asked --
-- Held writes, and what narrows them; a value that is not given asks for nothing.
SELECT tenant, id, operation, agent_id, record_id, request, writer, held_by, status, created_at, lapses_at, reviewer,
  reviewed_at, reason, approvals, given, because, salt, traits
FROM proposal WHERE tenant = %(tenant)s AND (%(operation)s::text IS NULL OR operation = %(operation)s)
  AND (%(agent_id)s::text IS NULL OR agent_id = %(agent_id)s) AND (%(writer)s::text IS NULL OR writer = %(writer)s)
  AND (%(in_held)s::text IS NULL OR strpos(held_by::text, %(in_held)s) > 0)
  AND (%(of_imports)s::int IS NULL OR strpos(request::text, '"import_id"') > 0)

-- proposals --
-- Proposals that stand in one way, oldest first, after a place.
  -- + asked
  AND status = %(status)s AND (created_at, id) > (%(created_at)s, %(id)s::text)
ORDER BY created_at, id LIMIT nullif(%(limit)s, -1);

-- proposals_back --
-- The same, newest first, before a place.
  -- + asked
  AND status = %(status)s AND (created_at, id) < (%(created_at)s, %(id)s::text)
ORDER BY created_at DESC, id DESC LIMIT nullif(%(limit)s, -1);

-- every_proposal --
-- Proposals however they stand, oldest first, after a place.
  -- + asked
  AND (created_at, id) > (%(created_at)s, %(id)s::text)
ORDER BY created_at, id LIMIT nullif(%(limit)s, -1);

-- every_proposal_back --
-- The same, newest first, before a place.
  -- + asked
  AND (created_at, id) < (%(created_at)s, %(id)s::text)
ORDER BY created_at DESC, id DESC LIMIT nullif(%(limit)s, -1);

-- proposal --
-- One proposal.
SELECT tenant, id, operation, agent_id, record_id, request, writer, held_by, status, created_at, lapses_at, reviewer,
  reviewed_at, reason, approvals, given, because, salt, traits
FROM proposal WHERE tenant = %(tenant)s AND id = %(id)s;

-- add_webhook --
-- Send notices there from now on.
INSERT INTO webhook (tenant, id, url, events, agents, with_content, created_at, created_by, sealed, position)
VALUES (%(tenant)s, %(id)s, %(url)s, %(events)s, %(agents)s, %(with_content)s, %(created_at)s, %(created_by)s, %(sealed)s,
  %(position)s);

-- drop_webhook --
-- Send none there any more.
DELETE FROM webhook WHERE tenant = %(tenant)s AND id = %(id)s;

-- webhooks --
-- Where notices are sent, oldest first.
SELECT tenant, id, url, events, agents, with_content, created_at, created_by, position, attempts, next_at, error, dropped,
  sealed
FROM webhook WHERE tenant = %(tenant)s ORDER BY id;

-- move_webhook --
-- How far it has been told, unless somebody else has told it meanwhile.
UPDATE webhook SET position = %(position)s, attempts = %(attempts)s, next_at = %(next_at)s, error = %(error)s,
  dropped = %(dropped)s
WHERE tenant = %(tenant)s AND id = %(id)s AND position = %(was_position)s AND attempts = %(was_attempts)s
  AND next_at = %(was_next_at)s
RETURNING id;

-- dismiss --
-- A suggested rule is not wanted.
INSERT INTO dismissal (tenant, id, at, reviewer) VALUES (%(tenant)s, %(id)s, %(at)s, %(reviewer)s) ON CONFLICT DO NOTHING;

-- dismissals --
-- Suggested rules that are not wanted.
SELECT id FROM dismissal WHERE tenant = %(tenant)s;

-- intend --
-- Effects to be carried to every mirror that is written to.
INSERT INTO outbox (tenant, mirror, seq)
SELECT m.tenant, m.name, entry.seq FROM mirror m CROSS JOIN unnest(%(seqs)s::bigint[]) AS entry (seq)
WHERE m.tenant = %(tenant)s AND m.writes = 1;

-- register_mirror --
-- The tenant has this mirror from now on.
INSERT INTO mirror AS known (tenant, name, writes) VALUES (%(tenant)s, %(name)s, %(writes)s)
ON CONFLICT (tenant, name) DO UPDATE SET writes = excluded.writes WHERE known.tenant = %(tenant)s;

-- drop_mirror --
-- The tenant has this mirror no more.
DELETE FROM mirror WHERE tenant = %(tenant)s AND name = %(name)s;

-- drop_intents --
-- Nothing is to be carried to this mirror any more.
DELETE FROM outbox WHERE tenant = %(tenant)s AND mirror = %(name)s;

-- drop_mirrored --
-- Nothing is known any more of what this mirror holds.
DELETE FROM mirrored WHERE tenant = %(tenant)s AND mirror = %(name)s;

-- claim_mirror --
-- Whoever carries effects to a mirror is alone until a moment, unless somebody else already is.
UPDATE mirror SET holder = %(holder)s, held_until = %(until)s
WHERE tenant = %(tenant)s AND name = %(name)s AND (holder IS NULL OR holder = %(holder)s OR held_until <= %(now)s) RETURNING name;

-- intents --
-- Effects that are due, with the records that they are about.
SELECT o.seq, o.attempts, j.at, j.records FROM outbox o JOIN journal j ON j.tenant = o.tenant AND j.seq = o.seq
WHERE o.tenant = %(tenant)s AND o.mirror = %(name)s AND o.status = 'intent' AND o.next_at <= %(now)s
ORDER BY o.seq LIMIT %(limit)s;

-- end_intent --
-- An effect was carried out.
DELETE FROM outbox WHERE tenant = %(tenant)s AND mirror = %(name)s AND seq = %(seq)s;

-- retry_intent --
-- An effect failed and is tried again later, or given up.
UPDATE outbox SET status = %(status)s, attempts = %(attempts)s, next_at = %(next_at)s, error = %(error)s
WHERE tenant = %(tenant)s AND mirror = %(name)s AND seq = %(seq)s;

-- revive_intents --
-- Everything that waits or was given up is due now.
UPDATE outbox SET status = 'intent', attempts = 0, next_at = 0, error = NULL WHERE tenant = %(tenant)s AND mirror = %(name)s;

-- keep_mirrored --
-- Where a record is in a mirror; a native id that is not known does not hide one that is.
INSERT INTO mirrored AS known (tenant, mirror, record_id, native_id, version, store_id, agent_id, user_id, state)
VALUES (%(tenant)s, %(name)s, %(record_id)s, %(native_id)s, %(version)s, %(store_id)s, %(agent_id)s, %(user_id)s, %(state)s)
ON CONFLICT (tenant, mirror, record_id) DO UPDATE SET native_id = coalesce(excluded.native_id, known.native_id),
  version = excluded.version, store_id = excluded.store_id, agent_id = excluded.agent_id, user_id = excluded.user_id,
  state = excluded.state
WHERE known.tenant = %(tenant)s;

-- end_mirrored --
-- Nothing of a record is left in a mirror; that its native id was ours is still known.
UPDATE mirrored SET state = 'gone', version = 0, store_id = '', agent_id = '', user_id = NULL
WHERE tenant = %(tenant)s AND mirror = %(name)s AND record_id = %(record_id)s;

-- mirrored --
-- Where records are in a mirror.
SELECT record_id, native_id, version, store_id, agent_id, user_id, state FROM mirrored
WHERE tenant = %(tenant)s AND mirror = %(name)s AND record_id = ANY(%(ids)s);

-- mirrored_as --
-- Whose native ids these are.
SELECT record_id, native_id, version, store_id, agent_id, user_id, state FROM mirrored
WHERE tenant = %(tenant)s AND mirror = %(name)s AND native_id = ANY(%(ids)s);

-- mirrored_elsewhere --
-- Which of these native ids are another tenant's: those are never shown.
SELECT DISTINCT native_id FROM mirrored WHERE mirror = %(name)s AND native_id = ANY(%(ids)s) AND tenant <> %(tenant)s;

-- mirrored_page --
-- What a mirror should hold, by record.
SELECT record_id, native_id, version, store_id, agent_id, user_id, state FROM mirrored
WHERE tenant = %(tenant)s AND mirror = %(name)s AND record_id > %(after)s ORDER BY record_id LIMIT %(limit)s;

-- mirror_containers --
-- Where copies of a scope are.
SELECT DISTINCT store_id, agent_id, user_id FROM mirrored
WHERE tenant = %(tenant)s AND mirror = %(name)s AND state IN ('sending', 'kept') AND (%(agent_id)s::text IS NULL OR agent_id = %(agent_id)s)
  AND (%(store_id)s::text IS NULL OR store_id = %(store_id)s) AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
ORDER BY store_id, agent_id, user_id LIMIT %(limit)s;

-- mirror_standings --
-- How each of the tenant's mirrors stands.
SELECT m.name, m.writes, m.filled, m.fill_below, m.succeeded_at, m.error, m.drift,
  (SELECT count(*) FROM outbox o WHERE o.tenant = m.tenant AND o.mirror = m.name AND o.status = 'intent'),
  (SELECT count(*) FROM outbox o WHERE o.tenant = m.tenant AND o.mirror = m.name AND o.status = 'dead'),
  (SELECT min(j.at) FROM outbox o JOIN journal j ON j.tenant = o.tenant AND j.seq = o.seq
   WHERE o.tenant = m.tenant AND o.mirror = m.name)
FROM mirror m WHERE m.tenant = %(tenant)s ORDER BY m.name;

-- note_mirror --
-- How the last effect went.
UPDATE mirror SET succeeded_at = coalesce(%(succeeded_at)s::bigint, succeeded_at), error = %(error)s
WHERE tenant = %(tenant)s AND name = %(name)s;

-- note_drift --
-- A mirror showed texts that are not the ledger's.
UPDATE mirror SET drift = drift + %(count)s WHERE tenant = %(tenant)s AND name = %(name)s;

-- fill_mirror --
-- How far what was there before the mirror has been sent to it.
UPDATE mirror SET filled = %(filled)s, fill_below = %(below)s WHERE tenant = %(tenant)s AND name = %(name)s;

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

-- + may_pass --
-- What narrows a walk before a record is unpacked; a value that is not given asks for nothing.
  AND (%(states)s::text IS NULL OR strpos(%(states)s, state) > 0)
  AND (%(is_ended)s::int IS NULL OR died IS NOT NULL OR salt IS NULL)
  AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s) AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
  AND (%(store_id)s::text IS NULL OR store_id = %(store_id)s) AND (%(types)s::text IS NULL OR strpos(%(types)s, type) > 0)
  AND (%(created_to)s::bigint IS NULL OR created_at <= %(created_to)s) AND (%(source)s::text IS NULL OR source = %(source)s)
  AND (%(in_metadata)s::text IS NULL OR strpos(metadata::text, %(in_metadata)s) > 0)
  AND (%(in_tags)s::text IS NULL OR strpos(tags::text, %(in_tags)s) > 0)
  AND (%(created_from)s::bigint IS NULL OR created_at >= %(created_from)s)
  AND (%(confidence_from)s::float8 IS NULL OR confidence BETWEEN %(confidence_from)s AND %(confidence_to)s)
  AND (%(importance_from)s::float8 IS NULL OR importance BETWEEN %(importance_from)s AND %(importance_to)s)
  AND CASE WHEN %(number_at)s::text IS NULL THEN true
    WHEN jsonb_typeof(jsonb_path_query_first(metadata::jsonb, %(number_at)s::text::jsonpath)) = 'number'
    THEN jsonb_path_query_first(metadata::jsonb, %(number_at)s::text::jsonpath)::float8
      BETWEEN %(number_from)s::float8 AND %(number_to)s::float8
    ELSE false END

-- page_at --
-- Newest ids first: what was current at a position, of all agents.
SELECT * FROM record WHERE tenant = %(tenant)s AND id < %(below)s AND born <= %(seq)s AND (died IS NULL OR died > %(seq)s)
  -- + may_pass
ORDER BY id DESC LIMIT %(limit)s;

-- page_of_agent_at --
-- The same of one agent.
SELECT * FROM record WHERE tenant = %(tenant)s AND agent_id = %(agent_id)s AND id < %(below)s
  AND born <= %(seq)s AND (died IS NULL OR died > %(seq)s)
  -- + may_pass
ORDER BY id DESC LIMIT %(limit)s;

-- page_of_newest --
-- Newest ids first: the newest version of each record, whatever became of it.
SELECT * FROM record AS r WHERE tenant = %(tenant)s AND id < %(below)s
  AND NOT EXISTS (SELECT 1 FROM record AS n WHERE n.tenant = %(tenant)s AND n.id = r.id AND n.version > r.version)
  -- + may_pass
ORDER BY id DESC LIMIT %(limit)s;

-- page_of_agent_newest --
-- The same of one agent.
SELECT * FROM record AS r WHERE tenant = %(tenant)s AND agent_id = %(agent_id)s AND id < %(below)s
  AND NOT EXISTS (SELECT 1 FROM record AS n WHERE n.tenant = %(tenant)s AND n.id = r.id AND n.version > r.version)
  -- + may_pass
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

-- rules_of_terms --
-- Which rules the terms were cut by.
SELECT terms FROM tenant WHERE tenant = %(tenant)s;

-- settle_terms --
-- By now all terms were cut by these rules.
UPDATE tenant SET terms = %(terms)s WHERE tenant = %(tenant)s;

-- renew_terms --
-- Other terms for versions. Those that were emptied meanwhile get none.
UPDATE record AS r SET terms = w.terms
FROM unnest(%(ids)s::text[], %(versions)s::integer[], %(terms)s::bytea[]) AS w (id, version, terms)
WHERE r.tenant = %(tenant)s AND r.id = w.id AND r.version = w.version AND (r.emptied IS NULL OR w.terms IS NULL);

-- note_renewal --
-- Versions that were there already got other terms, whatever the space in use.
UPDATE tenant SET refilled = refilled + 1 WHERE tenant = %(tenant)s;

-- choose_space --
-- Search in this space from now on.
UPDATE tenant SET space = %(space)s WHERE tenant = %(tenant)s;

-- drop_space_vectors --
-- Vectors of a space that was left.
DELETE FROM embedding WHERE tenant = %(tenant)s AND space = %(space)s;

-- without_vector --
-- Searchable versions that have no vector in a space. One of another length is none.
SELECT r.* FROM record AS r
WHERE r.tenant = %(tenant)s AND r.terms IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM embedding AS v
  WHERE v.tenant = %(tenant)s AND v.row = r.row AND v.space = %(space)s AND vector_dims(v.data) = %(dimensions)s
)
ORDER BY r.row LIMIT %(limit)s;

-- row_of --
-- The rows of versions that still say what they said.
SELECT r.id, r.version, r.row FROM unnest(%(ids)s::text[], %(versions)s::integer[]) AS w (id, version)
JOIN record AS r ON r.id = w.id AND r.version = w.version
WHERE r.tenant = %(tenant)s AND r.emptied IS NULL;

-- version_vectors --
-- The vectors of versions.
SELECT r.id, v.data FROM unnest(%(ids)s::text[], %(versions)s::integer[]) AS w (id, version)
JOIN record AS r ON r.id = w.id AND r.version = w.version
JOIN embedding AS v ON v.tenant = %(tenant)s AND v.row = r.row AND v.space = %(space)s
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

-- drop_orphan_vectors --
-- They belong to nothing, and nobody may know what they were of.
DELETE FROM embedding AS v WHERE NOT EXISTS
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
  revoked_at, rate, recall_budget, review_stores, review_operations)
VALUES (%(tenant)s, %(id)s, %(digest)s, %(name)s, %(prefix)s, %(permissions)s, %(agents)s, %(user_id)s, %(created_at)s,
  %(created_by)s, %(expires_at)s, %(revoked_at)s, %(rate)s, %(recall_budget)s, %(review_stores)s,
  %(review_operations)s);

-- end_token --
-- A credential ends; one that ended earlier stays ended.
UPDATE token SET revoked_at = %(revoked_at)s
WHERE tenant = %(tenant)s AND id = %(id)s AND (revoked_at IS NULL OR revoked_at > %(revoked_at)s);

-- token --
-- The credential with this text, and when its tenant was created and suspended.
SELECT k.tenant, k.id, k.name, k.prefix, k.permissions, k.agents, k.user_id, k.created_at, k.created_by, k.expires_at,
  k.revoked_at, k.rate, k.recall_budget, k.review_stores, k.review_operations, t.created_at, t.suspended_at
FROM token k JOIN tenant t ON t.tenant = k.tenant WHERE k.tenant = %(tenant)s AND k.digest = %(digest)s;

-- tokens --
-- All credentials of a tenant.
SELECT tenant, id, name, prefix, permissions, agents, user_id, created_at, created_by, expires_at, revoked_at, rate,
  recall_budget, review_stores, review_operations
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

-- open_run --
-- A run begins.
INSERT INTO run (tenant, id, workflow_id, status, driver, position, taken_at, authority, inputs, configurable, metadata,
  tags, agent, secrets, worker, lease_until, last, source_run_id, from_seq, mode, created_at, ended_at, error)
VALUES (%(tenant)s, %(id)s, %(workflow_id)s, %(status)s, %(driver)s, %(position)s, %(taken_at)s, %(authority)s, %(inputs)s, %(configurable)s, %(metadata)s,
  %(tags)s, %(agent)s, %(secrets)s, %(worker)s, %(lease_until)s, %(last)s, %(source_run_id)s, %(from_seq)s, %(mode)s, %(created_at)s, %(ended_at)s, %(error)s);

-- step_run --
-- A run goes on.
UPDATE run SET status = %(status)s, last = %(last)s, worker = %(worker)s, lease_until = %(lease_until)s, secrets = %(secrets)s,
  error = coalesce(%(error)s::json, error), ended_at = coalesce(ended_at, %(ended_at)s::bigint)
WHERE tenant = %(tenant)s AND id = %(id)s;

-- add_event --
-- Something happened in a run.
INSERT INTO run_event (tenant, run_id, sequence, type, node_id, payload, at, causation_id, position)
VALUES (%(tenant)s, %(run_id)s, %(sequence)s, %(type)s, %(node_id)s, %(payload)s, %(at)s, %(causation_id)s, %(position)s);

-- set_variable --
-- A result of a run.
INSERT INTO run_variable (tenant, run_id, name, sequence, value) VALUES (%(tenant)s, %(run_id)s, %(name)s, %(sequence)s, %(value)s)
ON CONFLICT (tenant, run_id, name, sequence) DO UPDATE SET value = excluded.value;

-- set_variable_record --
-- Which record a result repeats.
INSERT INTO run_variable_record (tenant, record_id, run_id, name, sequence)
VALUES (%(tenant)s, %(record_id)s, %(run_id)s, %(name)s, %(sequence)s) ON CONFLICT DO NOTHING;

-- empty_variables --
-- Erasure: results that repeat the record.
UPDATE run_variable SET value = 'null' WHERE tenant = %(tenant)s AND (run_id, name, sequence) IN
  (SELECT run_id, name, sequence FROM run_variable_record WHERE tenant = %(tenant)s AND record_id = ANY(%(ids)s));

-- empty_event_tags --
-- Erasure: tags of the record in the logs of the runs that wrote it, and of runs that repeat those.
UPDATE run_event SET payload = (payload::jsonb - 'tags')::json
WHERE tenant = %(tenant)s AND type = 'memory.written' AND payload ->> 'memoryId' = ANY(%(ids)s) AND run_id IN (
  WITH RECURSIVE told (id) AS (
    SELECT (provenance ->> 'run_id') COLLATE "C" FROM record WHERE tenant = %(tenant)s AND id = ANY(%(ids)s)
    UNION SELECT run.id FROM told JOIN run ON run.source_run_id = told.id WHERE run.tenant = %(tenant)s
  ) SELECT id FROM told);

-- drop_run_events --
-- Retention: the log of a run.
DELETE FROM run_event WHERE tenant = %(tenant)s AND run_id = %(id)s;

-- drop_run_variables --
-- Retention: the results of a run.
DELETE FROM run_variable WHERE tenant = %(tenant)s AND run_id = %(id)s;

-- drop_run_variable_records --
-- Retention: what they repeated.
DELETE FROM run_variable_record WHERE tenant = %(tenant)s AND run_id = %(id)s;

-- expire_run --
-- Retention: what is left says that there was such a run.
UPDATE run SET expired = 1, inputs = '{}', configurable = '{}', metadata = '{}', tags = '[]'
WHERE tenant = %(tenant)s AND id = %(id)s;

-- run_head --
-- What a step has to know of its run.
SELECT id, status, last, worker, lease_until, secrets FROM run WHERE tenant = %(tenant)s AND id = ANY(%(ids)s);

-- run --
-- One run.
SELECT * FROM run WHERE tenant = %(tenant)s AND id = %(id)s;

-- run_page --
-- Runs, the newest first.
SELECT * FROM run WHERE tenant = %(tenant)s AND id < %(below)s AND (%(workflow_id)s::text IS NULL OR workflow_id = %(workflow_id)s)
ORDER BY id DESC LIMIT %(limit)s;

-- unfinished_runs --
-- Runs that an engine should see to.
SELECT * FROM run WHERE tenant = %(tenant)s AND status IN ('pending', 'running', 'cancelling')
  AND driver = 'engine' AND lease_until <= %(now)s ORDER BY id;

-- noting_runs --
-- Runs that are driven from outside, are at work and have noted something.
SELECT * FROM run WHERE tenant = %(tenant)s AND status IN ('pending', 'running', 'cancelling') AND driver = 'external'
  AND EXISTS (SELECT 1 FROM run_note AS n WHERE n.tenant = run.tenant AND n.run_id = run.id) ORDER BY id;

-- hold_run --
-- Whoever keeps a run's notes alive does so until a moment, or lets go, unless somebody else does.
UPDATE run SET worker = %(holder)s, lease_until = %(until)s
WHERE tenant = %(tenant)s AND id = %(id)s AND (worker IS NULL OR worker = %(keeper)s) RETURNING id;

-- ended_runs --
-- Runs whose history has had its time.
SELECT * FROM run WHERE tenant = %(tenant)s AND ended_at < %(before)s AND expired = 0 ORDER BY id LIMIT %(limit)s;

-- run_events --
-- A stretch of a run's log.
SELECT run_id, sequence, type, node_id, payload, at, causation_id, position FROM run_event
WHERE tenant = %(tenant)s AND run_id = %(run_id)s AND sequence > %(after)s ORDER BY sequence LIMIT %(limit)s;

-- run_variables --
-- Results of a run, each time they were set, with the records they repeat.
SELECT v.name, v.sequence, v.value, r.record_id FROM run_variable AS v
LEFT JOIN run_variable_record AS r
  ON r.tenant = v.tenant AND r.run_id = v.run_id AND r.name = v.name AND r.sequence = v.sequence
WHERE v.tenant = %(tenant)s AND v.run_id = %(run_id)s ORDER BY v.sequence, v.name, r.record_id;

-- add_run_note --
-- A run notes something; the number is that of the commit.
INSERT INTO run_note (tenant, run_id, backend, position, text) VALUES (%(tenant)s, %(run_id)s, %(backend)s, %(position)s, %(text)s);

-- clear_run_notes --
-- What a run has noted in one place goes.
DELETE FROM run_note WHERE tenant = %(tenant)s AND run_id = %(id)s AND backend = %(backend)s;

-- drop_run_notes --
-- All that a run has noted goes.
DELETE FROM run_note WHERE tenant = %(tenant)s AND run_id = %(id)s;

-- run_notes --
-- What a run has noted in one place, in order.
SELECT text FROM run_note WHERE tenant = %(tenant)s AND run_id = %(run_id)s AND backend = %(backend)s ORDER BY position;

-- run_note_count --
-- How much that is.
SELECT count(*) FROM run_note WHERE tenant = %(tenant)s AND run_id = %(run_id)s AND backend = %(backend)s;

-- keep_ref --
-- A ref is given out.
INSERT INTO memory_ref (tenant, ref, agent_id, store_id, created_at)
VALUES (%(tenant)s, %(ref)s, %(agent_id)s, %(store_id)s, %(created_at)s) ON CONFLICT DO NOTHING;

-- minted_ref --
-- What a ref stands for.
SELECT tenant, ref, agent_id, store_id, created_at FROM memory_ref WHERE tenant = %(tenant)s AND ref = %(ref)s;

-- ref_minted_for --
-- The ref of an agent's memory in a store.
SELECT tenant, ref, agent_id, store_id, created_at FROM memory_ref
WHERE tenant = %(tenant)s AND agent_id = %(agent_id)s AND store_id = %(store_id)s;

-- newest_entries --
-- One agent's live records at a position, the newest by creation first.
SELECT * FROM record WHERE tenant = %(tenant)s AND agent_id = %(agent_id)s AND born <= %(seq)s
  AND (died IS NULL OR died > %(seq)s) AND state = 'live' AND (expires_at IS NULL OR expires_at > %(now)s)
  AND %(seq)s >= (SELECT horizon FROM tenant WHERE tenant = %(tenant)s)
  AND created_at <= (SELECT greatest(%(until)s, ahead) FROM tenant WHERE tenant = %(tenant)s)
  AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s) AND (%(store_id)s::text IS NULL OR store_id = %(store_id)s)
  AND (%(tag)s::text IS NULL OR EXISTS (SELECT 1 FROM json_array_elements_text(tags) AS given WHERE given = %(tag)s))
ORDER BY created_at DESC, born DESC, id DESC LIMIT %(limit)s;

-- move_ahead --
-- A record says that it was created later than it was written.
UPDATE tenant SET ahead = %(created_at)s WHERE tenant = %(tenant)s AND ahead < %(created_at)s;

-- derived_from --
-- What was made here out of these records, at whatever time; what somebody linked by hand is their own.
SELECT DISTINCT from_id FROM link WHERE tenant = %(tenant)s
  AND to_id IN (SELECT json_array_elements_text(%(ids)s::json))
  AND (rel = 'compacted_from' OR (rel = 'derived_from' AND EXISTS (
    SELECT 1 FROM record AS made WHERE made.tenant = link.tenant AND made.id = link.from_id
      AND made.source IN ('consolidation', 'extraction'))))
ORDER BY from_id;

-- lending_head --
-- How an owner stands: their last change, their vectors, and whether they are shut out.
SELECT t.changed, s.model, s.dimensions, t.suspended_at
FROM tenant AS t LEFT JOIN space AS s ON s.tenant = t.tenant AND s.number = t.space
WHERE t.tenant = %(tenant)s;

-- lent_grant --
-- A grant, whatever became of it.
SELECT tenant, id, hash, body, grantee, status, registered_at, expires_at, revoked_at, uses, disclosed
FROM lent_grant WHERE tenant = %(tenant)s AND id = %(id)s;

-- lent_grants --
-- All grants of an owner, newest first.
SELECT tenant, id, hash, body, grantee, status, registered_at, expires_at, revoked_at, uses, disclosed
FROM lent_grant WHERE tenant = %(tenant)s ORDER BY registered_at DESC, id DESC;

-- move_grant --
-- How a grant that is kept stands now.
UPDATE lent_grant SET status = %(status)s, revoked_at = %(revoked_at)s, uses = %(uses)s, disclosed = %(disclosed)s
WHERE tenant = %(tenant)s AND id = %(id)s;

-- keep_grant --
-- A grant as it stands now.
INSERT INTO lent_grant (tenant, id, hash, body, grantee, status, registered_at, expires_at, revoked_at, uses, disclosed)
VALUES (%(tenant)s, %(id)s, %(hash)s, %(body)s, %(grantee)s, %(status)s, %(registered_at)s, %(expires_at)s, %(revoked_at)s, %(uses)s, %(disclosed)s)
ON CONFLICT (tenant, id) DO UPDATE SET
  status = excluded.status, revoked_at = excluded.revoked_at, uses = excluded.uses, disclosed = excluded.disclosed;

-- lent_among --
-- Those of the wanted records that a grant has shown.
SELECT record_id FROM lent_item
WHERE tenant = %(tenant)s AND grant_id = %(grant_id)s AND record_id = ANY(%(records)s);

-- lent_to --
-- The grants that have shown a record.
SELECT grant_id FROM lent_item WHERE tenant = %(tenant)s AND record_id = %(record_id)s ORDER BY grant_id;

-- lent_items --
-- The records that a grant has shown, and when first.
SELECT record_id, at FROM lent_item WHERE tenant = %(tenant)s AND grant_id = %(grant_id)s ORDER BY at, record_id;

-- add_lent_item --
-- A grant has shown a record for the first time.
INSERT INTO lent_item (tenant, grant_id, record_id, at) VALUES (%(tenant)s, %(grant_id)s, %(record_id)s, %(at)s);

-- log_ends --
-- The first and the last line of what wanted records were; of the log of who saw them only where it ends.
SELECT l.record_id, l.log, l.seq, l.version, l.entry, l.hash
FROM unnest(%(records)s::text[]) AS wanted (value) CROSS JOIN item_log AS l
WHERE l.tenant = %(tenant)s AND l.record_id = wanted.value AND l.log = 'state' AND l.seq = 1
UNION ALL
SELECT l.record_id, l.log, l.seq, l.version, l.entry, l.hash
FROM unnest(%(records)s::text[]) AS wanted (value) CROSS JOIN item_log AS l
WHERE l.tenant = %(tenant)s AND l.record_id = wanted.value AND l.log = 'state' AND l.seq > 1
  AND l.seq = (SELECT max(seq) FROM item_log WHERE tenant = %(tenant)s AND record_id = wanted.value AND log = 'state')
UNION ALL
SELECT l.record_id, l.log, l.seq, l.version, '{}', l.hash
FROM unnest(%(records)s::text[]) AS wanted (value) CROSS JOIN item_log AS l
WHERE l.tenant = %(tenant)s AND l.record_id = wanted.value AND l.log = 'disclosed'
  AND l.seq = (SELECT max(seq) FROM item_log WHERE tenant = %(tenant)s AND record_id = wanted.value AND log = 'disclosed');

-- item_log --
-- A whole log.
SELECT record_id, log, seq, version, entry, hash FROM item_log
WHERE tenant = %(tenant)s AND record_id = %(record_id)s AND log = %(log)s ORDER BY seq;

-- add_log_line --
-- The next line of a log.
INSERT INTO item_log (tenant, record_id, log, seq, version, entry, hash)
VALUES (%(tenant)s, %(record_id)s, %(log)s, %(seq)s, %(version)s, %(entry)s, %(hash)s);

-- receipt_end --
-- The last receipt of an owner's chain.
SELECT seq, hash FROM receipt WHERE tenant = %(tenant)s ORDER BY seq DESC LIMIT 1;

-- receipts --
-- A stretch of the chain.
SELECT seq, id, type, agent, grant_id, at, body, hash FROM receipt
WHERE tenant = %(tenant)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s;

-- receipts_about --
-- Those of one grant, and of whatever ends all of them, newest first.
-- Each half comes in order from an index of its own, so that no more is read than is wanted.
SELECT seq, id, type, agent, grant_id, at, body, hash FROM receipt
WHERE tenant = %(tenant)s AND grant_id = %(grant_id)s AND seq < %(before)s AND type <> 'kill_switch'
UNION ALL
SELECT seq, id, type, agent, grant_id, at, body, hash FROM receipt
WHERE tenant = %(tenant)s AND type = 'kill_switch' AND seq < %(before)s
ORDER BY seq DESC LIMIT %(limit)s;

-- receipts_to --
-- Those of one agent, oldest first, behind one of its own; an empty id stands before all of them.
SELECT seq, id, type, agent, grant_id, at, body, hash FROM receipt
WHERE tenant = %(tenant)s AND agent = %(agent)s AND seq > CASE WHEN %(after)s = '' THEN 0 ELSE (
  SELECT before.seq FROM receipt AS before
  WHERE before.tenant = %(tenant)s AND before.id = %(after)s AND before.agent = %(agent)s
) END
ORDER BY seq LIMIT %(limit)s;

-- add_receipt --
-- The next receipt.
INSERT INTO receipt (tenant, seq, id, type, agent, grant_id, at, body, hash)
VALUES (%(tenant)s, %(seq)s, %(id)s, %(type)s, %(agent)s, %(grant_id)s, %(at)s, %(body)s, %(hash)s);

-- erasures --
-- Requests to delete, newest first.
SELECT tenant, id, step, requested_at, completed_at, request, receipt
FROM erasure WHERE tenant = %(tenant)s ORDER BY requested_at DESC, id DESC;

-- keep_erasure --
-- How far a deletion has come. Whoever knows less than is kept, as another server was faster, changes nothing.
INSERT INTO erasure (tenant, id, step, requested_at, completed_at, request, receipt)
VALUES (%(tenant)s, %(id)s, %(step)s, %(requested_at)s, %(completed_at)s, %(request)s, %(receipt)s)
ON CONFLICT (tenant, id) DO UPDATE SET
  step = excluded.step, completed_at = excluded.completed_at, request = excluded.request, receipt = excluded.receipt
WHERE erasure.step <> 'done' AND (erasure.receipt IS NULL OR excluded.receipt IS NOT NULL);

-- erasure --
-- One of them, as it stands.
SELECT tenant, id, step, requested_at, completed_at, request, receipt
FROM erasure WHERE tenant = %(tenant)s AND id = %(id)s;

-- cascade_steps --
-- Who holds what was erased.
SELECT erasure_id, grantee, grant_id, item_ids, status, attempts, next_at, receipt
FROM cascade_step WHERE tenant = %(tenant)s ORDER BY erasure_id, grantee, grant_id;

-- keep_cascade_step --
-- How far one of them has been reached. Who has answered has answered, whoever else could not reach them.
INSERT INTO cascade_step (tenant, erasure_id, grantee, grant_id, item_ids, status, attempts, next_at, receipt)
VALUES (%(tenant)s, %(erasure_id)s, %(grantee)s, %(grant_id)s, %(item_ids)s, %(status)s, %(attempts)s, %(next_at)s, %(receipt)s)
ON CONFLICT (tenant, erasure_id, grantee, grant_id) DO UPDATE SET
  status = excluded.status, attempts = excluded.attempts, next_at = excluded.next_at, receipt = excluded.receipt
WHERE cascade_step.status <> 'done';

-- hold_item --
-- Something that another host has lent.
INSERT INTO held_item (tenant, source, grant_id, item_id, item, receipt_id, received_at, expires_at)
VALUES (%(tenant)s, %(source)s, %(grant_id)s, %(item_id)s, %(item)s, %(receipt_id)s, %(received_at)s, %(expires_at)s)
ON CONFLICT (tenant, source, grant_id, item_id) DO UPDATE SET
  item = excluded.item, receipt_id = excluded.receipt_id, received_at = excluded.received_at,
  expires_at = excluded.expires_at;

-- held_items --
-- What others have lent, newest first.
SELECT tenant, source, grant_id, item_id, item, receipt_id, received_at, expires_at
FROM held_item WHERE tenant = %(tenant)s ORDER BY received_at DESC, item_id;

-- drop_held_item --
-- They want it back.
DELETE FROM held_item
WHERE tenant = %(tenant)s AND source = %(source)s AND grant_id = %(grant_id)s AND item_id = %(item_id)s;

-- drop_expired_items --
-- Its time is over.
DELETE FROM held_item WHERE tenant = %(tenant)s AND expires_at <= %(now)s;

-- used_proof --
-- Whether a proof was used, and is remembered still.
SELECT 1 FROM used_proof WHERE tenant = %(tenant)s AND id = %(id)s AND until > %(now)s;

-- use_proof --
-- It is used now.
INSERT INTO used_proof (tenant, id, until) VALUES (%(tenant)s, %(id)s, %(until)s)
ON CONFLICT (tenant, id) DO UPDATE SET until = excluded.until;

-- drop_used_proofs --
-- Proofs that would be refused for their age anyway.
DELETE FROM used_proof WHERE tenant = %(tenant)s AND until <= %(now)s;

-- task_steps --
-- How a task stood, first to last.
SELECT tenant, task_id, number, state, at, detail FROM task_step
WHERE tenant = %(tenant)s AND task_id = %(task_id)s ORDER BY number;

-- add_task_step --
-- How it stands now; nothing, where somebody else has said so first.
INSERT INTO task_step (tenant, task_id, number, state, at, detail)
VALUES (%(tenant)s, %(task_id)s, %(number)s, %(state)s, %(at)s, %(detail)s)
ON CONFLICT (tenant, task_id, number) DO NOTHING;

-- drop_tasks --
-- Tasks that nobody has said anything of since.
DELETE FROM task_step WHERE tenant = %(tenant)s AND task_id IN (
  SELECT task_id FROM task_step WHERE tenant = %(tenant)s GROUP BY task_id HAVING max(at) <= %(before)s
);

-- drop_requests --
-- Requests for access that were refused, or have lapsed, this long ago.
DELETE FROM lent_grant
WHERE tenant = %(tenant)s AND substr(id, 1, 4) = 'mrq_' AND coalesce(revoked_at, expires_at) <= %(before)s;

-- misfiled --
-- Versions whose columns for search say otherwise than they do that they were emptied, or what they are about.
SELECT id, born FROM record WHERE tenant = %(tenant)s AND (
  (emptied IS NULL) <> (salt IS NOT NULL) OR subject IS DISTINCT FROM (provenance ->> 'subject')
) ORDER BY born LIMIT %(limit)s;

-- links_after --
-- Every edge, a page at a time.
SELECT from_id, to_id, rel, born, died FROM link
WHERE tenant = %(tenant)s AND (from_id, to_id, rel, born) > (%(from_id)s, %(to_id)s, %(rel)s, %(born)s)
ORDER BY from_id, to_id, rel, born LIMIT %(limit)s;

-- links_from --
-- The edges that ever led from a record.
SELECT from_id, to_id, rel, born, died FROM link WHERE tenant = %(tenant)s AND from_id = %(id)s;

-- demoted --
-- Records that rank lower.
SELECT id FROM mark WHERE tenant = %(tenant)s AND demoted;

-- token_hashes --
-- The hashes of the texts of tokens.
SELECT id, digest FROM token WHERE tenant = %(tenant)s;

-- reasons_after --
-- Every reason, a page at a time.
SELECT record_id, seq, text FROM reason
WHERE tenant = %(tenant)s AND (record_id, seq) > (%(id)s, %(seq)s) ORDER BY record_id, seq LIMIT %(limit)s;

-- answers_after --
-- Every answer that is kept, a page at a time, each with the entry of its position.
SELECT a.principal, a.operation, a.key, a.answer, a.at, a.seq,
  j.tenant, j.seq, j.at, j.actor, j.op, j.store, j.agent, j.run, j.node, j.records, j.detail, j.prev, j.hash
FROM answer AS a LEFT JOIN journal AS j ON j.tenant = a.tenant AND j.seq = a.seq
WHERE a.tenant = %(tenant)s AND (a.principal, a.operation, a.key) > (%(principal)s, %(operation)s, %(key)s)
ORDER BY a.principal, a.operation, a.key LIMIT %(limit)s;
