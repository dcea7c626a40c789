"""The OpenAPI document, held against the server: what it says of an answer is so, whatever was asked.

Once with a request for each operation that can be carried out, and once with what schemathesis makes of the document.
"""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi import checks

from quipu.access.operations import CREATE_TENANT, CREATE_TOKEN
from quipu.bootstrap import OPERATIONS, http_app
from quipu.client.remote import rendered
from quipu.config import Settings
from quipu.http.server import Server, bound_socket, serve
from quipu.http.v0 import v0_operations
from quipu.memory.operations import REMEMBER
from quipu.model.principal import local
from quipu.operation import AnyOperation
from tests.architecture.world import REFUSED, World, open_world

#: A word of another tenant, which no answer may hold; nor anything of what a failure looks like inside.
CANARY = "canary-of-another-tenant"
UNTOLD = (CANARY, "Traceback", 'File "/', "apsw", "psycopg", "/site-packages/")
#: Not for who asks at random: it never ends by itself, writes files anywhere, or shuts everybody out.
NOT_AT_RANDOM = ("/v1/changes", "/v1/backup", "/v1/tenants/{tenant}/suspend")
#: Seconds that may go by, for all of it.
LIMIT_S = 150
CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


@schemathesis.serializer("application/x-ndjson")
def ndjson(_: Any, value: Any) -> bytes:
    """One line of what was made up, or the text of it."""
    return value if isinstance(value, bytes) else json.dumps(value, default=str).encode() + b"\n"


@dataclass
class Target:
    """A server on a socket with something of every kind in it, and the document that it shows."""

    url: str
    token: str
    world: World
    loop: asyncio.AbstractEventLoop

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def request(self, operation: AnyOperation) -> dict[str, Any]:
        """What the operation can carry out."""
        return asyncio.run_coroutine_threadsafe(self.world.request(operation), self.loop).result(60)

    def things(self) -> Mapping[str, str]:
        """The id of one thing of each kind."""

        async def made() -> dict[str, str]:
            return {kind: await self.world.thing(kind) for kind in self.world._makers}

        return asyncio.run_coroutine_threadsafe(made(), self.loop).result(60)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("described")
    settings = Settings(port=0, shutdown_grace_s=5)
    listening, ready = bound_socket(settings), threading.Event()
    found, running, failures = list[Target](), list[Server](), list[BaseException]()

    async def main() -> None:
        world = await open_world(folder)
        asked = {"name": "asker", "roles": ["admin", "operator"], "default_agent": world.agent}
        token = (await world(CREATE_TOKEN, **asked)).text
        await world(CREATE_TENANT, tenant="other")
        await world(REMEMBER, local("other", "theirs"), content=CANARY)
        world.sender = await world.container.access.credentials.principal(token)
        app = http_app(world.container)
        running.append(Server(app, settings))

        async def started(url: str) -> None:
            found.append(Target(url, token, world, asyncio.get_running_loop()))
            ready.set()

        await serve(app, settings, listening, started, server=running[0])
        await world.container.close()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(60)
    assert not failures, failures
    yield found[0]
    running[0].stop()
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def document(target: Target) -> dict[str, Any]:
    return httpx.get(f"{target.url}/openapi.json").json()


def wrong_with(case: Case, response: Any) -> str | None:
    """What is wrong with an answer; None: it is as the document has it, and says nothing that it must not."""
    text = response.content.decode("utf-8", "replace")
    if told := [word for word in UNTOLD if word in text]:
        return f"tells {told}"
    # 501 says that a part is not here, 503 that somebody else does not answer.
    if response.status_code >= 500 and response.status_code not in (501, 503):
        return f"{response.status_code} {text[:300]}"
    try:
        case.validate_response(response, checks=CHECKS)
    except (FailureGroup, Failure) as failure:
        inner = failure.exceptions if isinstance(failure, FailureGroup) else [failure]
        return "; ".join(f"{response.status_code} {one.title}: {one.message[:300]}" for one in inner)
    return None


# -- requests that can be carried out ---------------------------------------------------------------------------------

#: Operations that a request and an answer are not all of: they stream, or move a file.
_STREAMS = frozenset(
    one.name
    for one in OPERATIONS
    if one.http is not None and (one.is_stream or one.http.body != "json" or one.http.answers == "file")
)
#: What v0 requires of each request, beside what we do.
_V0: Mapping[str, Mapping[str, Any]] = {
    **{name: {"agent_id": "theirs"} for name in ("recall", "forget", "merge", "expire")},
    "remember": {"agent_id": "theirs", "type": "semantic"},
}


