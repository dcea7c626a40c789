"""The operation of consolidation."""

from quipu.consolidation import model as m
from quipu.model.principal import Permission
from quipu.operation import NAMED, Command, Operation, post


def _permission(request: m.ConsolidateRequest) -> Permission:
    """Over every agent it is an administrator's matter. That it also writes, the handler checks."""
    return Permission.ADMIN if request.all_agents else Permission.DELETE


CONSOLIDATE = Operation(
    name="consolidate",
    request=m.ConsolidateRequest,
    response=m.ConsolidateResponse,
    permission=_permission,
    limits=NAMED,
    http=post("/v1/consolidate"),
    cli=Command(
        columns=("outcome", "score", "ids", "into", "reason"),
        examples=("quipu consolidate --dry-run", "quipu consolidate --all-agents"),
    ),
    span="quipu.consolidate",
)

OPERATIONS = (CONSOLIDATE,)
