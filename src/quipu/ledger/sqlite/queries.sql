-- open_tenant --
-- A tenant at the very start of its chain.
INSERT INTO tenant (tenant, created_at, seq, hash, at, changed, terms)
VALUES (:tenant, :at, 0, zeroblob(32), 0, 0, :terms)
ON CONFLICT DO NOTHING;

-- head --
-- Where the tenant's chain stands.
SELECT t.seq, t.hash, t.at, t.horizon, t.changed, t.space, s.dimensions, t.refilled, s.model, t.guarded
FROM tenant AS t LEFT JOIN space AS s ON s.tenant = t.tenant AND s.number = t.space
WHERE t.tenant = :tenant;

-- ground --
-- What a commit builds on: the chain, the space, the guard, and whether there is a mirror to carry it to.
SELECT t.seq, t.hash, t.at, t.changed, t.space, s.dimensions, s.model, t.guarded,
  EXISTS (SELECT 1 FROM mirror AS m WHERE m.tenant = t.tenant AND m.writes = 1)
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

-- + meant --
-- What narrows a stretch before an entry is unpacked; a value that is not given asks for nothing.
  AND (:ops IS NULL OR instr(:ops, ' ' || op || ' ') > 0) AND (:agent IS NULL OR agent = :agent)
  AND (:actor IS NULL OR actor = :actor) AND (:run IS NULL OR run = :run)
  AND (:in_records IS NULL OR instr(records, :in_records) > 0) AND (:in_detail IS NULL OR instr(detail, :in_detail) > 0)

-- entries_with --
-- Those of a stretch that are wanted.
SELECT tenant, seq, at, actor, op, store, agent, run, node, records, detail, prev, hash
FROM journal WHERE tenant = :tenant AND seq > :after AND seq <= :last
  -- + meant
ORDER BY seq LIMIT :limit;

-- entries_back --
-- The same, newest first.
SELECT tenant, seq, at, actor, op, store, agent, run, node, records, detail, prev, hash
FROM journal WHERE tenant = :tenant AND seq > :after AND seq <= :last
  -- + meant
ORDER BY seq DESC LIMIT :limit;

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

-- went_on_since --
-- Whether something was made out of a record since a position, or it was merged away.
SELECT 1 FROM link WHERE tenant = :tenant AND to_id = :id AND born > :after AND rel IN ('compacted_from', 'derived_from')
UNION ALL SELECT 1 FROM record WHERE tenant = :tenant AND id = :id AND died > :after AND merged_into IS NOT NULL LIMIT 1;

-- held_since --
-- What was held since a position, as far as it still says something.
SELECT request FROM proposal WHERE tenant = :tenant AND request IS NOT NULL AND id IN (
  SELECT detail ->> '$.proposal' FROM journal WHERE tenant = :tenant AND seq > :after AND op = 'hold');

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
UPDATE proposal SET request = NULL, reason = NULL, salt = NULL, traits = NULL,
  status = CASE status WHEN 'pending' THEN 'rejected' ELSE status END, reviewer = coalesce(reviewer, 'erased'), reviewed_at = coalesce(reviewed_at, :at)
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
  approvals, because, salt, traits)
VALUES (:tenant, :id, :operation, :agent_id, :record_id, :request, :writer, :held_by, 'pending', :created_at, :lapses_at,
  :approvals, :because, :salt, :traits);

-- settle --
-- Decide a proposal, once; its staged content goes, unless it is to be kept. A salt that stays says: for a while.
UPDATE proposal SET status = :status, reviewer = :reviewer, reviewed_at = :at, reason = :reason,
  salt = CASE WHEN :undoable THEN salt END, request = CASE WHEN :keeps OR :undoable THEN request END,
  traits = CASE WHEN :teaches THEN traits END
WHERE tenant = :tenant AND id = :id AND status = 'pending';

-- let_go --
-- What can no longer be taken back loses its staged content, unless what was rejected is kept for good.
UPDATE proposal SET salt = NULL, request = CASE WHEN :keeps AND status = 'rejected' THEN request END
WHERE tenant = :tenant AND status IN ('approved', 'rejected') AND salt IS NOT NULL AND reviewed_at < :before
RETURNING id;

-- let_go_of --
-- One that is taken back, once.
UPDATE proposal SET salt = NULL, request = NULL, traits = NULL
WHERE tenant = :tenant AND id = :id AND status IN ('approved', 'rejected') AND salt IS NOT NULL
RETURNING id;

-- approve --
-- One more of several has said yes.
UPDATE proposal SET given = :given WHERE tenant = :tenant AND id = :id;

-- given --
-- Who has said yes to what still waits.
SELECT given FROM proposal WHERE tenant = :tenant AND id = :id AND status = 'pending';

-- + asked --
-- Held writes, and what narrows them; a value that is not given asks for nothing.
SELECT tenant, id, operation, agent_id, record_id, request, writer, held_by, status, created_at, lapses_at, reviewer,
  reviewed_at, reason, approvals, given, because, salt, traits
FROM proposal WHERE tenant = :tenant AND (:operation IS NULL OR operation = :operation)
  AND (:agent_id IS NULL OR agent_id = :agent_id) AND (:writer IS NULL OR writer = :writer)
  AND (:in_held IS NULL OR instr(held_by, :in_held) > 0)
  AND (:of_imports IS NULL OR instr(request, '"import_id"') > 0)

