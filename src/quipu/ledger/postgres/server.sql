-- session --
-- What every connection of ours holds to: an acknowledged commit is on disk, nobody is waited for without end, and who
-- has waited for a turn sees what was written meanwhile. Vectors are found in whichever schema somebody has put them.
SELECT set_config('synchronous_commit',
    CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
  set_config('lock_timeout', %(patience)s, false),
  set_config('idle_in_transaction_session_timeout', %(idle)s, false),
  set_config('search_path', concat_ws(', ', coalesce(%(path)s, nullif(current_setting('search_path'), '')), (
    SELECT quote_ident(n.nspname) FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
    WHERE e.extname = 'vector')), false),
  set_config('default_transaction_isolation', 'read committed', false),
  set_config('jit', 'off', false);

-- nature --
-- Is there a schema, is it ours, does it hold anything, and may this user look into it? Where not, a name would be looked
-- for in the next schema of the path, which may be somebody else's.
SELECT
  EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = coalesce(%(schema)s, current_schema())),
  EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = coalesce(%(schema)s, current_schema()) AND tablename = 'quipu_migration'),
  (SELECT count(*) FROM pg_tables WHERE schemaname = coalesce(%(schema)s, current_schema())),
  NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = %(schema)s AND NOT has_schema_privilege(oid, 'USAGE'));

-- schema_version --
-- How many steps have been taken.
SELECT coalesce(max(number), 0) FROM quipu_migration;

-- untaken --
-- Steps that were passed over, and tables that a schema of ours would have: there are none unless part of it was lost.
SELECT 'step ' || number FROM generate_series(1, (SELECT max(number) FROM quipu_migration)) AS number
WHERE number NOT IN (SELECT number FROM quipu_migration)
UNION ALL
SELECT 'table ' || name FROM unnest(%(tables)s::text[]) AS name
WHERE NOT EXISTS (
  SELECT 1 FROM pg_tables WHERE schemaname = coalesce(%(schema)s, current_schema()) AND tablename = name
);

-- pgvector --
-- Which version of it is installed; none where there is none.
SELECT extversion FROM pg_extension WHERE extname = 'vector';

-- note_step --
-- One more step has been taken.
INSERT INTO quipu_migration (number) VALUES (%(number)s);

-- lock_schema --
-- Only one process changes the schema at a time; the lock ends with the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('quipu ' || coalesce(%(schema)s, current_schema(), ''), 0));

-- make_schema --
-- A schema of its own.
CREATE SCHEMA IF NOT EXISTS {schema};

-- extension --
-- Can vectors be kept?
SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'vector'),
  EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector');

-- about --
-- What kind of server it is.
SELECT current_setting('server_version'), pg_is_in_recovery(), current_schema(),
  (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
  (SELECT extversion FROM pg_extension WHERE extname = 'citus');

-- lock_head --
-- Take the tenant's turn: whoever has it writes the next positions. Others wait for the end of the transaction.
SELECT seq, hash, at, changed, space, guarded, last_row FROM tenant WHERE tenant = %(tenant)s FOR UPDATE;

-- proposal_status --
-- What became of proposals, and which records they speak of: an erasure may decide any of them.
SELECT id, status, record_id FROM proposal WHERE tenant = %(tenant)s AND status = 'pending';

-- copy_versions --
-- Many versions at once.
COPY record (row, tenant, id, version, born, store_id, agent_id, user_id, session_id, type, tier, state, content,
  metadata, tags, links, confidence, importance, source, provenance, details, privacy, subject, created_at,
  updated_at, expires_at, salt, digest, terms) FROM STDIN;

-- copy_many_vectors --
-- Many vectors at once.
COPY embedding (tenant, row, space, data) FROM STDIN (FORMAT BINARY);

-- copy_entries --
-- Many knots at once.
COPY journal (tenant, seq, at, actor, op, store, agent, run, node, records, detail, prev, hash) FROM STDIN;

-- add_extension --
-- Vectors can be kept from now on. It may need more rights than the rest.
CREATE EXTENSION IF NOT EXISTS vector;

-- entry_hash --
-- The knot at a position.
SELECT hash FROM journal WHERE tenant = %(tenant)s AND seq = %(seq)s;

-- count_of_agent --
-- How many versions an agent has.
SELECT count(*) FROM record WHERE tenant = %(tenant)s AND agent_id = %(owner)s;

-- count_of_store --
-- How many versions a store has.
SELECT count(*) FROM record WHERE tenant = %(tenant)s AND store_id = %(owner)s;

-- vectors_of --
-- The vectors of some versions.
SELECT row, data FROM embedding WHERE tenant = %(tenant)s AND space = %(space)s AND row = ANY(%(rows)s);

-- nearest_of_few --
-- The nearest of some versions.
SELECT row FROM embedding WHERE tenant = %(tenant)s AND space = %(space)s AND row = ANY(%(rows)s)
ORDER BY data <#> %(query)s, row LIMIT %(limit)s;

-- nearest_of_many --
-- The nearest of the versions whose bit is set.
SELECT row FROM embedding
WHERE tenant = %(tenant)s AND space = %(space)s
  AND CASE WHEN row < 8 * length(%(bits)s) THEN get_bit(%(bits)s, row) = 1 ELSE false END
ORDER BY data <#> %(query)s, row LIMIT %(limit)s;

-- nearest_by_index --
-- The same along an HNSW index, which is approximate; the scan goes on until enough versions have passed.
SELECT row FROM embedding
WHERE tenant = %(tenant)s AND space = %(space)s AND vector_dims(data) = {dimensions}
  AND CASE WHEN row < 8 * length(%(bits)s) THEN get_bit(%(bits)s, row) = 1 ELSE false END
ORDER BY data::vector({dimensions}) <#> %(query)s::vector({dimensions}) LIMIT %(limit)s;

-- scan_by_index --
-- How far an HNSW scan goes, until the end of the transaction.
SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', %(width)s, true),
  set_config('enable_sort', 'off', true);

-- near_index --
-- Is there an HNSW index over vectors of this width that can go on scanning, and how many vectors are there in all?
SELECT EXISTS (SELECT 1 FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE i.indrelid = 'embedding'::regclass AND c.relname = %(name)s AND i.indisvalid)
    AND EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'vector' AND string_to_array(extversion, '.')::int[] >= '{0,8}'),
  (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'embedding'::regclass);

