-- How the server describes some tables of a schema, and all that hangs on them: kind, name, words.
WITH relation AS (
  SELECT c.oid, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p')
    AND (%(tables)s::text[] IS NULL OR c.relname = ANY (%(tables)s::text[])))
SELECT 'table', relname, '' FROM relation
UNION ALL
SELECT 'column', r.relname || '.' || a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod),
  CASE WHEN a.attnotnull THEN 'not null' END, l.collname, pg_get_expr(d.adbin, d.adrelid))
FROM relation AS r JOIN pg_attribute AS a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
UNION ALL
SELECT 'constraint', o.conname, pg_get_constraintdef(o.oid) FROM relation AS r JOIN pg_constraint AS o ON o.conrelid = r.oid
UNION ALL
SELECT 'index', i.relname, pg_get_indexdef(i.oid) FROM relation AS r
JOIN pg_index AS x ON x.indrelid = r.oid JOIN pg_class AS i ON i.oid = x.indexrelid
WHERE NOT EXISTS (SELECT 1 FROM pg_constraint AS o WHERE o.conindid = i.oid)
UNION ALL
SELECT 'trigger', t.tgname, concat_ws(' ', pg_get_triggerdef(t.oid), CASE WHEN t.tgenabled IN ('O', 'A') THEN 'on' END,
  p.prosrc)
FROM relation AS r JOIN pg_trigger AS t ON t.tgrelid = r.oid AND NOT t.tgisinternal JOIN pg_proc AS p ON p.oid = t.tgfoid
UNION ALL
SELECT 'rule', w.rulename, pg_get_ruledef(w.oid) FROM relation AS r JOIN pg_rewrite AS w ON w.ev_class = r.oid