-- proposals --
-- Proposals that stand in one way, oldest first, after a place.
  -- + asked
  AND status = :status AND (created_at, id) > (:created_at, :id)
ORDER BY created_at, id LIMIT :limit;

-- proposals_back --
-- The same, newest first, before a place.
  -- + asked
  AND status = :status AND (created_at, id) < (:created_at, :id)
ORDER BY created_at DESC, id DESC LIMIT :limit;

-- every_proposal --
-- Proposals however they stand, oldest first, after a place.
  -- + asked
  AND (created_at, id) > (:created_at, :id)
ORDER BY created_at, id LIMIT :limit;

-- every_proposal_back --
-- The same, newest first, before a place.
  -- + asked
  AND (created_at, id) < (:created_at, :id)
ORDER BY created_at DESC, id DESC LIMIT :limit;

-- proposal --
-- One proposal.
SELECT tenant, id, operation, agent_id, record_id, request, writer, held_by, status, created_at, lapses_at, reviewer,
  reviewed_at, reason, approvals, given, because, salt, traits
FROM proposal WHERE tenant = :tenant AND id = :id;

-- add_webhook --
-- Send notices there from now on.
INSERT INTO webhook (tenant, id, url, events, agents, with_content, created_at, created_by, sealed, position)
VALUES (:tenant, :id, :url, :events, :agents, :with_content, :created_at, :created_by, :sealed, :position);

-- drop_webhook --
-- Send none there any more.
DELETE FROM webhook WHERE tenant = :tenant AND id = :id;

-- webhooks --
-- Where notices are sent, oldest first.
SELECT tenant, id, url, events, agents, with_content, created_at, created_by, position, attempts, next_at, error, dropped,
  sealed
FROM webhook WHERE tenant = :tenant ORDER BY id;

-- move_webhook --
-- How far it has been told, unless somebody else has told it meanwhile.
UPDATE webhook SET position = :position, attempts = :attempts, next_at = :next_at, error = :error, dropped = :dropped
WHERE tenant = :tenant AND id = :id AND position = :was_position AND attempts = :was_attempts AND next_at = :was_next_at
RETURNING id;

-- dismiss --
-- A suggested rule is not wanted.
INSERT INTO dismissal (tenant, id, at, reviewer) VALUES (:tenant, :id, :at, :reviewer) ON CONFLICT DO NOTHING;

-- dismissals --
-- Suggested rules that are not wanted.
SELECT id FROM dismissal WHERE tenant = :tenant;

-- intend --
-- An effect to be carried to every mirror that is written to.
INSERT INTO outbox (tenant, mirror, seq) SELECT tenant, name, :seq FROM mirror WHERE tenant = :tenant AND writes = 1;

-- register_mirror --
-- The tenant has this mirror from now on.
INSERT INTO mirror AS known (tenant, name, writes) VALUES (:tenant, :name, :writes)
ON CONFLICT (tenant, name) DO UPDATE SET writes = excluded.writes WHERE known.tenant = :tenant;

-- drop_mirror --
-- The tenant has this mirror no more.
DELETE FROM mirror WHERE tenant = :tenant AND name = :name;

-- drop_intents --
-- Nothing is to be carried to this mirror any more.
DELETE FROM outbox WHERE tenant = :tenant AND mirror = :name;

-- drop_mirrored --
-- Nothing is known any more of what this mirror holds.
DELETE FROM mirrored WHERE tenant = :tenant AND mirror = :name;

-- claim_mirror --
-- Whoever carries effects to a mirror is alone until a moment, unless somebody else already is.
UPDATE mirror SET holder = :holder, held_until = :until
WHERE tenant = :tenant AND name = :name AND (holder IS NULL OR holder = :holder OR held_until <= :now) RETURNING name;

-- intents --
-- Effects that are due, with the records that they are about.
SELECT o.seq, o.attempts, j.at, j.records FROM outbox o JOIN journal j ON j.tenant = o.tenant AND j.seq = o.seq
WHERE o.tenant = :tenant AND o.mirror = :name AND o.status = 'intent' AND o.next_at <= :now
ORDER BY o.seq LIMIT :limit;

-- end_intent --
-- An effect was carried out.
DELETE FROM outbox WHERE tenant = :tenant AND mirror = :name AND seq = :seq;

-- retry_intent --
-- An effect failed and is tried again later, or given up.
UPDATE outbox SET status = :status, attempts = :attempts, next_at = :next_at, error = :error
WHERE tenant = :tenant AND mirror = :name AND seq = :seq;

-- revive_intents --
-- Everything that waits or was given up is due now.
UPDATE outbox SET status = 'intent', attempts = 0, next_at = 0, error = NULL WHERE tenant = :tenant AND mirror = :name;

