-- Once for both engines; `$…` are words of the dialect (queries.py). Every key begins with the tenant, so the schema can be
-- spread by tenant as it is. JSON is text and is never opened in SQL. A journaled table of a capability ends in
-- salt, digest, seq; a test holds each `Table` against what stands here.

CREATE TABLE tenant (
  tenant $text NOT NULL,
  created_at $int NOT NULL,
  CONSTRAINT tenant_key PRIMARY KEY (tenant)
) $table_end;

-- The end of each tenant's chain, and what moves with it.
CREATE TABLE head (
  tenant $text NOT NULL,
  seq $int NOT NULL,
  hash $blob NOT NULL,
  at $int NOT NULL,
  -- the last position at which a record, a mark or a link changed: readers that are there need not look further
  changed $int NOT NULL,
  -- positions before this one can no longer be read as of
  horizon $int NOT NULL,
  -- the vector space that recall searches in
  space $int,
  -- how often versions that were there already got a vector or other terms: readers from before read anew
  refilled $int NOT NULL,
  suspended_at $int,
  -- the position at which secrets or rules last changed: a write that was checked before it is refused
  guarded $int NOT NULL,
  CONSTRAINT head_key PRIMARY KEY (tenant),
  CONSTRAINT head_hash CHECK (length(hash) = 32)
) $table_end;

CREATE TABLE space (
  tenant $text NOT NULL,
  number $int NOT NULL,
  model $text NOT NULL,
  dimensions $int NOT NULL,
  CONSTRAINT space_key PRIMARY KEY (tenant, number),
  CONSTRAINT space_model UNIQUE (tenant, model, dimensions),
  CONSTRAINT space_dimensions CHECK (dimensions > 0)
) $table_end;

CREATE TABLE record (
  tenant $text NOT NULL,
  id $text NOT NULL,
  version $int NOT NULL,
  born $int NOT NULL,
  died $int,
  ending $text,
  merged_into $text,
  -- position of the erasure or pruning that emptied this version
  emptied $int,
  store_id $text NOT NULL,
  agent_id $text NOT NULL,
  user_id $text,
  session_id $text,
  type $text NOT NULL,
  tier $text NOT NULL,
  state $text NOT NULL,
  content $text NOT NULL,
  metadata $text,
  tags $text,
  links $text,
  confidence $real NOT NULL,
  importance $real,
  source $text,
  provenance $text NOT NULL,
  details $text,
  privacy $text,
  created_at $int NOT NULL,
  updated_at $int NOT NULL,
  expires_at $int,
  key $text,
  valid_from $int,
  valid_until $int,
  -- copies of what search and undo select by, taken out of the JSON above
  subject $text,
  sensitivity $text,
  share_with $text,
  event_time $int,
  run_id $text,
  asks $int NOT NULL,
  by_assistant $int NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  -- hashes and counts of the stemmed words; null keeps it out of keyword search
  terms $blob,
  CONSTRAINT record_key PRIMARY KEY (tenant, id, version),
  CONSTRAINT record_version CHECK (version > 0),
  CONSTRAINT record_life CHECK (died IS NULL OR died >= born),
  CONSTRAINT record_ending CHECK (ending IN ('replaced', 'forgotten', 'merged', 'expired')),
  CONSTRAINT record_type CHECK (type IN ('semantic', 'episodic', 'procedural', 'emotional')),
  CONSTRAINT record_tier CHECK (tier IN ('short_term', 'long_term')),
  CONSTRAINT record_state CHECK (state IN ('live', 'archived', 'erased')),
  CONSTRAINT record_confidence CHECK (confidence BETWEEN 0 AND 1),
  CONSTRAINT record_digest CHECK (length(digest) = 32)
) $table_end;

