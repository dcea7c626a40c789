-- The journal, its checkpoints, receipts and the logs of items are append-only, whoever has the file.

CREATE TRIGGER journal_is_never_changed BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

CREATE TRIGGER journal_is_never_cut BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

CREATE TRIGGER checkpoint_is_never_changed BEFORE UPDATE ON checkpoint
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;

CREATE TRIGGER checkpoint_is_never_cut BEFORE DELETE ON checkpoint
BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;

CREATE TRIGGER receipt_is_never_changed BEFORE UPDATE ON receipt
BEGIN SELECT RAISE(ABORT, 'receipts are append-only'); END;

CREATE TRIGGER receipt_is_never_cut BEFORE DELETE ON receipt
BEGIN SELECT RAISE(ABORT, 'receipts are append-only'); END;

CREATE TRIGGER item_log_is_never_changed BEFORE UPDATE ON item_log
BEGIN SELECT RAISE(ABORT, 'logs of items are append-only'); END;

CREATE TRIGGER item_log_is_never_cut BEFORE DELETE ON item_log
BEGIN SELECT RAISE(ABORT, 'logs of items are append-only'); END;