-- keep_mirrored --
-- Where a record is in a mirror; a native id that is not known does not hide one that is.
INSERT INTO mirrored AS known (tenant, mirror, record_id, native_id, version, store_id, agent_id, user_id, state)
VALUES (:tenant, :name, :record_id, :native_id, :version, :store_id, :agent_id, :user_id, :state)
ON CONFLICT (tenant, mirror, record_id) DO UPDATE SET native_id = coalesce(excluded.native_id, known.native_id),
  version = excluded.version, store_id = excluded.store_id, agent_id = excluded.agent_id, user_id = excluded.user_id,
  state = excluded.state
WHERE known.tenant = :tenant;

-- end_mirrored --
-- Nothing of a record is left in a mirror; that its native id was ours is still known.
UPDATE mirrored SET state = 'gone', version = 0, store_id = '', agent_id = '', user_id = NULL
WHERE tenant = :tenant AND mirror = :name AND record_id = :record_id;

-- mirrored --
-- Where records are in a mirror.
SELECT record_id, native_id, version, store_id, agent_id, user_id, state FROM mirrored
WHERE tenant = :tenant AND mirror = :name AND record_id = :id;

-- mirrored_as --
-- Whose native ids these are.
SELECT record_id, native_id, version, store_id, agent_id, user_id, state FROM mirrored
WHERE tenant = :tenant AND mirror = :name AND native_id = :id;

-- mirrored_elsewhere --
-- Which of these native ids are another tenant's: those are never shown.
SELECT DISTINCT native_id FROM mirrored WHERE mirror = :name AND native_id = :id AND tenant <> :tenant;

-- mirrored_page --
-- What a mirror should hold, by record.
SELECT record_id, native_id, version, store_id, agent_id, user_id, state FROM mirrored
WHERE tenant = :tenant AND mirror = :name AND record_id > :after ORDER BY record_id LIMIT :limit;

-- mirror_containers --
-- Where copies of a scope are.
SELECT DISTINCT store_id, agent_id, user_id FROM mirrored
WHERE tenant = :tenant AND mirror = :name AND state IN ('sending', 'kept') AND (:agent_id IS NULL OR agent_id = :agent_id)
  AND (:store_id IS NULL OR store_id = :store_id) AND (:user_id IS NULL OR user_id = :user_id)
ORDER BY store_id, agent_id, user_id LIMIT :limit;

-- mirror_standings --
-- How each of the tenant's mirrors stands.
SELECT m.name, m.writes, m.filled, m.fill_below, m.succeeded_at, m.error, m.drift,
  (SELECT count(*) FROM outbox o WHERE o.tenant = m.tenant AND o.mirror = m.name AND o.status = 'intent'),
  (SELECT count(*) FROM outbox o WHERE o.tenant = m.tenant AND o.mirror = m.name AND o.status = 'dead'),
  (SELECT min(j.at) FROM outbox o JOIN journal j ON j.tenant = o.tenant AND j.seq = o.seq
   WHERE o.tenant = m.tenant AND o.mirror = m.name)
FROM mirror m WHERE m.tenant = :tenant ORDER BY m.name;

-- note_mirror --
-- How the last effect went.
UPDATE mirror SET succeeded_at = coalesce(:succeeded_at, succeeded_at), error = :error
WHERE tenant = :tenant AND name = :name;

-- note_drift --
-- A mirror showed texts that are not the ledger's.
UPDATE mirror SET drift = drift + :count WHERE tenant = :tenant AND name = :name;

-- fill_mirror --
-- How far what was there before the mirror has been sent to it.
UPDATE mirror SET filled = :filled, fill_below = :below WHERE tenant = :tenant AND name = :name;

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

-- + may_pass --
-- What narrows a walk before a record is unpacked; a value that is not given asks for nothing.
  AND (:states IS NULL OR instr(:states, state) > 0) AND (:is_ended IS NULL OR died IS NOT NULL OR salt IS NULL)
  AND (:user_id IS NULL OR user_id = :user_id) AND (:session_id IS NULL OR session_id = :session_id)
  AND (:store_id IS NULL OR store_id = :store_id) AND (:types IS NULL OR instr(:types, type) > 0)
  AND (:created_to IS NULL OR created_at <= :created_to) AND (:source IS NULL OR source = :source)
  AND (:in_metadata IS NULL OR instr(metadata, :in_metadata) > 0) AND (:in_tags IS NULL OR instr(tags, :in_tags) > 0)
  AND (:created_from IS NULL OR created_at >= :created_from)
  AND (:confidence_from IS NULL OR confidence BETWEEN :confidence_from AND :confidence_to)
  AND (:importance_from IS NULL OR importance BETWEEN :importance_from AND :importance_to)
  AND CASE WHEN :number_at IS NULL OR json_valid(metadata) = 0 THEN 1
    ELSE json_extract(metadata, :number_at) BETWEEN :number_from AND :number_to END

-- page_at --
-- Newest ids first: what was current at a position, of all agents.
SELECT * FROM record WHERE tenant = :tenant AND id < :below AND born <= :seq AND (died IS NULL OR died > :seq)
  -- + may_pass
ORDER BY id DESC LIMIT :limit;

-- page_of_agent_at --
-- The same of one agent.
SELECT * FROM record WHERE tenant = :tenant AND agent_id = :agent_id AND id < :below
  AND born <= :seq AND (died IS NULL OR died > :seq)
  -- + may_pass
ORDER BY id DESC LIMIT :limit;