-- make_near_index --
-- An HNSW index over vectors of one width.
CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON embedding
USING hnsw ((data::vector({dimensions})) vector_ip_ops) WHERE vector_dims(data) = {dimensions};

-- size --
-- How much room the tables take, with their indexes.
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relkind = 'r' AND c.relname = ANY(%(tables)s);

-- tidy --
-- Take dead versions of rows away, beside everybody's work.
VACUUM {tables};

-- rewrite --
-- Write the tables anew, without anything that is gone; nobody reads or writes them meanwhile.
VACUUM (FULL, ANALYZE) {tables};

-- read_whole --
-- Read every page of a table, and every value that is kept apart.
SELECT count({table}::text) FROM {table};

-- read_vectors --
-- The same for vectors, without writing them out.
SELECT count(vector_dims(data)) FROM embedding;

-- checker --
-- Can the server check its indexes?
SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'amcheck');

-- check_indexes --
-- Check every index against its table.
SELECT bt_index_check(i.indexrelid, true) FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
JOIN pg_class AS t ON t.oid = i.indrelid JOIN pg_namespace AS n ON n.oid = t.relnamespace
WHERE a.amname = 'btree' AND i.indisvalid AND n.nspname = current_schema() AND t.relname = ANY(%(tables)s);

-- announce --
-- Tell whoever listens that chains have grown. It is only a hint, so it need not be on disk before it is told.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(%(channel)s, payload)
FROM unnest(%(payloads)s::text[]) AS payload;

-- listen --
-- Hear what others announce.
LISTEN {channel};

-- sizes --
-- How much room each table takes, with its indexes.
SELECT c.relname, pg_total_relation_size(c.oid)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relkind = 'r' AND c.relname = ANY(%(tables)s) ORDER BY c.relname;

-- near_indexes --
-- The HNSW indexes that are ready.
SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
WHERE i.indrelid = 'embedding'::regclass AND a.amname = 'hnsw' AND i.indisvalid ORDER BY c.relname;

-- widths --
-- How wide the vectors are that somebody searches in.
SELECT DISTINCT s.dimensions FROM space AS s JOIN tenant AS t ON t.tenant = s.tenant AND t.space = s.number ORDER BY 1;

-- can_distribute --
-- Is there something that spreads tables over machines?
SELECT EXISTS (SELECT 1 FROM pg_proc WHERE proname = 'create_distributed_table');

-- distributed --
-- Tables that are spread already.
SELECT logicalrelid::text FROM pg_dist_partition WHERE partmethod = 'h' ORDER BY 1;

-- is_distributed --
-- Is this one of them?
SELECT EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = %(table)s::regclass);

-- allow_triggers --
-- The journal's triggers look at nothing but their own table, so they are safe on every machine.
SELECT set_config('citus.enable_unsafe_triggers', 'on', false);

-- drop_truncate_trigger --
-- What is left behind where the rows were must be cut away once they have moved.
DROP TRIGGER IF EXISTS journal_is_never_cut ON journal;

-- make_truncate_trigger --
-- And never again.
CREATE OR REPLACE TRIGGER journal_is_never_cut BEFORE TRUNCATE ON journal
FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_the_journal();

-- clear_local --
-- Rows that have moved to other machines still lie in the file they were in.
SELECT truncate_local_data_after_distributing_table(%(table)s::regclass);

-- distribute --
-- Spread a table by tenant, beside the others.
SELECT create_distributed_table(%(table)s::regclass, 'tenant', colocate_with => %(beside)s);

-- begin --
-- From here on all or nothing.
BEGIN;

-- begin_moment --
-- Everything read from here on is of one moment.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- commit --
-- And it is on disk.
COMMIT;
