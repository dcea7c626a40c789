-- Shared by both engines. `:name` is a value, `IN $ids` a list, `$lock` a word of the dialect (queries.py).

-- name: add_tenant
INSERT INTO tenant (tenant, created_at) VALUES (:tenant, :at) ON CONFLICT (tenant) DO NOTHING

-- name: tenants
-- The one query that crosses tenants: whoever runs the server lists them.
SELECT tenant, created_at FROM tenant WHERE tenant > :tenant ORDER BY tenant LIMIT :limit

-- name: next_journaled_tenant
-- Whose journal comes next, whether it is listed as a tenant or not.
SELECT min(tenant) FROM journal WHERE tenant > :tenant

-- name: tenant_created
SELECT created_at FROM tenant WHERE tenant = :tenant

-- name: lock_head
SELECT seq, hash, at, changed, horizon, guarded, suspended_at, space, refilled FROM head WHERE tenant = :tenant $lock

-- name: add_head
INSERT INTO head (tenant, seq, hash, at, changed, horizon, space, refilled, suspended_at, guarded)
VALUES (:tenant, 0, :hash, 0, 0, 0, NULL, 0, NULL, 0) ON CONFLICT (tenant) DO NOTHING

-- name: move_head
UPDATE head SET seq = :seq, hash = :hash, at = :at, changed = :changed, guarded = :guarded, suspended_at = :suspended_at
WHERE tenant = :tenant

-- name: head
SELECT seq, hash, at, changed, horizon, guarded, suspended_at, space, refilled FROM head WHERE tenant = :tenant

-- name: states
-- The newest version of each, whether it is current, whether it was erased.
SELECT r.id, r.version, r.died, r.state, r.digest FROM record AS r
WHERE r.tenant = :tenant AND r.id IN $ids
  AND r.version = (SELECT max(n.version) FROM record AS n WHERE n.tenant = :tenant AND n.id = r.id)

-- name: derived_since
-- Whether something was made out of a record after a position, or took its words by a merge.
SELECT l.to_id, max(l.born) FROM link AS l
WHERE l.tenant = :tenant AND l.to_id IN $ids AND l.rel IN ('derived_from', 'compacted_from') GROUP BY l.to_id

-- name: merged_since
SELECT id, max(died) FROM record WHERE tenant = :tenant AND id IN $ids AND merged_into IS NOT NULL GROUP BY id

-- name: add_entry
INSERT INTO journal (tenant, seq, at, actor, op, store, agent, run, node, records, detail, hash)
VALUES (:tenant, :seq, :at, :actor, :op, :store, :agent, :run, :node, :records, :detail, :hash)

-- name: add_record
INSERT INTO record (tenant, id, version, born, died, ending, merged_into, emptied, store_id, agent_id, user_id,
  session_id, type, tier, state, content, metadata, tags, links, confidence, importance, source, provenance, details,
  privacy, created_at, updated_at, expires_at, key, valid_from, valid_until, subject, sensitivity, share_with,
  event_time, run_id, asks, by_assistant, salt, digest, terms)
VALUES (:tenant, :id, :version, :born, NULL, NULL, NULL, NULL, :store_id, :agent_id, :user_id,
  :session_id, :type, :tier, :state, :content, :metadata, :tags, :links, :confidence, :importance, :source, :provenance,
  :details, :privacy, :created_at, :updated_at, :expires_at, :key, :valid_from, :valid_until, :subject, :sensitivity,
  :share_with, :event_time, :run_id, :asks, :by_assistant, :salt, :digest, :terms)

-- name: end_record
UPDATE record SET died = :died, ending = :ending, merged_into = :merged_into
WHERE tenant = :tenant AND id = :id AND version = :version

-- name: add_vector
INSERT INTO vector (tenant, id, version, space, data) VALUES (:tenant, :id, :version, :space, :data)
ON CONFLICT (tenant, id, version, space) DO UPDATE SET data = excluded.data

-- name: copy_terms
UPDATE record SET terms = (
  SELECT p.terms FROM record AS p WHERE p.tenant = :tenant AND p.id = :id AND p.version = :former)
WHERE tenant = :tenant AND id = :id AND version = :version

-- name: copy_vectors
INSERT INTO vector (tenant, id, version, space, data)
SELECT tenant, id, cast(:version AS bigint), space, data FROM vector
WHERE tenant = :tenant AND id = :id AND version = :former

