"""The operations of runs, each declared once. OpenWOP's own addresses for them are in `routes.py`."""

from quipu.model.principal import Permission
from quipu.operation import FILTERED, NAMED, SERVER, Command, Operation, get, post
from quipu.runs import messages as m

_KEY = {"Idempotency-Key": "idempotency_key"}
_RUNS, _RUN = "/v1/workflow-runs", "/v1/workflow-runs/{run_id}"

OPEN_RUN = Operation(
    name="open_run",
    request=m.OpenRunRequest,
    response=m.RunView,
    permission=Permission.WRITE,
    limits=NAMED,
    http=post(_RUNS, headers=_KEY),
    repeat="with_key",
)
GET_WORKFLOW = Operation(
    name="get_workflow",
    request=m.GetWorkflowRequest,
    response=m.WorkflowView,
    permission=Permission.READ,
    limits=SERVER,
    repeat="safe",
)
GET_RUN = Operation(
    name="get_run",
    request=m.GetRunRequest,
    response=m.RunView,
    permission=Permission.READ,
    limits=FILTERED,
    http=get(_RUN),
    cli=Command(name="run show", arguments=("run_id",), examples=("quipu run show run_01…",)),
    repeat="safe",
)
LIST_RUNS = Operation(
    name="list_runs",
    request=m.ListRunsRequest,
    response=m.ListRunsResponse,
    permission=Permission.READ,
    limits=FILTERED,
    http=get(_RUNS),
    cli=Command(
        name="run list",
        columns=("id", "workflow_id", "agent_id", "status", "created_at"),
        examples=("quipu run list", "quipu run list --status running"),
    ),
    repeat="safe",
)
RECORD_NODE = Operation(
    name="record_node",
    request=m.RecordNodeRequest,
    response=m.RunView,
    permission=Permission.WRITE,
    limits=FILTERED,
    http=post(f"{_RUN}/nodes", headers=_KEY),
    repeat="with_key",
)
END_RUN = Operation(
    name="end_run",
    request=m.EndRunRequest,
    response=m.RunView,
    permission=Permission.WRITE,
    limits=FILTERED,
    http=post(f"{_RUN}/end", headers=_KEY),
    repeat="with_key",
)
CANCEL_RUN = Operation(
    name="cancel_run",
    request=m.CancelRunRequest,
    response=m.RunView,
    permission=Permission.WRITE,
    limits=FILTERED,
    http=post(f"{_RUN}/cancel", headers=_KEY),
    repeat="with_key",
)
FORK_RUN = Operation(
    name="fork_run",
    request=m.ForkRunRequest,
    response=m.ForkRunResponse,
    permission=Permission.WRITE,
    limits=FILTERED,
    http=post(f"{_RUN}/fork", headers=_KEY),
    cli=Command(
        name="run fork",
        arguments=("run_id",),
        examples=("quipu run fork run_01…", "quipu run fork run_01… --mode branch --from-seq 4"),
    ),
    repeat="with_key",
)
COMPARE_RUNS = Operation(
    name="compare_runs",
    request=m.CompareRunsRequest,
    response=m.RunComparison,
    permission=Permission.READ,
    limits=FILTERED,
    http=get(f"{_RUN}/compare/{{other_id}}"),
    cli=Command(
        name="run compare",
        arguments=("run_id", "other_id"),
        columns=("kind", "name", "run", "other"),
        examples=("quipu run compare run_01… run_02…",),
    ),
    repeat="safe",
)
LIST_RUN_EVENTS = Operation(
    name="list_run_events",
    request=m.ListRunEventsRequest,
    response=m.ListRunEventsResponse,
    permission=Permission.READ,
    limits=FILTERED,
    http=get(f"{_RUN}/events"),
    repeat="safe",
)
RUN_NOTES = Operation(
    name="run_notes",
    request=m.RunNotesRequest,
    response=m.RunNotesResponse,
    permission=Permission.WRITE,
    limits=FILTERED,
    http=post(f"{_RUN}/notes/{{backend}}", headers=_KEY),
    repeat="with_key",
)
MINT_MEMORY_REF = Operation(
    name="mint_memory_ref",
    request=m.MintMemoryRefRequest,
    response=m.MemoryRefView,
    permission=Permission.WRITE,
    limits=NAMED,
    http=post("/v1/memory-refs", headers=_KEY),
    repeat="with_key",
)
LIST_ENTRIES = Operation(
    name="list_entries",
    request=m.ListEntriesRequest,
    response=m.ListEntriesResponse,
    permission=Permission.READ,
    limits=FILTERED,
    http=post("/v1/memory-entries/list"),
    repeat="safe",
)
GET_ENTRY = Operation(
    name="get_entry",
    request=m.GetEntryRequest,
    response=m.GetEntryResponse,
    permission=Permission.READ,
    limits=FILTERED,
    http=post("/v1/memory-entries/get"),
    repeat="safe",
)
PUT_ENTRY = Operation(
    name="put_entry",
    request=m.PutEntryRequest,
    response=m.PutEntryResponse,
    permission=Permission.WRITE,
    limits=FILTERED,
    http=post("/v1/memory-entries/put", headers=_KEY),
    span="update_memory",
    repeat="with_key",
)
DELETE_ENTRY = Operation(
    name="delete_entry",
    request=m.DeleteEntryRequest,
    response=m.DeleteEntryResponse,
    permission=Permission.DELETE,
    limits=FILTERED,
    http=post("/v1/memory-entries/delete", headers=_KEY),
    span="delete_memory",
    repeat="with_key",
)

OPERATIONS = (
    *(OPEN_RUN, GET_RUN, LIST_RUNS, RECORD_NODE, END_RUN, CANCEL_RUN, FORK_RUN, COMPARE_RUNS),
    *(
        LIST_RUN_EVENTS,
        RUN_NOTES,
        MINT_MEMORY_REF,
        LIST_ENTRIES,
        GET_ENTRY,
        PUT_ENTRY,
        DELETE_ENTRY,
        GET_WORKFLOW,
    ),
)