-- page_of_newest --
-- Newest ids first: the newest version of each record, whatever became of it.
SELECT * FROM record AS r WHERE tenant = :tenant AND id < :below
  AND version = (SELECT max(version) FROM record AS n WHERE n.tenant = r.tenant AND n.id = r.id)
  -- + may_pass
ORDER BY id DESC LIMIT :limit;

-- page_of_agent_newest --
-- The same of one agent.
SELECT * FROM record AS r WHERE tenant = :tenant AND agent_id = :agent_id AND id < :below
  AND version = (SELECT max(version) FROM record AS n WHERE n.tenant = r.tenant AND n.id = r.id)
  -- + may_pass
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

-- rules_of_terms --
-- Which rules the terms were cut by.
SELECT terms FROM tenant WHERE tenant = :tenant;

-- settle_terms --
-- By now all terms were cut by these rules.
UPDATE tenant SET terms = :terms WHERE tenant = :tenant;

-- renew_terms --
-- Other terms for a version. One that was emptied meanwhile gets none.
UPDATE record SET terms = :terms
WHERE tenant = :tenant AND id = :id AND version = :version AND (emptied IS NULL OR :terms IS NULL);

-- note_renewal --
-- Versions that were there already got other terms, whatever the space in use.
UPDATE tenant SET refilled = refilled + 1 WHERE tenant = :tenant;

-- choose_space --
-- Search in this space from now on.
UPDATE tenant SET space = :space WHERE tenant = :tenant;

-- drop_space_vectors --
-- Vectors of a space that was left.
DELETE FROM vector WHERE space = :space AND (slot / 2) IN (SELECT row FROM record WHERE tenant = :tenant);

-- without_vector --
-- Searchable versions that have no vector in a space. One of another length is none.
SELECT r.* FROM record AS r
WHERE r.tenant = :tenant AND r.terms IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM vector AS v WHERE v.slot = 2 * r.row + :parity AND v.space = :space AND length(v.data) = :bytes
)
ORDER BY r.row LIMIT :limit;

-- row_of --
-- The row of a version that still says what it said.
SELECT row FROM record WHERE tenant = :tenant AND id = :id AND version = :version AND emptied IS NULL;

-- version_vectors --
-- The vector of a version.
SELECT v.data FROM record AS r JOIN vector AS v ON v.slot = 2 * r.row + :parity AND v.space = :space
WHERE r.tenant = :tenant AND r.id = :id AND r.version = :version AND r.emptied IS NULL;

-- index_of --
-- The index rows of a version.
SELECT r.row, r.terms, length(v.data) FROM record AS r
LEFT JOIN vector AS v ON v.slot = 2 * r.row + :parity AND v.space = :space
WHERE r.tenant = :tenant AND r.id = :id AND r.version = :version;

-- orphan_vectors --
-- Vectors of no version.
SELECT count(*) FROM vector WHERE (slot / 2) NOT IN (SELECT row FROM record WHERE emptied IS NULL);

-- drop_orphan_vectors --
-- They belong to nothing, and nobody may know what they were of.
DELETE FROM vector WHERE (slot / 2) NOT IN (SELECT row FROM record WHERE emptied IS NULL);

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

-- tables --
-- The tables that are there.
SELECT name FROM sqlite_schema WHERE type = 'table';

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
  revoked_at, rate, recall_budget, review_stores, review_operations)
VALUES (:tenant, :id, :digest, :name, :prefix, :permissions, :agents, :user_id, :created_at, :created_by, :expires_at,
  :revoked_at, :rate, :recall_budget, :review_stores,
  :review_operations);

-- end_token --
-- A credential ends; one that ended earlier stays ended.
UPDATE token SET revoked_at = :revoked_at
WHERE tenant = :tenant AND id = :id AND (revoked_at IS NULL OR revoked_at > :revoked_at);

-- token --
-- The credential with this text, and when its tenant was created and suspended.
SELECT k.tenant, k.id, k.name, k.prefix, k.permissions, k.agents, k.user_id, k.created_at, k.created_by, k.expires_at,
  k.revoked_at, k.rate, k.recall_budget, k.review_stores, k.review_operations, t.created_at, t.suspended_at
FROM token k JOIN tenant t ON t.tenant = k.tenant WHERE k.tenant = :tenant AND k.digest = :digest;

-- tokens --
-- All credentials of a tenant.
SELECT tenant, id, name, prefix, permissions, agents, user_id, created_at, created_by, expires_at, revoked_at, rate,
  recall_budget, review_stores, review_operations
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

-- guarded --
-- When the list of secrets, or the rules, last changed.
SELECT guarded FROM tenant WHERE tenant = :tenant;

-- guard --
-- The list of secrets and when it last changed, at one moment.
SELECT t.guarded, s.id, s.label, s.run_id, s.created_at, s.created_by, s.sealed
FROM tenant AS t LEFT JOIN secret AS s ON s.tenant = t.tenant
WHERE t.tenant = :tenant ORDER BY s.id;

-- open_run --
-- A run begins.
INSERT INTO run (tenant, id, workflow_id, status, driver, position, taken_at, authority, inputs, configurable, metadata,
  tags, agent, secrets, worker, lease_until, last, source_run_id, from_seq, mode, created_at, ended_at, error)
