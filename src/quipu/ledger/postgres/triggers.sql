-- The journal, its checkpoints, receipts and the logs of items are append-only, whoever has the database.

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

CREATE TRIGGER receipt_is_never_changed BEFORE UPDATE OR DELETE ON receipt
FOR EACH ROW EXECUTE FUNCTION quipu_append_only();

CREATE TRIGGER receipt_is_never_emptied BEFORE TRUNCATE ON receipt
FOR EACH STATEMENT EXECUTE FUNCTION quipu_append_only();

CREATE TRIGGER item_log_is_never_changed BEFORE UPDATE OR DELETE ON item_log
FOR EACH ROW EXECUTE FUNCTION quipu_append_only();

CREATE TRIGGER item_log_is_never_emptied BEFORE TRUNCATE ON item_log
FOR EACH STATEMENT EXECUTE FUNCTION quipu_append_only();
