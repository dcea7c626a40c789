-- Tasks: long work for somebody outside.

-- Long work for somebody outside, such as a file that is made: how each stood, one line after the other. The newest line
-- is also the sign that somebody still works at it.
CREATE TABLE task_step (
  tenant TEXT NOT NULL,
  task_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  state TEXT NOT NULL,
  at INTEGER NOT NULL,
  detail TEXT NOT NULL,
  CONSTRAINT task_step_key PRIMARY KEY (tenant, task_id, number),
  CONSTRAINT task_step_state CHECK (
    state IN ('submitted', 'accepted', 'working', 'awaiting_input', 'completed', 'failed', 'canceled', 'expired')
  )
) STRICT, WITHOUT ROWID;

CREATE TRIGGER task_step_is_never_changed BEFORE UPDATE ON task_step
BEGIN
  SELECT RAISE(ABORT, 'the steps of a task are append-only');
END;
