-- Tasks: long work for somebody outside.

-- Long work for somebody outside, such as a file that is made: how each stood, one line after the other. The newest line
-- is also the sign that somebody still works at it.
CREATE TABLE task_step (
  tenant text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  state text NOT NULL,
  at bigint NOT NULL,
  detail text NOT NULL,
  CONSTRAINT task_step_key PRIMARY KEY (tenant, task_id, number),
  CONSTRAINT task_step_state CHECK (
    state IN ('submitted', 'accepted', 'working', 'awaiting_input', 'completed', 'failed', 'canceled', 'expired')
  )
);

CREATE FUNCTION refuse_to_change_task_steps() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the steps of a task are append-only';
END
$$;

CREATE TRIGGER task_step_is_never_changed BEFORE UPDATE ON task_step
FOR EACH ROW EXECUTE FUNCTION refuse_to_change_task_steps();
