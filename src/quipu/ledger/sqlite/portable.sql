-- tenant_names --
-- Whose chains are in the file.
SELECT tenant FROM tenant ORDER BY tenant;

-- dump --
-- All of a tenant's rows in one table.
SELECT {columns} FROM {table} WHERE tenant = :tenant ORDER BY {order};

-- count --
-- How many they are.
SELECT count(*) FROM {table} WHERE tenant = :tenant;

-- restore --
-- One row as it was dumped.
INSERT INTO {table} ({columns}) VALUES ({values});

-- dump_vectors --
-- All of a tenant's vectors, in every space.
SELECT r.tenant, r.row, v.space, v.data FROM record AS r JOIN vector AS v ON v.slot IN (2 * r.row, 2 * r.row + 1)
WHERE r.tenant = :tenant ORDER BY r.row;

-- count_dumped_vectors --
-- How many they are.
SELECT count(*) FROM record AS r JOIN vector AS v ON v.slot IN (2 * r.row, 2 * r.row + 1) WHERE r.tenant = :tenant;

-- restore_vector --
-- One vector as it was dumped.
INSERT INTO vector (slot, space, data) VALUES (?, ?, ?);

-- row_offset --
-- Rows of the next tenant are numbered behind this one: a file numbers the versions of all tenants together.
SELECT coalesce(max(row), 0) FROM record;
