-- The limits of a token may be as large as a file keeps them.
ALTER TABLE token ALTER rate TYPE bigint, ALTER recall_budget TYPE bigint;
