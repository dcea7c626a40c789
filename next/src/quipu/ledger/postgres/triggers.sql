-- The journal and its checkpoints are append-only, whoever has the database.

CREATE FUNCTION quipu_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$;

CREATE TRIGGER journal_is_never_changed BEFORE UPDATE OR DELETE ON journal
FOR EACH ROW EXECUTE FUNCTION quipu_append_only();

CREATE TRIGGER journal_is_never_emptied BEFORE TRUNCATE ON journal
FOR EACH STATEMENT EXECUTE FUNCTION quipu_append_only();

CREATE TRIGGER checkpoint_is_never_changed BEFORE UPDATE OR DELETE ON checkpoint
FOR EACH ROW EXECUTE FUNCTION quipu_append_only();

CREATE TRIGGER checkpoint_is_never_emptied BEFORE TRUNCATE ON checkpoint
FOR EACH STATEMENT EXECUTE FUNCTION quipu_append_only();