CREATE INDEX record_agent ON record (tenant, agent_id, born);
CREATE INDEX record_store ON record (tenant, store_id, born);
CREATE INDEX record_died ON record (tenant, agent_id, died) WHERE died IS NOT NULL;
CREATE INDEX record_emptied ON record (tenant, agent_id, emptied) WHERE emptied IS NOT NULL;
CREATE INDEX record_expiry ON record (tenant, expires_at) WHERE expires_at IS NOT NULL AND died IS NULL;
CREATE INDEX record_created ON record (tenant, agent_id, created_at, id);
CREATE INDEX record_fact ON record (tenant, agent_id, key) WHERE key IS NOT NULL AND died IS NULL;
CREATE INDEX record_merged ON record (tenant, merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX record_run ON record (tenant, run_id) WHERE run_id IS NOT NULL;

CREATE TABLE vector (
  tenant $text NOT NULL,
  id $text NOT NULL,
  version $int NOT NULL,
  space $int NOT NULL,
  data $blob NOT NULL,
  CONSTRAINT vector_key PRIMARY KEY (tenant, id, version, space)
) $table_end;

CREATE TABLE link (
  tenant $text NOT NULL,
  from_id $text NOT NULL,
  to_id $text NOT NULL,
  rel $text NOT NULL,
  born $int NOT NULL,
  died $int,
  CONSTRAINT link_key PRIMARY KEY (tenant, from_id, to_id, rel, born)
) $table_end;

CREATE INDEX link_back ON link (tenant, to_id);

-- How records were used, and whether they are demoted: not versioned.
CREATE TABLE mark (
  tenant $text NOT NULL,
  id $text NOT NULL,
  last_recalled_at $int,
  recall_count $int NOT NULL,
  demoted $int NOT NULL,
  -- position of the last change of `demoted`
  changed $int NOT NULL,
  CONSTRAINT mark_key PRIMARY KEY (tenant, id),
  CONSTRAINT mark_demoted CHECK (demoted IN (0, 1))
) $table_end;

CREATE INDEX mark_changed ON mark (tenant, changed) WHERE changed > 0;

CREATE TABLE journal (
  tenant $text NOT NULL,
  seq $int NOT NULL,
  at $int NOT NULL,
  actor $text NOT NULL,
  op $text NOT NULL,
  store $text,
  agent $text,
  run $text,
  node $text,
  records $text NOT NULL,
  detail $text NOT NULL,
  hash $blob NOT NULL,
  CONSTRAINT journal_key PRIMARY KEY (tenant, seq),
  CONSTRAINT journal_seq CHECK (seq > 0),
  CONSTRAINT journal_hash CHECK (length(hash) = 32)
) $table_end;

CREATE INDEX journal_at ON journal (tenant, at);

-- Why something was done, in somebody's words: outside the journal, so that erasing a record erases it too.
CREATE TABLE reason (
  tenant $text NOT NULL,
  record_id $text NOT NULL,
  seq $int NOT NULL,
  text $text NOT NULL,
  CONSTRAINT reason_key PRIMARY KEY (tenant, record_id, seq)
) $table_end;

CREATE TABLE checkpoint (
  tenant $text NOT NULL,
  seq $int NOT NULL,
  hash $blob NOT NULL,
  at $int NOT NULL,
  key_id $text NOT NULL,
  signature $text NOT NULL,
  CONSTRAINT checkpoint_key PRIMARY KEY (tenant, seq)
) $table_end;

-- Answers to writes that came with an idempotency key.
CREATE TABLE answer (
  tenant $text NOT NULL,
  principal $text NOT NULL,
  operation $text NOT NULL,
  key $text NOT NULL,
  fingerprint $text NOT NULL,
  answer $text NOT NULL,
  at $int NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT answer_key PRIMARY KEY (tenant, principal, operation, key)
) $table_end;

CREATE INDEX answer_at ON answer (tenant, at);

-- Which records an answer speaks of, so that erasing one erases the answer.
CREATE TABLE answer_record (
  tenant $text NOT NULL,
  record_id $text NOT NULL,
  principal $text NOT NULL,
  operation $text NOT NULL,
  key $text NOT NULL,
  CONSTRAINT answer_record_key PRIMARY KEY (tenant, record_id, principal, operation, key)
) $table_end;

-- Tables of the capabilities, each declared as a `Table` in its room.

-- memory
CREATE TABLE store (
  tenant $text NOT NULL,
  id $text NOT NULL,
  name $text NOT NULL,
  scope $text NOT NULL,
  tier $text NOT NULL,
  namespace $text,
  description $text,
  created_at $int NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT store_key PRIMARY KEY (tenant, id),
  CONSTRAINT store_name UNIQUE (tenant, name),
  CONSTRAINT store_scope CHECK (scope IN ('user', 'session', 'agent', 'team', 'global')),
  CONSTRAINT store_tier CHECK (tier IN ('short_term', 'long_term'))
) $table_end;

-- governance
CREATE TABLE rule_list (
  tenant $text NOT NULL,
  id $text NOT NULL,
  rules $text NOT NULL,
  set_at $int NOT NULL,
  set_by $text NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT rule_list_key PRIMARY KEY (tenant, id)
) $table_end;

CREATE TABLE proposal (
  tenant $text NOT NULL,
  id $text NOT NULL,
  operation $text NOT NULL,
  agent_id $text NOT NULL,
  user_id $text,
  store_id $text,
  record_id $text,
  request $text,
  writer $text NOT NULL,
  writer_token $text,
  held_by $text NOT NULL,
  status $text NOT NULL,
  created_at $int NOT NULL,
  lapses_at $int,
  reviewer $text,
  reviewed_at $int,
  reason $text,
  -- how many different people must approve, and who has
  approvals $int NOT NULL,
  given $text NOT NULL,
  -- why it was held, in the words of the rule
  because $text,
  -- what entity tags of its diff are salted with
  nonce $text,
  -- what a held write is like, without its text: type, source, sensitivity
  traits $text,
  -- position of the entry that held it
  held_seq $int NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT proposal_key PRIMARY KEY (tenant, id),
  CONSTRAINT proposal_status CHECK (status IN ('pending', 'approved', 'rejected'))
) $table_end;

CREATE INDEX proposal_record ON proposal (tenant, record_id) WHERE record_id IS NOT NULL;
CREATE INDEX proposal_waiting ON proposal (tenant, status, created_at, id);

-- The records that a proposal would touch, and their versions when it was held.
CREATE TABLE proposal_subject (
  tenant $text NOT NULL,
  record_id $text NOT NULL,
  proposal_id $text NOT NULL,
  version $int NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT proposal_subject_key PRIMARY KEY (tenant, record_id, proposal_id)
) $table_end;

CREATE INDEX proposal_subject_back ON proposal_subject (tenant, proposal_id);

CREATE TABLE webhook (
  tenant $text NOT NULL,
  id $text NOT NULL,
  url $text NOT NULL,
  events $text NOT NULL,
  agents $text NOT NULL,
  with_content $int NOT NULL,
  created_at $int NOT NULL,
  created_by $text NOT NULL,
  -- the key that deliveries are signed with
  sealed $blob NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT webhook_key PRIMARY KEY (tenant, id)
) $table_end;

-- How far along the journal each webhook has been served, and who serves it now.
CREATE TABLE webhook_position (
  tenant $text NOT NULL,
  id $text NOT NULL,
  position $int NOT NULL,
  attempts $int NOT NULL,
  next_at $int NOT NULL,
  error $text,
  dropped $int NOT NULL,
  holder $text,
  held_until $int NOT NULL,
  CONSTRAINT webhook_position_key PRIMARY KEY (tenant, id)
) $table_end;

-- Suggested rules that a person does not want.
CREATE TABLE dismissal (
  tenant $text NOT NULL,
  id $text NOT NULL,
  at $int NOT NULL,
  reviewer $text NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT dismissal_key PRIMARY KEY (tenant, id)
) $table_end;

-- access
CREATE TABLE token (
  tenant $text NOT NULL,
  id $text NOT NULL,
  -- sha256 of the text, hexadecimal
  hash $text NOT NULL,
  name $text NOT NULL,
  prefix $text NOT NULL,
  permissions $text NOT NULL,
  agents $text NOT NULL,
  default_agent $text,
  user_id $text,
  created_at $int NOT NULL,
  created_by $text NOT NULL,
  created_by_token $text,
  expires_at $int,
  revoked_at $int,
  rate $int,
  recall_budget $int,
  review_stores $text NOT NULL,
  review_operations $text NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT token_key PRIMARY KEY (tenant, id),
  CONSTRAINT token_hash UNIQUE (tenant, hash)
) $table_end;

-- Hits that a credential was given by recalls in the current hour.
CREATE TABLE recall_budget (
  tenant $text NOT NULL,
  principal $text NOT NULL,
  agent_id $text NOT NULL,
  since $int NOT NULL,
  used $int NOT NULL,
  CONSTRAINT recall_budget_key PRIMARY KEY (tenant, principal, agent_id)
) $table_end;

CREATE TABLE web_session (
  tenant $text NOT NULL,
  -- sha256 of the cookie, hexadecimal
  id $text NOT NULL,
  token_id $text,
  -- an OIDC principal, sealed with the server's key
  principal $blob,
  csrf $text NOT NULL,
  created_at $int NOT NULL,
  seen_at $int NOT NULL,
  expires_at $int NOT NULL,
  CONSTRAINT web_session_key PRIMARY KEY (tenant, id)
) $table_end;

-- What a session of the web page was shown in an hour, until the journal has it.
CREATE TABLE web_view (
  tenant $text NOT NULL,
  -- that of the session
  id $text NOT NULL,
  -- since 1970
  hour $int NOT NULL,
  actor $text NOT NULL,
  -- ids, versions and digests
  records $text NOT NULL,
  CONSTRAINT web_view_key PRIMARY KEY (tenant, id, hour)
) $table_end;

CREATE TABLE signin_link (
  tenant $text NOT NULL,
  id $text NOT NULL,
  token_id $text NOT NULL,
  expires_at $int NOT NULL,
  used_at $int,
  CONSTRAINT signin_link_key PRIMARY KEY (tenant, id)
) $table_end;

-- secrets
CREATE TABLE secret (
  tenant $text NOT NULL,
  id $text NOT NULL,
  label $text NOT NULL,
  run_id $text,
  created_at $int NOT NULL,
  created_by $text NOT NULL,
  sealed $blob NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT secret_key PRIMARY KEY (tenant, id)
) $table_end;

-- runs
CREATE TABLE run (
  tenant $text NOT NULL,
  id $text NOT NULL,
  workflow_id $text NOT NULL,
  status $text NOT NULL,
  driver $text NOT NULL,
  agent_id $text NOT NULL,
  user_id $text,
  opened_by $text NOT NULL,
  -- of the commit that opened it, and the one that a fork sees instead
  position $int NOT NULL,
  view $int,
  taken_at $int NOT NULL,
  body $text NOT NULL,
  -- labels; values are nowhere
  secrets $text NOT NULL,
  last $int NOT NULL,
  nodes $text NOT NULL,
  writes $int NOT NULL,
  ending $text,
  error $text,
  source_run_id $text,
  from_seq $int,
  mode $text,
  created_at $int NOT NULL,
  ended_at $int,
  is_expired $int NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT run_key PRIMARY KEY (tenant, id),
  CONSTRAINT run_status CHECK (status IN ('pending', 'running', 'cancelling', 'completed', 'failed', 'cancelled')),
  CONSTRAINT run_driver CHECK (driver IN ('external', 'fixture', 'replay')),
  CONSTRAINT run_ended CHECK ((ended_at IS NULL) = (status IN ('pending', 'running', 'cancelling')))
) $table_end;

CREATE INDEX run_by_status ON run (tenant, status, id);
CREATE INDEX run_expired ON run (tenant, is_expired, id);
CREATE INDEX run_source ON run (tenant, source_run_id, id) WHERE source_run_id IS NOT NULL;

CREATE TABLE run_event (
  tenant $text NOT NULL,
  run_id $text NOT NULL,
  sequence $int NOT NULL,
  type $text NOT NULL,
  node_id $text,
  payload $text NOT NULL,
  record_id $text,
  record_version $int,
  at $int NOT NULL,
  causation_id $text,
  position $int NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT run_event_key PRIMARY KEY (tenant, run_id, sequence)
) $table_end;

CREATE TABLE run_variable (
  tenant $text NOT NULL,
  run_id $text NOT NULL,
  name $text NOT NULL,
  sequence $int NOT NULL,
  -- JSON
  value $text,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT run_variable_key PRIMARY KEY (tenant, run_id, name)
) $table_end;

CREATE TABLE run_variable_record (
  tenant $text NOT NULL,
  record_id $text NOT NULL,
  run_id $text NOT NULL,
  name $text NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT run_variable_record_key PRIMARY KEY (tenant, record_id, run_id, name)
) $table_end;

CREATE INDEX run_variable_record_back ON run_variable_record (tenant, run_id);

CREATE TABLE run_note (
  tenant $text NOT NULL,
  run_id $text NOT NULL,
  backend $text NOT NULL,
  id $text NOT NULL,
  text $text NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT run_note_key PRIMARY KEY (tenant, run_id, backend, id)
) $table_end;

CREATE TABLE memory_ref (
  tenant $text NOT NULL,
  ref $text NOT NULL,
  agent_id $text NOT NULL,
  store_id $text NOT NULL,
  created_at $int NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT memory_ref_key PRIMARY KEY (tenant, ref)
) $table_end;

-- sharing
CREATE TABLE share_grant (
  tenant $text NOT NULL,
  id $text NOT NULL,
  hash $text NOT NULL,
  -- as it was signed
  body $text NOT NULL,
  grantee $text NOT NULL,
  registered_at $int NOT NULL,
  expires_at $int NOT NULL,
  revoked_at $int,
  uses $int NOT NULL,
  disclosed $int NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT share_grant_key PRIMARY KEY (tenant, id)
) $table_end;

CREATE INDEX share_grant_grantee ON share_grant (tenant, grantee);

-- Items that grants have shown: who has to be told when one of them is erased.
CREATE TABLE shared_item (
  tenant $text NOT NULL,
  grant_id $text NOT NULL,
  record_id $text NOT NULL,
  item_id $text NOT NULL,
  at $int NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT shared_item_key PRIMARY KEY (tenant, grant_id, record_id)
) $table_end;

CREATE INDEX shared_item_record ON shared_item (tenant, record_id);

-- What an item that was shared was, version by version: hashes and ids, which outlive an erasure.
CREATE TABLE item_log (
  tenant $text NOT NULL,
  record_id $text NOT NULL,
  number $int NOT NULL,
  version $int NOT NULL,
  entry $text NOT NULL,
  hash $text NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT item_log_key PRIMARY KEY (tenant, record_id, number)
) $table_end;

CREATE TABLE receipt (
  tenant $text NOT NULL,
  number $int NOT NULL,
  id $text NOT NULL,
  type $text NOT NULL,
  agent $text NOT NULL,
  grant_id $text,
  at $int NOT NULL,
  body $text NOT NULL,
  hash $text NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT receipt_key PRIMARY KEY (tenant, number),
  CONSTRAINT receipt_id UNIQUE (tenant, id),
  CONSTRAINT receipt_type CHECK (type IN ('consent', 'invocation', 'deletion', 'incident', 'kill_switch'))
) $table_end;

CREATE INDEX receipt_agent ON receipt (tenant, agent, number);

-- Erasures: ids, and whom they have reached.
CREATE TABLE erasure (
  tenant $text NOT NULL,
  id $text NOT NULL,
  step $text NOT NULL,
  requested_at $int NOT NULL,
  completed_at $int,
  request $text NOT NULL,
  receipt $text,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT erasure_key PRIMARY KEY (tenant, id),
  CONSTRAINT erasure_step CHECK (step IN ('propagating', 'done'))
) $table_end;

-- Whom an erasure has to reach.
CREATE TABLE cascade_step (
  tenant $text NOT NULL,
  erasure_id $text NOT NULL,
  grantee $text NOT NULL,
  grant_id $text NOT NULL,
  item_ids $text NOT NULL,
  status $text NOT NULL,
  attempts $int NOT NULL,
  next_at $int NOT NULL,
  receipt $text,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT cascade_step_key PRIMARY KEY (tenant, erasure_id, grantee, grant_id),
  CONSTRAINT cascade_step_status CHECK (status IN ('waiting', 'done', 'unreachable', 'no_address', 'told'))
) $table_end;

-- What other hosts have lent.
CREATE TABLE borrowed_item (
  tenant $text NOT NULL,
  source $text NOT NULL,
  grant_id $text NOT NULL,
  item_id $text NOT NULL,
  item $text NOT NULL,
  receipt_id $text NOT NULL,
  received_at $int NOT NULL,
  expires_at $int NOT NULL,
  CONSTRAINT borrowed_item_key PRIMARY KEY (tenant, source, grant_id, item_id)
) $table_end;

-- Which tenant holds something that another host has lent: under no tenant, and under its own.
CREATE TABLE borrowed_grant (
  tenant $text NOT NULL,
  grant_id $text NOT NULL,
  source $text NOT NULL,
  owner $text NOT NULL,
  returns $int NOT NULL,
  CONSTRAINT borrowed_grant_key PRIMARY KEY (tenant, grant_id, source, owner)
) $table_end;

-- Proofs of keys that are good once.
CREATE TABLE used_proof (
  tenant $text NOT NULL,
  id $text NOT NULL,
  until $int NOT NULL,
  CONSTRAINT used_proof_key PRIMARY KEY (tenant, id)
) $table_end;

-- Whose grant an id is. It stands under no tenant.
CREATE TABLE share_grant_owner (
  tenant $text NOT NULL,
  id $text NOT NULL,
  owner $text NOT NULL,
  CONSTRAINT share_grant_owner_key PRIMARY KEY (tenant, id)
) $table_end;

-- audit
CREATE TABLE anchor (
  tenant $text NOT NULL,
  target $text NOT NULL,
  entry $int NOT NULL,
  hash $text NOT NULL,
  at $int NOT NULL,
  proof $text NOT NULL,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT anchor_key PRIMARY KEY (tenant, target, entry)
) $table_end;

-- router
-- What the peers of a router call its memories.
CREATE TABLE peer_id (
  tenant $text NOT NULL,
  peer $text NOT NULL,
  own_id $text NOT NULL,
  native_id $text NOT NULL,
  CONSTRAINT peer_id_key PRIMARY KEY (tenant, peer, own_id)
) $table_end;

CREATE INDEX peer_id_own ON peer_id (tenant, own_id);
CREATE INDEX peer_id_native ON peer_id (tenant, native_id);

-- mirrors
CREATE TABLE mirror (
  tenant $text NOT NULL,
  name $text NOT NULL,
  is_filled $int NOT NULL,
  -- where sending what is older than the mirror goes on: below this record
  fill_below $text,
  succeeded_at $int,
  error $text,
  drift $int NOT NULL,
  holder $text,
  held_until $int NOT NULL,
  CONSTRAINT mirror_key PRIMARY KEY (tenant, name)
) $table_end;

-- What a mirror is owed: to be brought to how the record stands. One row for a record, however often it changed.
CREATE TABLE outbox (
  tenant $text NOT NULL,
  mirror $text NOT NULL,
  record_id $text NOT NULL,
  -- the last entry that changed the record
  position $int NOT NULL,
  at $int NOT NULL,
  status $text NOT NULL,
  attempts $int NOT NULL,
  next_at $int NOT NULL,
  error $text,
  CONSTRAINT outbox_key PRIMARY KEY (tenant, mirror, record_id),
  CONSTRAINT outbox_status CHECK (status IN ('waiting', 'given_up'))
) $table_end;

-- Where a mirror has copies, or may have. Nothing of it is believed by a reader.
CREATE TABLE mirror_copy (
  tenant $text NOT NULL,
  mirror $text NOT NULL,
  record_id $text NOT NULL,
  native_id $text,
  version $int NOT NULL,
  store_id $text NOT NULL,
  agent_id $text NOT NULL,
  -- empty for nobody, else `=` and the user
  whose $text NOT NULL,
  state $text NOT NULL,
  CONSTRAINT mirror_copy_key PRIMARY KEY (tenant, mirror, record_id),
  CONSTRAINT mirror_copy_state CHECK (state IN ('sending', 'kept', 'deleted', 'gone'))
) $table_end;

CREATE INDEX mirror_copy_native ON mirror_copy (tenant, native_id);
CREATE INDEX mirror_copy_record ON mirror_copy (tenant, record_id);
CREATE INDEX mirror_copy_place ON mirror_copy (tenant, mirror, agent_id, store_id, whose);

-- The containers of a mirror that something of ours is in.
CREATE TABLE mirror_container (
  tenant $text NOT NULL,
  mirror $text NOT NULL,
  agent_id $text NOT NULL,
  store_id $text NOT NULL,
  whose $text NOT NULL,
  CONSTRAINT mirror_container_key PRIMARY KEY (tenant, mirror, agent_id, store_id, whose)
) $table_end;

-- transfer
CREATE TABLE import (
  tenant $text NOT NULL,
  id $text NOT NULL,
  agent_id $text NOT NULL,
  format $text NOT NULL,
  file_name $text,
  sha256 $text,
  owner $text,
  export_id $text,
  is_done $int NOT NULL,
  counts $text NOT NULL,
  actor $text NOT NULL,
  at $int NOT NULL,
  undone_at $int,
  salt $blob,
  digest $blob NOT NULL,
  seq $int NOT NULL,
  CONSTRAINT import_key PRIMARY KEY (tenant, id)
) $table_end;

CREATE INDEX import_owner ON import (tenant, owner);

-- A file that waits to be carried out by any server, sealed, in pieces; piece 0 says what is known of it.
CREATE TABLE import_file (
  tenant $text NOT NULL,
  id $text NOT NULL,
  number $int NOT NULL,
  sealed $blob NOT NULL,
  pieces $int NOT NULL,
  until $int NOT NULL,
  holder $text,
  held_until $int,
  CONSTRAINT import_file_key PRIMARY KEY (tenant, id, number)
) $table_end;