VALUES (:tenant, :id, :workflow_id, :status, :driver, :position, :taken_at, :authority, :inputs, :configurable, :metadata,
  :tags, :agent, :secrets, :worker, :lease_until, :last, :source_run_id, :from_seq, :mode, :created_at, :ended_at, :error);

-- step_run --
-- A run goes on.
UPDATE run SET status = :status, last = :last, worker = :worker, lease_until = :lease_until, secrets = :secrets,
  error = coalesce(:error, error), ended_at = coalesce(ended_at, :ended_at)
WHERE tenant = :tenant AND id = :id;

-- add_event --
-- Something happened in a run.
INSERT INTO run_event (tenant, run_id, sequence, type, node_id, payload, at, causation_id, position)
VALUES (:tenant, :run_id, :sequence, :type, :node_id, :payload, :at, :causation_id, :position);

-- set_variable --
-- A result of a run.
INSERT INTO run_variable (tenant, run_id, name, sequence, value) VALUES (:tenant, :run_id, :name, :sequence, :value)
ON CONFLICT (tenant, run_id, name, sequence) DO UPDATE SET value = excluded.value;

-- set_variable_record --
-- Which record a result repeats.
INSERT INTO run_variable_record (tenant, record_id, run_id, name, sequence)
VALUES (:tenant, :record_id, :run_id, :name, :sequence) ON CONFLICT DO NOTHING;

-- empty_variables --
-- Erasure: results that repeat the record.
UPDATE run_variable SET value = 'null' WHERE tenant = :tenant AND (run_id, name, sequence) IN
  (SELECT run_id, name, sequence FROM run_variable_record WHERE tenant = :tenant AND record_id = :id);

-- empty_event_tags --
-- Erasure: tags of the record in the logs of the runs that wrote it, and of runs that repeat those.
UPDATE run_event SET payload = json_remove(payload, '$.tags')
WHERE tenant = :tenant AND type = 'memory.written' AND json_extract(payload, '$.memoryId') = :id AND run_id IN (
  WITH RECURSIVE told (id) AS (
    SELECT json_extract(provenance, '$.run_id') FROM record WHERE tenant = :tenant AND id = :id
    UNION SELECT run.id FROM told JOIN run ON run.source_run_id = told.id WHERE run.tenant = :tenant
  ) SELECT id FROM told);

-- drop_run_events --
-- Retention: the log of a run.
DELETE FROM run_event WHERE tenant = :tenant AND run_id = :id;

-- drop_run_variables --
-- Retention: the results of a run.
DELETE FROM run_variable WHERE tenant = :tenant AND run_id = :id;

-- drop_run_variable_records --
-- Retention: what they repeated.
DELETE FROM run_variable_record WHERE tenant = :tenant AND run_id = :id;

-- expire_run --
-- Retention: what is left says that there was such a run.
UPDATE run SET expired = 1, inputs = '{}', configurable = '{}', metadata = '{}', tags = '[]'
WHERE tenant = :tenant AND id = :id;

-- run_head --
-- What a step has to know of its run.
SELECT status, last, worker, lease_until, secrets FROM run WHERE tenant = :tenant AND id = :id;

-- run --
-- One run.
SELECT * FROM run WHERE tenant = :tenant AND id = :id;

-- run_page --
-- Runs, the newest first.
SELECT * FROM run WHERE tenant = :tenant AND id < :below AND (:workflow_id IS NULL OR workflow_id = :workflow_id)
ORDER BY id DESC LIMIT :limit;

-- unfinished_runs --
-- Runs that an engine should see to.
SELECT * FROM run WHERE tenant = :tenant AND status IN ('pending', 'running', 'cancelling')
  AND driver = 'engine' AND lease_until <= :now ORDER BY id;

-- noting_runs --
-- Runs that are driven from outside, are at work and have noted something.
SELECT * FROM run WHERE tenant = :tenant AND status IN ('pending', 'running', 'cancelling') AND driver = 'external'
  AND EXISTS (SELECT 1 FROM run_note AS n WHERE n.tenant = run.tenant AND n.run_id = run.id) ORDER BY id;

-- hold_run --
-- Whoever keeps a run's notes alive does so until a moment, or lets go, unless somebody else does.
UPDATE run SET worker = :holder, lease_until = :until
WHERE tenant = :tenant AND id = :id AND (worker IS NULL OR worker = :keeper) RETURNING id;

-- ended_runs --
-- Runs whose history has had its time.
SELECT * FROM run WHERE tenant = :tenant AND ended_at < :before AND expired = 0 ORDER BY id LIMIT :limit;

-- run_events --
-- A stretch of a run's log.
SELECT run_id, sequence, type, node_id, payload, at, causation_id, position FROM run_event
WHERE tenant = :tenant AND run_id = :run_id AND sequence > :after ORDER BY sequence LIMIT :limit;

-- run_variables --
-- Results of a run, each time they were set, with the records they repeat.
SELECT v.name, v.sequence, v.value, r.record_id FROM run_variable AS v
LEFT JOIN run_variable_record AS r
  ON r.tenant = v.tenant AND r.run_id = v.run_id AND r.name = v.name AND r.sequence = v.sequence