def addressed() -> Iterator[tuple[str, AnyOperation, Mapping[str, Any]]]:
    """Each operation at its own address, and at v0's; by its id in the document, with what v0 wants beside."""
    for operation in OPERATIONS:
        if operation.http is not None and operation.name not in _STREAMS:
            yield operation.name, operation, {}
    for name, operation in v0_operations(OPERATIONS).items():
        yield f"v0_{operation.name}", operation, _V0.get(name, {})


def test_every_answer_is_as_the_document_has_it(target: Target, document: dict[str, Any]) -> None:
    described = schemathesis.openapi.from_dict(document)
    by_id = {one.ok().definition.raw["operationId"]: one.ok() for one in described.get_all_operations()}
    wrong, done = dict[str, str](), 0
    with httpx.Client(base_url=target.url, timeout=60) as client:
        for name, operation, more in addressed():
            request = {**target.request(operation), **more}
            call = rendered(operation, request)
            badly = {**(call.query or {}), "nonsense": "1"}
            for about, headers, query, expected in (
                ("by nobody", {}, call.query, {401}),
                ("badly", target.headers, badly, {400}),
                ("well", target.headers, call.query, {200, 202}),
            ):
                answer = client.request(
                    call.method,
                    call.path,
                    params=query or None,
                    json=call.body if call.method not in ("GET", "DELETE") else None,
                    headers=headers,
                )
                if about == "well" and operation.name in REFUSED:
                    expected = {*range(400, 500), 503}
                elif about == "by nobody" and operation.http is not None and operation.http.is_public:
                    expected = {200, *range(400, 500)}
                found = wrong_with(by_id[name].Case(path_parameters=request), answer)
                if found is None and answer.status_code not in expected:
                    found = f"{answer.status_code} {answer.text[:300]}"
                if found is not None:
                    wrong[f"{name} {about}"] = found
                done += 1
    assert not wrong, json.dumps(wrong, indent=1)
    assert done > 250


def test_the_document_has_every_protocol_and_says_what_each_address_is_for(document: dict[str, Any]) -> None:
    said = {
        f"{method} {path}": one.get("summary")
        for path, item in document["paths"].items()
        for method, one in item.items()
    }
    assert [place for place, summary in said.items() if not summary] == []
    for place in ("post /oap/memory/query", "post /v1/runs", "post /memorywire/v0/recall", "get /readyz"):
        assert place in said


# -- requests made from the document ----------------------------------------------------------------------------------

#: The part of a path before a name, and what is so called.
_KINDS: Mapping[str, str] = {
    **{"memories": "record", "tokens": "token", "secrets": "secret", "proposals": "proposal"},
    **{"webhooks": "webhook", "grants": "grant", "grant": "grant", "suggested": "suggested rule"},
    **{"workflow-runs": "run", "runs": "run", "x-host-quipu-runs": "run", "stores": "store"},
}


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S * 2)
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")  # of schemathesis' own
def test_no_request_that_the_document_allows_or_forbids_is_answered_otherwise(
    target: Target, document: dict[str, Any]
) -> None:
    things, wrong, statuses, asked = target.things(), dict[str, str](), Counter[int](), Counter[str]()
    paths = {path: item for path, item in document["paths"].items() if path not in NOT_AT_RANDOM}
    described = schemathesis.openapi.from_dict({**document, "paths": paths})
    operations = [one.ok() for one in described.get_all_operations()]

    begin = time.monotonic()

    def ask_at_random(operation: Any, until: float) -> None:
        kind = next((_KINDS[part] for part in operation.path.split("/") if part in _KINDS), None)

        strategy = operation.as_strategy()
        if operation.body or operation.query or operation.path_parameters:
            strategy |= operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

        @settings(
            max_examples=60,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy, is_known=st.booleans())
        def ask(case: Case, is_known: bool) -> None:
            if asked[operation.label] and time.monotonic() > until:
                return
            asked[operation.label] += 1
            for name in case.path_parameters or {}:
                if is_known and kind is not None and name in ("id", "run_id", "name"):
                    case.path_parameters[name] = things[kind]
            response = case.call(base_url=target.url, headers=target.headers)
            statuses[response.status_code] += 1
            found = wrong_with(case, response)
            if found is not None:
                wrong.setdefault(f"{operation.label} {response.status_code}", f"{found}\n{case.body!r:.300}")

        ask()

    for number, operation in enumerate(operations, 1):  # a slow machine asks less of each, and not of fewer
        ask_at_random(operation, begin + LIMIT_S * number / len(operations))
    assert not wrong, json.dumps(wrong, indent=1)
    assert len(asked) == len(operations) > 120
    assert statuses[200] > len(operations)
    assert httpx.get(f"{target.url}/readyz").status_code == 200
