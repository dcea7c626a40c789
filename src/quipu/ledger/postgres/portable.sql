-- tenant_names --
-- Whose chains are in the database.
SELECT tenant FROM tenant ORDER BY tenant;

-- dump --
-- All of a tenant's rows in one table.
SELECT {columns} FROM {table} WHERE tenant = %(tenant)s ORDER BY {order};

-- count --
-- How many they are.
SELECT count(*) FROM {table} WHERE tenant = %(tenant)s;

-- restore --
-- Rows as they were dumped.
COPY {table} ({columns}) FROM STDIN;

-- restore_vectors --
-- Vectors as they were dumped.
COPY embedding (tenant, row, space, data) FROM STDIN (FORMAT BINARY);

-- finish --
-- The next version is numbered behind those that were restored.
UPDATE tenant SET last_row = (SELECT coalesce(max(row), 0) FROM record WHERE tenant = %(tenant)s)
WHERE tenant = %(tenant)s;

-- unhurried --
-- However long it takes: the other side is read, written and checked meanwhile, with nothing said here. Until the end of the
-- transaction, whatever is set for everybody else; an older server lacks some of them.
SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('idle_in_transaction_session_timeout', 'statement_timeout', 'transaction_timeout');

-- alone --
-- Nobody writes while the tables are filled.
LOCK TABLE tenant IN EXCLUSIVE MODE;