WHERE v.tenant = :tenant AND v.run_id = :run_id ORDER BY v.sequence, v.name, r.record_id;

-- add_run_note --
-- A run notes something; the number is that of the commit.
INSERT INTO run_note (tenant, run_id, backend, position, text) VALUES (:tenant, :run_id, :backend, :position, :text);

-- clear_run_notes --
-- What a run has noted in one place goes.
DELETE FROM run_note WHERE tenant = :tenant AND run_id = :id AND backend = :backend;

-- drop_run_notes --
-- All that a run has noted goes.
DELETE FROM run_note WHERE tenant = :tenant AND run_id = :id;

-- run_notes --
-- What a run has noted in one place, in order.
SELECT text FROM run_note WHERE tenant = :tenant AND run_id = :run_id AND backend = :backend ORDER BY position;

-- run_note_count --
-- How much that is.
SELECT count(*) FROM run_note WHERE tenant = :tenant AND run_id = :run_id AND backend = :backend;

-- keep_ref --
-- A ref is given out.
INSERT INTO memory_ref (tenant, ref, agent_id, store_id, created_at)
VALUES (:tenant, :ref, :agent_id, :store_id, :created_at) ON CONFLICT DO NOTHING;

-- minted_ref --
-- What a ref stands for.
SELECT tenant, ref, agent_id, store_id, created_at FROM memory_ref WHERE tenant = :tenant AND ref = :ref;

-- ref_minted_for --
-- The ref of an agent's memory in a store.
SELECT tenant, ref, agent_id, store_id, created_at FROM memory_ref
WHERE tenant = :tenant AND agent_id = :agent_id AND store_id = :store_id;

-- newest_entries --
-- One agent's live records at a position, the newest by creation first.
SELECT * FROM record INDEXED BY record_created WHERE tenant = :tenant AND agent_id = :agent_id AND born <= :seq
  AND (died IS NULL OR died > :seq) AND state = 'live' AND (expires_at IS NULL OR expires_at > :now)
  AND :seq >= (SELECT horizon FROM tenant WHERE tenant = :tenant)
  AND created_at <= (SELECT max(:until, ahead) FROM tenant WHERE tenant = :tenant)
  AND (:user_id IS NULL OR user_id = :user_id) AND (:store_id IS NULL OR store_id = :store_id)
  AND (:tag IS NULL OR EXISTS (SELECT 1 FROM json_each(record.tags) WHERE json_each.value = :tag))
ORDER BY created_at DESC, born DESC, id DESC LIMIT :limit;

-- move_ahead --
-- A record says that it was created later than it was written.
UPDATE tenant SET ahead = :created_at WHERE tenant = :tenant AND ahead < :created_at;

-- derived_from --
-- What was made here out of these records, at whatever time; what somebody linked by hand is their own.
SELECT DISTINCT from_id FROM link WHERE tenant = :tenant AND to_id IN (SELECT value FROM json_each(:ids))
  AND (rel = 'compacted_from' OR (rel = 'derived_from' AND EXISTS (
    SELECT 1 FROM record AS made WHERE made.tenant = link.tenant AND made.id = link.from_id
      AND made.source IN ('consolidation', 'extraction'))))
ORDER BY from_id;

-- lending_head --
-- How an owner stands: their last change, their vectors, and whether they are shut out.
SELECT t.changed, s.model, s.dimensions, t.suspended_at
FROM tenant AS t LEFT JOIN space AS s ON s.tenant = t.tenant AND s.number = t.space
WHERE t.tenant = :tenant;

-- lent_grant --
-- A grant, whatever became of it.
SELECT tenant, id, hash, body, grantee, status, registered_at, expires_at, revoked_at, uses, disclosed
FROM lent_grant WHERE tenant = :tenant AND id = :id;

-- lent_grants --
-- All grants of an owner, newest first.
SELECT tenant, id, hash, body, grantee, status, registered_at, expires_at, revoked_at, uses, disclosed
FROM lent_grant WHERE tenant = :tenant ORDER BY registered_at DESC, id DESC;

-- move_grant --
-- How a grant that is kept stands now.
UPDATE lent_grant SET status = :status, revoked_at = :revoked_at, uses = :uses, disclosed = :disclosed
WHERE tenant = :tenant AND id = :id;

-- keep_grant --
-- A grant as it stands now.
INSERT INTO lent_grant (tenant, id, hash, body, grantee, status, registered_at, expires_at, revoked_at, uses, disclosed)
VALUES (:tenant, :id, :hash, :body, :grantee, :status, :registered_at, :expires_at, :revoked_at, :uses, :disclosed)
ON CONFLICT (tenant, id) DO UPDATE SET
  status = excluded.status, revoked_at = excluded.revoked_at, uses = excluded.uses, disclosed = excluded.disclosed;

-- lent_among --
-- Those of the wanted records that a grant has shown.
SELECT record_id FROM lent_item
WHERE tenant = :tenant AND grant_id = :grant_id AND record_id IN (SELECT value FROM json_each(:records));

-- lent_to --
-- The grants that have shown a record.
SELECT grant_id FROM lent_item WHERE tenant = :tenant AND record_id = :record_id ORDER BY grant_id;