-- name: add_link
INSERT INTO link (tenant, from_id, to_id, rel, born, died) VALUES (:tenant, :from_id, :to_id, :rel, :born, NULL)

-- name: end_links
UPDATE link SET died = :died WHERE tenant = :tenant AND from_id = :id AND died IS NULL AND born < :died

-- name: demote
INSERT INTO mark (tenant, id, last_recalled_at, recall_count, demoted, changed) VALUES (:tenant, :id, NULL, 0, 1, :seq)
ON CONFLICT (tenant, id) DO UPDATE SET demoted = 1, changed = excluded.changed

-- name: lift_demotion
UPDATE mark SET demoted = 0, changed = :seq WHERE tenant = :tenant AND id = :id AND demoted = 1

-- name: touch
INSERT INTO mark (tenant, id, last_recalled_at, recall_count, demoted, changed) VALUES (:tenant, :id, :at, 1, 0, 0)
ON CONFLICT (tenant, id) DO UPDATE SET recall_count = mark.recall_count + 1, last_recalled_at =
  CASE WHEN mark.last_recalled_at > excluded.last_recalled_at THEN mark.last_recalled_at
  ELSE excluded.last_recalled_at END

-- name: add_reason
INSERT INTO reason (tenant, record_id, seq, text) VALUES (:tenant, :record_id, :seq, :text)
ON CONFLICT (tenant, record_id, seq) DO NOTHING

-- name: reasons
SELECT seq, text FROM reason WHERE tenant = :tenant AND record_id = :id

-- name: empty_record
-- An erasure: what was said goes, that there was something stays.
UPDATE record SET content = '', metadata = NULL, tags = NULL, links = NULL, importance = NULL, source = NULL,
  provenance = :provenance, details = NULL, privacy = NULL, user_id = NULL, session_id = NULL, key = NULL,
  valid_from = NULL, valid_until = NULL, expires_at = NULL, subject = NULL, sensitivity = NULL, share_with = NULL,
  event_time = NULL, run_id = NULL, asks = 0, by_assistant = 0, salt = NULL, terms = NULL, state = 'erased', emptied = :seq,
  died = coalesce(died, :seq), ending = coalesce(ending, 'forgotten')
WHERE tenant = :tenant AND id = :id AND emptied IS NULL

-- name: empty_old_versions
-- Retention: versions that ended before a position lose what they said; the newest of each record stays.
UPDATE record SET content = '', metadata = NULL, tags = NULL, links = NULL, importance = NULL, source = NULL,
  provenance = :provenance, details = NULL, privacy = NULL, session_id = NULL, key = NULL, valid_from = NULL,
  valid_until = NULL, expires_at = NULL, subject = NULL, sensitivity = NULL, share_with = NULL, event_time = NULL,
  run_id = NULL, asks = 0, by_assistant = 0, salt = NULL, terms = NULL, state = 'erased', emptied = :seq
WHERE tenant = :tenant AND id IN $ids AND died <= :horizon AND ending = 'replaced' AND emptied IS NULL

-- name: ended_before
SELECT DISTINCT id FROM record
WHERE tenant = :tenant AND died <= :horizon AND ending = 'replaced' AND emptied IS NULL ORDER BY id LIMIT :limit

-- name: drop_old_vectors
DELETE FROM vector WHERE tenant = :tenant AND id IN $ids AND (id, version) IN (
  SELECT r.id, r.version FROM record AS r WHERE r.tenant = :tenant AND r.emptied = :seq)

-- name: raise_horizon
UPDATE head SET horizon = :horizon WHERE tenant = :tenant AND horizon < :horizon

-- name: drop_vectors
DELETE FROM vector WHERE tenant = :tenant AND id = :id

-- name: drop_links
DELETE FROM link WHERE tenant = :tenant AND (from_id = :id OR to_id = :id)

-- name: drop_mark
DELETE FROM mark WHERE tenant = :tenant AND id = :id

-- name: drop_reasons
DELETE FROM reason WHERE tenant = :tenant AND record_id = :id

-- name: drop_answers
DELETE FROM answer WHERE tenant = :tenant AND (principal, operation, key) IN (
  SELECT a.principal, a.operation, a.key FROM answer_record AS a WHERE a.tenant = :tenant AND a.record_id = :id)

-- name: drop_answer_records
DELETE FROM answer_record WHERE tenant = :tenant AND record_id = :id

