"""What is kept of runs, without secrets.

1. What a run is opened with, and what comes of it, is rewritten. All of it is read as one row, so that a secret cut in
   two is found, and a result under its name, as the name may say that it is one.
2. The names of workflows, nodes and results and the codes of failures mean something to whoever gave them: a secret
   there is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from quipu.model.runs import Run, RunError, Variable
from quipu.rules import redaction
from quipu.rules.redaction import Redaction


def opened(run: Run, given: Redaction) -> Run:
    """The run as it may be kept; or SecretLeakageError."""
    redaction.refuse_named_secrets([("/workflowId", run.workflow_id)], given)
    said = [run.inputs, run.configurable, run.metadata, list(run.tags), run.agent]
    clean = redaction.redacted_value(said, given.redactors, [], given.template)
    inputs, configurable, metadata, tags, agent = cast("Sequence[Any]", clean)
    return replace(
        run, inputs=inputs, configurable=configurable, metadata=metadata, tags=tuple(tags), agent=agent
    )


def results(variables: Sequence[Variable], given: Redaction) -> tuple[Variable, ...]:
    """Results as they may be kept; or SecretLeakageError."""
    redaction.refuse_named_secrets([("/variables", variable.name) for variable in variables], given)
    by_name = {variable.name: variable for variable in variables}
    said = {name: variable.value for name, variable in by_name.items()}
    clean = redaction.redacted_value(said, given.redactors, [], given.template)
    kept = zip(cast("Mapping[str, Any]", clean).items(), by_name.values(), strict=True)
    return tuple(Variable(name, value, variable.record_ids) for (name, value), variable in kept)


def failed(error: RunError | None, node_id: str | None, given: Redaction) -> None:
    """Raise SecretLeakageError where the node or the code of a failure holds a secret."""
    code = None if error is None else error.code
    redaction.refuse_named_secrets([("/nodeId", node_id), ("/error/code", code)], given)