-- lent_items --
-- The records that a grant has shown, and when first.
SELECT record_id, at FROM lent_item WHERE tenant = :tenant AND grant_id = :grant_id ORDER BY at, record_id;

-- add_lent_item --
-- A grant has shown a record for the first time.
INSERT INTO lent_item (tenant, grant_id, record_id, at) VALUES (:tenant, :grant_id, :record_id, :at);

-- log_ends --
-- The first and the last line of what wanted records were; of the log of who saw them only where it ends.
SELECT l.record_id, l.log, l.seq, l.version, l.entry, l.hash
FROM json_each(:records) AS wanted CROSS JOIN item_log AS l
WHERE l.tenant = :tenant AND l.record_id = wanted.value AND l.log = 'state' AND l.seq = 1
UNION ALL
SELECT l.record_id, l.log, l.seq, l.version, l.entry, l.hash
FROM json_each(:records) AS wanted CROSS JOIN item_log AS l
WHERE l.tenant = :tenant AND l.record_id = wanted.value AND l.log = 'state' AND l.seq > 1
  AND l.seq = (SELECT max(seq) FROM item_log WHERE tenant = :tenant AND record_id = wanted.value AND log = 'state')
UNION ALL
SELECT l.record_id, l.log, l.seq, l.version, '{}', l.hash
FROM json_each(:records) AS wanted CROSS JOIN item_log AS l
WHERE l.tenant = :tenant AND l.record_id = wanted.value AND l.log = 'disclosed'
  AND l.seq = (SELECT max(seq) FROM item_log WHERE tenant = :tenant AND record_id = wanted.value AND log = 'disclosed');

-- item_log --
-- A whole log.
SELECT record_id, log, seq, version, entry, hash FROM item_log
WHERE tenant = :tenant AND record_id = :record_id AND log = :log ORDER BY seq;

-- add_log_line --
-- The next line of a log.
INSERT INTO item_log (tenant, record_id, log, seq, version, entry, hash)
VALUES (:tenant, :record_id, :log, :seq, :version, :entry, :hash);

-- receipt_end --
-- The last receipt of an owner's chain.
SELECT seq, hash FROM receipt WHERE tenant = :tenant ORDER BY seq DESC LIMIT 1;

-- receipts --
-- A stretch of the chain.
SELECT seq, id, type, agent, grant_id, at, body, hash FROM receipt
WHERE tenant = :tenant AND seq > :after ORDER BY seq LIMIT :limit;

-- receipts_about --
-- Those of one grant, and of whatever ends all of them, newest first.
-- Each half comes in order from an index of its own, so that no more is read than is wanted. The indexes are named because
-- without statistics SQLite would rather walk along the chain, in which the rows themselves are.
SELECT seq, id, type, agent, grant_id, at, body, hash FROM receipt INDEXED BY receipt_grant
WHERE tenant = :tenant AND grant_id = :grant_id AND seq < :before AND type <> 'kill_switch'
UNION ALL
SELECT seq, id, type, agent, grant_id, at, body, hash FROM receipt INDEXED BY receipt_kill_switch
WHERE tenant = :tenant AND type = 'kill_switch' AND seq < :before
ORDER BY seq DESC LIMIT :limit;

-- receipts_to --
-- Those of one agent, oldest first, behind one of its own; an empty id stands before all of them.
SELECT seq, id, type, agent, grant_id, at, body, hash FROM receipt INDEXED BY receipt_agent
WHERE tenant = :tenant AND agent = :agent AND seq > CASE WHEN :after = '' THEN 0 ELSE (
  SELECT before.seq FROM receipt AS before
  WHERE before.tenant = :tenant AND before.id = :after AND before.agent = :agent
) END
ORDER BY seq LIMIT :limit;

-- add_receipt --
-- The next receipt.
INSERT INTO receipt (tenant, seq, id, type, agent, grant_id, at, body, hash)
VALUES (:tenant, :seq, :id, :type, :agent, :grant_id, :at, :body, :hash);

-- erasures --
-- Requests to delete, newest first.
SELECT tenant, id, step, requested_at, completed_at, request, receipt
FROM erasure WHERE tenant = :tenant ORDER BY requested_at DESC, id DESC;

-- keep_erasure --
-- How far a deletion has come. Whoever knows less than is kept, as another server was faster, changes nothing.
INSERT INTO erasure (tenant, id, step, requested_at, completed_at, request, receipt)
VALUES (:tenant, :id, :step, :requested_at, :completed_at, :request, :receipt)
ON CONFLICT (tenant, id) DO UPDATE SET
  step = excluded.step, completed_at = excluded.completed_at, request = excluded.request, receipt = excluded.receipt
WHERE erasure.step <> 'done' AND (erasure.receipt IS NULL OR excluded.receipt IS NOT NULL);

-- erasure --
-- One of them, as it stands.
SELECT tenant, id, step, requested_at, completed_at, request, receipt
FROM erasure WHERE tenant = :tenant AND id = :id;

-- cascade_steps --
-- Who holds what was erased.
SELECT erasure_id, grantee, grant_id, item_ids, status, attempts, next_at, receipt
FROM cascade_step WHERE tenant = :tenant ORDER BY erasure_id, grantee, grant_id;