-- name: add_answer
INSERT INTO answer (tenant, principal, operation, key, fingerprint, answer, at, seq)
VALUES (:tenant, :principal, :operation, :key, :fingerprint, :answer, :at, :seq)
ON CONFLICT (tenant, principal, operation, key) DO UPDATE SET
  fingerprint = excluded.fingerprint, answer = excluded.answer, at = excluded.at, seq = excluded.seq

-- name: add_answer_record
INSERT INTO answer_record (tenant, record_id, principal, operation, key)
VALUES (:tenant, :record_id, :principal, :operation, :key)
ON CONFLICT (tenant, record_id, principal, operation, key) DO NOTHING

-- name: answer
SELECT fingerprint, answer, at, seq FROM answer
WHERE tenant = :tenant AND principal = :principal AND operation = :operation AND key = :key AND at > :after

-- name: old_answers
DELETE FROM answer WHERE tenant = :tenant AND at <= :before

-- name: records_at
-- Versions that were current at a position.
SELECT $record FROM record AS r WHERE r.tenant = :tenant AND r.id IN $ids
  AND r.born <= :seq AND (r.died IS NULL OR r.died > :seq) AND r.emptied IS NULL

-- name: newest_versions
SELECT $record FROM record AS r WHERE r.tenant = :tenant AND r.id IN $ids
  AND r.version = (SELECT max(n.version) FROM record AS n WHERE n.tenant = :tenant AND n.id = r.id)

-- name: versions
SELECT $record FROM record AS r WHERE r.tenant = :tenant AND r.id = :id ORDER BY r.version

-- name: versions_of
SELECT $record FROM record AS r WHERE r.tenant = :tenant AND r.id IN $ids

-- name: metadata_of
SELECT id, version, metadata FROM record WHERE tenant = :tenant AND id IN $ids

-- name: every_version
SELECT $record FROM record AS r WHERE r.tenant = :tenant AND (r.id, r.version) > (:after_id, :after_version)
ORDER BY r.id, r.version LIMIT :limit

-- name: stored_versions
-- The same with everything that verification looks at.
SELECT $record, r.subject, r.sensitivity, r.share_with, r.event_time, r.run_id, r.asks, r.by_assistant, r.terms FROM record AS r
WHERE r.tenant = :tenant AND (r.id, r.version) > (:after_id, :after_version) ORDER BY r.id, r.version LIMIT :limit

-- name: stored_versions_of
SELECT $record, r.subject, r.sensitivity, r.share_with, r.event_time, r.run_id, r.asks, r.by_assistant, r.terms FROM record AS r
WHERE r.tenant = :tenant AND r.id IN $ids ORDER BY r.id, r.version

-- name: links_of
SELECT from_id, to_id, rel, born, died FROM link WHERE tenant = :tenant AND from_id IN $ids

-- name: vectors_of
SELECT id, version, space, data FROM vector WHERE tenant = :tenant AND id IN $ids

-- name: not_emptied
SELECT id, version FROM record WHERE tenant = :tenant AND id IN $ids AND emptied IS NULL

-- name: page_of_records
-- A walk through the newest versions, newest id first.
SELECT $record FROM record AS r WHERE r.tenant = :tenant AND r.id < :below
  AND (cast(:agent_id AS text) IS NULL OR r.agent_id = :agent_id)
  AND (cast(:store_id AS text) IS NULL OR r.store_id = :store_id)
  AND (cast(:user_id AS text) IS NULL OR r.user_id = :user_id)
  AND (cast(:session_id AS text) IS NULL OR r.session_id = :session_id)
  AND (cast(:created_to AS bigint) IS NULL OR r.created_at <= :created_to)
  AND (cast(:confidence_below AS double precision) IS NULL OR r.confidence < :confidence_below)
  AND r.born <= :seq AND (r.died IS NULL OR r.died > :seq OR (:with_ended = 1
    AND r.version = (SELECT max(n.version) FROM record AS n WHERE n.tenant = :tenant AND n.id = r.id)))
ORDER BY r.id DESC LIMIT :limit

-- name: newest_records
-- A walk through an agent's live records by when they were created, newest first.
SELECT $record FROM record AS r WHERE r.tenant = :tenant AND r.agent_id = :agent_id AND r.state = 'live'
  AND (cast(:store_id AS text) IS NULL OR r.store_id = :store_id)
  AND (cast(:user_id AS text) IS NULL OR r.user_id = :user_id)
  AND r.born <= :seq AND (r.died IS NULL OR r.died > :seq) AND (r.expires_at IS NULL OR r.expires_at > :now)
  AND (r.created_at, r.born, r.id) < (:created_at, :born, :id)
