"""The operations of procedures, each declared once."""

from quipu.model.principal import Permission
from quipu.operation import FILTERED, Command, Operation, Tool, get, post
from quipu.procedures import model as m


def _step_permission(request: m.StepRequest) -> Permission:
    return Permission.WRITE if request.is_kept else Permission.READ


STEP = Operation(
    name="step",
    request=m.StepRequest,
    response=m.StepResponse,
    permission=_step_permission,
    limits=FILTERED,
    http=post(
        "/v1/memories/{id}/step", headers={"Idempotency-Key": "idempotency_key", "If-Match": "if_version"}
    ),
    mcp=Tool(profile="admin", asks=True),
    cli=Command(
        name="procedure step",
        arguments=("id", "trigger"),
        examples=(
            "quipu procedure step mem_01…",
            "quipu procedure step mem_01… refund --facts '{\"goods_intact\": true}'",
        ),
    ),
    span="update_memory",
    repeat="with_key",
)
GET_PROCEDURE = Operation(
    name="get_procedure",
    request=m.GetProcedureRequest,
    response=m.ProcedureView,
    permission=Permission.READ,
    limits=FILTERED,
    http=get("/v1/memories/{id}/procedure"),
    repeat="safe",
)

OPERATIONS = (STEP, GET_PROCEDURE)