-- keep_cascade_step --
-- How far one of them has been reached. Who has answered has answered, whoever else could not reach them.
INSERT INTO cascade_step (tenant, erasure_id, grantee, grant_id, item_ids, status, attempts, next_at, receipt)
VALUES (:tenant, :erasure_id, :grantee, :grant_id, :item_ids, :status, :attempts, :next_at, :receipt)
ON CONFLICT (tenant, erasure_id, grantee, grant_id) DO UPDATE SET
  status = excluded.status, attempts = excluded.attempts, next_at = excluded.next_at, receipt = excluded.receipt
WHERE cascade_step.status <> 'done';

-- hold_item --
-- Something that another host has lent.
INSERT INTO held_item (tenant, source, grant_id, item_id, item, receipt_id, received_at, expires_at)
VALUES (:tenant, :source, :grant_id, :item_id, :item, :receipt_id, :received_at, :expires_at)
ON CONFLICT (tenant, source, grant_id, item_id) DO UPDATE SET
  item = excluded.item, receipt_id = excluded.receipt_id, received_at = excluded.received_at,
  expires_at = excluded.expires_at;

-- held_items --
-- What others have lent, newest first.
SELECT tenant, source, grant_id, item_id, item, receipt_id, received_at, expires_at
FROM held_item WHERE tenant = :tenant ORDER BY received_at DESC, item_id;

-- drop_held_item --
-- They want it back.
DELETE FROM held_item
WHERE tenant = :tenant AND source = :source AND grant_id = :grant_id AND item_id = :item_id;

-- drop_expired_items --
-- Its time is over.
DELETE FROM held_item WHERE tenant = :tenant AND expires_at <= :now;

-- used_proof --
-- Whether a proof was used, and is remembered still.
SELECT 1 FROM used_proof WHERE tenant = :tenant AND id = :id AND until > :now;

-- use_proof --
-- It is used now.
INSERT INTO used_proof (tenant, id, until) VALUES (:tenant, :id, :until)
ON CONFLICT (tenant, id) DO UPDATE SET until = excluded.until;

-- drop_used_proofs --
-- Proofs that would be refused for their age anyway.
DELETE FROM used_proof WHERE tenant = :tenant AND until <= :now;

-- task_steps --
-- How a task stood, first to last.
SELECT tenant, task_id, number, state, at, detail FROM task_step
WHERE tenant = :tenant AND task_id = :task_id ORDER BY number;

-- add_task_step --
-- How it stands now; nothing, where somebody else has said so first.
INSERT INTO task_step (tenant, task_id, number, state, at, detail)
VALUES (:tenant, :task_id, :number, :state, :at, :detail)
ON CONFLICT (tenant, task_id, number) DO NOTHING;

-- drop_tasks --
-- Tasks that nobody has said anything of since.
DELETE FROM task_step WHERE tenant = :tenant AND task_id IN (
  SELECT task_id FROM task_step WHERE tenant = :tenant GROUP BY task_id HAVING max(at) <= :before
);

-- drop_requests --
-- Requests for access that were refused, or have lapsed, this long ago.
DELETE FROM lent_grant
WHERE tenant = :tenant AND substr(id, 1, 4) = 'mrq_' AND coalesce(revoked_at, expires_at) <= :before;

-- misfiled --
-- Versions whose columns for search say otherwise than they do that they were emptied, or what they are about.
SELECT id, born FROM record WHERE tenant = :tenant AND (
  (emptied IS NULL) <> (salt IS NOT NULL)
  OR subject IS NOT CASE WHEN json_valid(provenance) THEN provenance ->> '$.subject' END
) ORDER BY born LIMIT :limit;

-- links_after --
-- Every edge, a page at a time.
SELECT from_id, to_id, rel, born, died FROM link
WHERE tenant = :tenant AND (from_id, to_id, rel, born) > (:from_id, :to_id, :rel, :born)
ORDER BY from_id, to_id, rel, born LIMIT :limit;

-- links_from --
-- The edges that ever led from a record.
SELECT from_id, to_id, rel, born, died FROM link WHERE tenant = :tenant AND from_id = :id;

-- demoted --
-- Records that rank lower.
SELECT id FROM mark WHERE tenant = :tenant AND demoted = 1;

-- token_hashes --
-- The hashes of the texts of tokens.
SELECT id, digest FROM token WHERE tenant = :tenant;

-- reasons_after --
-- Every reason, a page at a time.
SELECT record_id, seq, text FROM reason
WHERE tenant = :tenant AND (record_id, seq) > (:id, :seq) ORDER BY record_id, seq LIMIT :limit;

-- answers_after --
-- Every answer that is kept, a page at a time, each with the entry of its position.
SELECT a.principal, a.operation, a.key, a.answer, a.at, a.seq,
  j.tenant, j.seq, j.at, j.actor, j.op, j.store, j.agent, j.run, j.node, j.records, j.detail, j.prev, j.hash
FROM answer AS a LEFT JOIN journal AS j ON j.tenant = a.tenant AND j.seq = a.seq
WHERE a.tenant = :tenant AND (a.principal, a.operation, a.key) > (:principal, :operation, :key)
ORDER BY a.principal, a.operation, a.key LIMIT :limit;