ORDER BY r.created_at DESC, r.born DESC, r.id DESC LIMIT :limit

-- name: count_by_agent
-- How many memories stand now, by whose they are, where and of what kind.
SELECT r.agent_id, r.store_id, r.type, count(*), max(r.created_at) FROM record AS r WHERE r.tenant = :tenant
  AND r.died IS NULL AND r.state = 'live' AND (r.expires_at IS NULL OR r.expires_at > :now)
  AND (cast(:user_id AS text) IS NULL OR r.user_id = :user_id) GROUP BY r.agent_id, r.store_id, r.type

-- name: facts
SELECT $record FROM record AS r WHERE r.tenant = :tenant AND r.agent_id = :agent_id AND r.key = :key
  AND r.store_id = :store_id AND r.died IS NULL AND coalesce(r.user_id, '') = :user_id

-- name: due
SELECT $record FROM record AS r WHERE r.tenant = :tenant AND r.expires_at <= :now AND r.died IS NULL
ORDER BY r.expires_at LIMIT :limit

-- name: derived
-- What compaction, consolidation or extraction made out of records, and is still there.
SELECT DISTINCT l.from_id FROM link AS l JOIN record AS r ON r.tenant = l.tenant AND r.id = l.from_id
WHERE l.tenant = :tenant AND l.to_id IN $ids AND r.emptied IS NULL
  AND (l.rel = 'compacted_from' OR (l.rel = 'derived_from' AND r.source IN ('consolidation', 'extraction')))

-- name: made_of
-- The same, whoever made it and says so.
SELECT DISTINCT l.from_id FROM link AS l JOIN record AS r ON r.tenant = l.tenant AND r.id = l.from_id
WHERE l.tenant = :tenant AND l.to_id IN $ids AND r.emptied IS NULL
  AND l.rel IN ('derived_from', 'compacted_from')

-- name: marks
SELECT id, last_recalled_at, recall_count, demoted FROM mark WHERE tenant = :tenant AND id IN $ids

-- name: summary
SELECT type, count(*), min(created_at), max(created_at), sum(octet_length(content)) FROM record
WHERE tenant = :tenant AND died IS NULL AND state = 'live' AND born <= :seq
  AND (cast(:agent_id AS text) IS NULL OR agent_id = :agent_id)
  AND (cast(:store_id AS text) IS NULL OR store_id = :store_id)
  AND (cast(:user_id AS text) IS NULL OR user_id = :user_id)
  AND (expires_at IS NULL OR expires_at > :now)
GROUP BY type

-- name: changed_between
SELECT id FROM record
WHERE tenant = :tenant AND agent_id = :agent_id AND born > :after AND born <= :until AND id < :below
UNION
SELECT id FROM record
WHERE tenant = :tenant AND agent_id = :agent_id AND died > :after AND died <= :until AND id < :below
ORDER BY id DESC LIMIT :limit

-- name: links_at
SELECT from_id, to_id FROM link WHERE tenant = :tenant AND (from_id IN $ids OR to_id IN $ids)
  AND born <= :seq AND (died IS NULL OR died > :seq)

-- name: survivors
-- What records were merged into at a position, and what that was merged into. One that was restored is itself again.
WITH RECURSIVE gone (tenant, id, into_id) AS (
  SELECT r.tenant, r.id, r.merged_into FROM record AS r
  WHERE r.tenant = :tenant AND r.id IN $ids AND r.merged_into IS NOT NULL AND r.died <= :seq
    AND NOT EXISTS (SELECT 1 FROM record AS n WHERE n.tenant = :tenant AND n.id = r.id AND n.version > r.version
      AND n.born <= :seq)
  UNION
  SELECT r.tenant, g.id, r.merged_into FROM gone AS g JOIN record AS r ON r.tenant = g.tenant AND r.id = g.into_id
  WHERE r.tenant = :tenant AND r.merged_into IS NOT NULL AND r.died <= :seq
    AND NOT EXISTS (SELECT 1 FROM record AS n WHERE n.tenant = :tenant AND n.id = r.id AND n.version > r.version
      AND n.born <= :seq))
SELECT id, into_id FROM gone WHERE tenant = :tenant

