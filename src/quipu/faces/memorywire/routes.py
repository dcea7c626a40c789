"""memorywire over HTTP: every address of its REST binding (contract section 3)."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from quipu.faces.http.catalogue import Face
from quipu.faces.memorywire import paths
from quipu.faces.memorywire.about import About
from quipu.faces.memorywire.audits import Audits
from quipu.faces.memorywire.changes import Changes
from quipu.faces.memorywire.exchange import Exchange
from quipu.faces.memorywire.operations import Operations, Writes
from quipu.faces.memorywire.proposals import Proposals
from quipu.faces.memorywire.records import Records
from quipu.faces.memorywire.rules import Rules
from quipu.faces.memorywire.stepping import Stepping
from quipu.faces.memorywire.wire_remember import RememberBody
from quipu.faces.memorywire.wire_requests import ExpireBody, ForgetBody, MergeBody
from quipu.service.memory import MemoryService

_WRITES: tuple[tuple[str, type[Writes]], ...] = (
    ("remember", RememberBody),
    ("forget", ForgetBody),
    ("merge", MergeBody),
    ("expire", ExpireBody),
)
#: A comment keeps an idle event stream open.
IDLE_S = 15.0


def face(service: MemoryService, *, public_url: str = "", idle_s: float = IDLE_S) -> Face:
    """What the plumbing needs to know of this face. `public_url`: where people reach the server, if not as asked."""
    return Face(
        name="memorywire",
        routes=routes(service, public_url=public_url, idle_s=idle_s),
        prefix=paths.PREFIX,
        public=paths.PUBLIC,
        streaming=paths.STREAMING,
        unbounded=paths.UNBOUNDED,
        operations={paths.operation(name): name for name in paths.OPERATIONS},
    )


def routes(service: MemoryService, *, public_url: str = "", idle_s: float = IDLE_S) -> list[BaseRoute]:
    """Every route. The service is asked at each request, not before."""
    operations = Operations(service, public_url)
    exchange, about = Exchange(service), About(service)
    return [
        Route(paths.operation("recall"), operations.recall, methods=["POST"]),
        *(Route(paths.operation(name), operations.writing(kind), methods=["POST"]) for name, kind in _WRITES),
        Route(paths.BATCH, operations.batch, methods=["POST"]),
        Route(paths.IMPORT, exchange.bring_in, methods=["POST"]),
        Route(paths.EXPORT, exchange.take_out, methods=["GET"]),
        Route(paths.CHANGES, Changes(service, idle_s).follow, methods=["GET"]),
        Route(_any_id(paths.STEP), Stepping(service, public_url).step, methods=["POST"]),
        *_records(Records(service, public_url)),
        *_proposals(Proposals(service)),
        *_rules(Rules(service)),
        Route(paths.AUDIT, Audits(service).page, methods=["GET"]),
        Route(paths.SCHEMAS, about.schemas, methods=["GET"]),
        Route(paths.SCHEMA, about.schema, methods=["GET"]),
        Route(paths.HEALTH, about.health, methods=["GET"]),
        Route(paths.CAPABILITIES, about.capabilities, methods=["GET"]),
    ]


def _any_id(path: str) -> str:
    """An id may hold anything, and one that is not there is told as such, not as an address that does not exist."""
    return path.replace("{id}", "{id:path}")


def _records(records: Records) -> list[BaseRoute]:
    return [
        Route(_any_id(paths.HISTORY), records.history, methods=["GET"]),
        Route(_any_id(paths.RESTORE), records.restore, methods=["POST"]),
        Route(_any_id(paths.RECORD), records.get, methods=["GET"]),
    ]


def _rules(rules: Rules) -> list[BaseRoute]:
    return [
        Route(paths.RULES, rules.show, methods=["GET"]),
        Route(paths.RULES, rules.replace, methods=["PUT"]),
        Route(paths.RULES_TEST, rules.test, methods=["POST"]),
        Route(paths.SUGGESTED, rules.suggested, methods=["GET"]),
        Route(_any_id(paths.SUGGESTION), rules.settle, methods=["POST"]),
    ]


def _proposals(proposals: Proposals) -> list[BaseRoute]:
    return [
        Route(paths.PROPOSALS, proposals.list, methods=["GET"]),
        Route(_any_id(paths.DECISION), proposals.decide, methods=["POST"]),
        Route(_any_id(paths.PROPOSAL), proposals.get, methods=["GET"]),
        Route(_any_id(paths.PROPOSAL), proposals.withdraw, methods=["DELETE"]),
    ]