-- name: merged_away
-- The same the other way round: what records have taken in.
WITH RECURSIVE gone (tenant, into_id, id) AS (
  SELECT r.tenant, r.merged_into, r.id FROM record AS r
  WHERE r.tenant = :tenant AND r.merged_into IN $ids AND r.died <= :seq
    AND NOT EXISTS (SELECT 1 FROM record AS n WHERE n.tenant = :tenant AND n.id = r.id AND n.version > r.version
      AND n.born <= :seq)
  UNION
  SELECT r.tenant, g.into_id, r.id FROM gone AS g JOIN record AS r ON r.tenant = g.tenant AND r.merged_into = g.id
  WHERE r.tenant = :tenant AND r.died <= :seq
    AND NOT EXISTS (SELECT 1 FROM record AS n WHERE n.tenant = :tenant AND n.id = r.id AND n.version > r.version
      AND n.born <= :seq))
SELECT into_id, id FROM gone WHERE tenant = :tenant

-- name: load_agent
-- What search needs to know of each version of one agent.
SELECT r.id, r.version, r.born, r.died, r.expires_at, r.created_at, r.user_id, r.store_id, r.session_id, r.type,
  r.state, r.confidence, r.subject, r.sensitivity, coalesce(r.event_time, r.created_at), r.terms, v.data, r.agent_id,
  r.share_with, r.asks, r.by_assistant, r.valid_until
FROM record AS r LEFT JOIN vector AS v
  ON v.tenant = r.tenant AND v.id = r.id AND v.version = r.version AND v.space = coalesce(:space, -1)
WHERE r.tenant = :tenant AND r.agent_id = :owner AND r.born > :after AND r.emptied IS NULL
ORDER BY r.born, r.id, r.version

-- name: load_store
-- The same for a store that agents share.
SELECT r.id, r.version, r.born, r.died, r.expires_at, r.created_at, r.user_id, r.store_id, r.session_id, r.type,
  r.state, r.confidence, r.subject, r.sensitivity, coalesce(r.event_time, r.created_at), r.terms, v.data, r.agent_id,
  r.share_with, r.asks, r.by_assistant, r.valid_until
FROM record AS r LEFT JOIN vector AS v
  ON v.tenant = r.tenant AND v.id = r.id AND v.version = r.version AND v.space = coalesce(:space, -1)
WHERE r.tenant = :tenant AND r.store_id = :owner AND r.born > :after AND r.emptied IS NULL
ORDER BY r.born, r.id, r.version

-- name: deaths_of_agent
SELECT id, version, died FROM record WHERE tenant = :tenant AND agent_id = :owner AND died > :after

-- name: deaths_of_store
SELECT id, version, died FROM record WHERE tenant = :tenant AND store_id = :owner AND died > :after

-- name: emptied_of_agent
SELECT 1 FROM record WHERE tenant = :tenant AND agent_id = :owner AND emptied > :after LIMIT 1

-- name: emptied_of_store
SELECT 1 FROM record WHERE tenant = :tenant AND store_id = :owner AND emptied > :after LIMIT 1

-- name: demoted_of_agent
SELECT m.id, m.demoted FROM mark AS m WHERE m.tenant = :tenant AND m.changed > :after AND EXISTS (
  SELECT 1 FROM record AS r WHERE r.tenant = m.tenant AND r.id = m.id AND r.agent_id = :owner)

-- name: demoted_of_store
SELECT m.id, m.demoted FROM mark AS m WHERE m.tenant = :tenant AND m.changed > :after AND EXISTS (
  SELECT 1 FROM record AS r WHERE r.tenant = m.tenant AND r.id = m.id AND r.store_id = :owner)

-- name: entries
SELECT seq, at, actor, op, store, agent, run, node, records, detail, hash FROM journal
WHERE tenant = :tenant AND seq > :after AND seq < :before
  AND (cast(:op AS text) IS NULL OR op = :op)
  AND (cast(:actor AS text) IS NULL OR actor = :actor)
  AND (cast(:agent AS text) IS NULL OR agent = :agent)
  AND (cast(:run AS text) IS NULL OR run = :run)
  AND (cast(:since AS bigint) IS NULL OR at >= :since)
  AND (cast(:until AS bigint) IS NULL OR at <= :until)
  AND (cast(:record AS text) IS NULL OR records LIKE :record)
ORDER BY seq LIMIT :limit

-- name: newest_entries
SELECT seq, at, actor, op, store, agent, run, node, records, detail, hash FROM journal
WHERE tenant = :tenant AND seq > :after AND seq < :before
  AND (cast(:op AS text) IS NULL OR op = :op)
  AND (cast(:actor AS text) IS NULL OR actor = :actor)
  AND (cast(:agent AS text) IS NULL OR agent = :agent)
  AND (cast(:run AS text) IS NULL OR run = :run)
  AND (cast(:since AS bigint) IS NULL OR at >= :since)
  AND (cast(:until AS bigint) IS NULL OR at <= :until)
  AND (cast(:record AS text) IS NULL OR records LIKE :record)
ORDER BY seq DESC LIMIT :limit

-- name: entry_hash
SELECT hash FROM journal WHERE tenant = :tenant AND seq = :seq

-- name: entry_hashes
SELECT seq, hash FROM journal WHERE tenant = :tenant AND seq IN $seqs

-- name: position_at
SELECT coalesce(max(seq), 0) FROM journal WHERE tenant = :tenant AND at <= :moment

-- name: add_checkpoint
INSERT INTO checkpoint (tenant, seq, hash, at, key_id, signature)
VALUES (:tenant, :seq, :hash, :at, :key_id, :signature) ON CONFLICT (tenant, seq) DO NOTHING

-- name: checkpoints
SELECT seq, hash, at, key_id, signature FROM checkpoint WHERE tenant = :tenant AND seq > :after ORDER BY seq LIMIT :limit

-- name: last_checkpoint
SELECT seq, hash, at, key_id, signature FROM checkpoint WHERE tenant = :tenant ORDER BY seq DESC LIMIT 1

-- name: space
SELECT s.number, s.model, s.dimensions FROM space AS s JOIN head AS h ON h.tenant = s.tenant AND h.space = s.number
WHERE s.tenant = :tenant

-- name: spaces
SELECT number, model, dimensions FROM space WHERE tenant = :tenant ORDER BY number

-- name: add_space
INSERT INTO space (tenant, number, model, dimensions) VALUES (:tenant, :number, :model, :dimensions)

-- name: use_space
UPDATE head SET space = :number, refilled = refilled + 1 WHERE tenant = :tenant

-- name: refilled
UPDATE head SET refilled = refilled + 1 WHERE tenant = :tenant

-- name: drop_other_vectors
DELETE FROM vector WHERE tenant = :tenant AND space <> :number

-- name: drop_other_spaces
DELETE FROM space WHERE tenant = :tenant AND number <> :number

-- name: without_vector
SELECT $record FROM record AS r WHERE r.tenant = :tenant AND r.emptied IS NULL AND r.state = 'live'
  AND NOT EXISTS (SELECT 1 FROM vector AS v WHERE v.tenant = r.tenant AND v.id = r.id AND v.version = r.version
    AND v.space = :number)
ORDER BY r.id, r.version LIMIT :limit

-- name: vectors
SELECT id, version, data FROM vector WHERE tenant = :tenant AND space = :number AND id IN $ids

-- name: set_terms
UPDATE record SET terms = :terms WHERE tenant = :tenant AND id = :id AND version = :version AND emptied IS NULL

-- name: totals
-- Of all tenants behind a name. What stands is all but what has ended, which an index has.
SELECT (SELECT count(*) FROM tenant WHERE tenant > :tenant),
  (SELECT count(*) FROM record WHERE tenant > :tenant)
    - (SELECT count(*) FROM record WHERE tenant > :tenant AND died IS NOT NULL),
  (SELECT count(*) FROM journal WHERE tenant > :tenant),
  (SELECT count(*) FROM proposal WHERE tenant > :tenant AND status = 'pending'),
  (SELECT count(*) FROM outbox WHERE tenant > :tenant)

-- name: count_records
SELECT count(*), sum(CASE WHEN died IS NULL THEN 1 ELSE 0 END), sum(octet_length(content)
  + octet_length(coalesce(metadata, '')) + octet_length(coalesce(tags, '')) + octet_length(coalesce(links, ''))
  + octet_length(coalesce(details, '')) + octet_length(provenance) + coalesce(octet_length(terms), 0)) FROM record
WHERE tenant = :tenant

-- name: count_entries
SELECT count(*), sum(octet_length(records) + octet_length(detail) + octet_length(hash)) FROM journal
WHERE tenant = :tenant

-- name: count_vectors
SELECT count(*), sum(octet_length(data)) FROM vector WHERE tenant = :tenant
