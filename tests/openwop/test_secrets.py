"""Secrets of runs: they stay out of memory, events, variables, logs and spans, also when a server is killed."""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from quipu.errors import InvalidError, SecretLeakageError
from quipu.model.governance import Decision, Edit
from quipu.model.operations import Line, RememberRequest
from quipu.model.record import MemoryType
from quipu.model.runs import EventType, ForkMode, Run, RunError, RunStatus, Variable
from quipu.rules.runs_workflows import TEST_SECRETS
from quipu.service import runs_nodes
from quipu.service.runs import OpenRequest
from quipu.service.runs_forking import ForkRequest
from tests.faces.serving import Program
from tests.openwop.conftest import Opened
from tests.openwop.hosts import REF, Host
from tests.requirement import requirement

SECRET = "conformance-test-secret"  # noqa: S105  its name
REDACTION = "conformance-agent-memory-redaction"
#: What the tenant keeps under the name that the fixtures resolve; shaped like nothing that a detector knows.
VALUE = "quiet lantern over seven wells"


async def interrupted(host: Host, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose node has resolved its secret and written, and whose engine then stops."""
    reached, real = asyncio.Event(), runs_nodes.performed

    async def stopping(work: Any) -> Any:
        await real(work)
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(runs_nodes, "performed", stopping)
    opened = await host.service.runs.open(host.principal, OpenRequest(workflow_id=REDACTION))
    await asyncio.wait_for(reached.wait(), 20)
    monkeypatch.setattr(runs_nodes, "performed", real)
    await host.service.runs.engine.close()
    return opened.run


@requirement("openwop:durability.secrets")
async def test_what_was_resolved_before_an_interruption_stays_out_of_every_write_after_it(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await interrupted(await opened(), monkeypatch)
    second = await opened()
    going, go, real = asyncio.Event(), asyncio.Event(), runs_nodes.performed

    async def waiting(work: Any) -> Any:
        going.set()
        await go.wait()
        return await real(work)

    monkeypatch.setattr(runs_nodes, "performed", waiting)
    assert await second.service.runs.engine.recover() == 1
    await asyncio.wait_for(going.wait(), 20)  # the node has resolved nothing yet in this process
    value = TEST_SECRETS[SECRET]
    written = await second.put(f"the key is {value}", run=run)
    assert (await second.get(written))["content"] == f"the key is <REDACTED:{SECRET}>"
    go.set()
    await second.service.runs.engine.settle()
    assert (await second.run(run)).status is RunStatus.COMPLETED
    assert value not in str([await second.events(run), await second.variables(run)])
    # Gone with the run: another one may write it.
    later = await second.put(f"the key is {value}", run=await second.open())
    assert (await second.get(later))["content"] == f"the key is {value}"


@requirement("openwop:durability.secrets")
async def test_a_run_whose_secret_is_gone_when_it_goes_on_fails_with_a_code(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await opened()
    kept = await first.service.secrets.register(first.principal, label=SECRET, value=VALUE)
    run = await interrupted(first, monkeypatch)
    second = await opened()
    await second.service.secrets.remove(second.principal, kept.id)
    monkeypatch.setattr("quipu.rules.runs_workflows.TEST_SECRETS", {})
    assert await second.service.runs.engine.recover() == 1
    await second.service.runs.engine.settle()
    ended = await second.run(run)
    assert (ended.status, ended.error and ended.error.code) == (RunStatus.FAILED, "credential_unavailable")


@requirement("openwop:redaction.logs")
async def test_no_log_line_tells_a_secret_of_a_run(
    host: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    await host.service.secrets.register(host.principal, label=SECRET, value=VALUE)
    await host.execute(REDACTION)

    async def failing(_: Any) -> Any:
        raise InvalidError(f"It was {VALUE}.", reason="bad_value")

    async def crashing(_: Any) -> Any:
        raise RuntimeError(f"It was {VALUE}.")

    shown: list[Any] = []
    for broken in (failing, crashing):
        monkeypatch.setattr(runs_nodes, "performed", broken)
        run = await host.execute(REDACTION)
        assert run.status is RunStatus.FAILED
        shown += [run.error, await host.events(run)]
    assert VALUE not in caplog.text
    assert VALUE not in str(shown)


@requirement("openwop:redaction.spans")
async def test_a_span_with_content_is_without_the_runs_secrets(host: Host) -> None:
    seen: list[Any] = []

    class Watching:
        def operation(self, observation: Any) -> Any:
            observation.is_watched = observation.wants_content = True
            seen.append(observation)
            return contextlib.nullcontext()

        def __getattr__(self, name: str) -> Any:
            return getattr(host.running.parts.observer, name)

    observing: Any = host.service._observing
    observing._parts = replace(observing._parts, observer=Watching())
    run = await host.open()
    await host.service.secrets.register(host.principal, label="db", value=VALUE, run_id=run.id)
    request = RememberRequest(agent_id="a", type=MemoryType.SEMANTIC, content=f"key {VALUE}", run_id=run.id)
    await host.service.remember(host.principal, request)
    (observation,) = seen
    assert [record["content"] for record in observation.records] == ["key <REDACTED:db>"]


def held(run: Run | None, text: str) -> RememberRequest:
    run_id = None if run is None else run.id
    return RememberRequest(
        agent_id="a", type=MemoryType.SEMANTIC, content=text, run_id=run_id, approval_required=True
    )


def proposed(answer: Any) -> str:
    return str(answer.extensions["proposal_id"])


@requirement("openwop:redaction.review")
async def test_an_edit_at_review_is_checked_with_the_secrets_of_the_run_that_wrote(host: Host) -> None:
    service, ana = host.service, host.principal
    run, other = await host.open(), await host.open()
    await service.secrets.register(ana, label="db", value=VALUE, run_id=run.id)
    service.secrets.resolved("default", run.id, "key", "resolved-in-the-run")
    said = Decision(
        approved=True,
        reason=f"It is {VALUE}.",
        edit=Edit(content=f"{VALUE}, resolved-in-the-run", tags=(f"t {VALUE}",)),
    )
    kept = []
    for where in (run, other, None):
        waiting = proposed(await service.remember(ana, held(where, "wait")))
        answer = await service.reviewing.decide(ana, waiting, said)
        (record,) = (await host.running.parts.ledger.read("default", [answer.id])).values()
        kept.append((record.content, record.tags))
    plain = (f"{VALUE}, resolved-in-the-run", (f"t {VALUE}",))
    assert kept == [("<REDACTED:db>, <REDACTED:key>", ("t <REDACTED:db>",)), plain, plain]
    proposals = await host.running.parts.ledger.proposals("default")
    reasons = [proposal.reason for proposal in proposals]
    assert sorted(str(reason) for reason in reasons) == ["It is <REDACTED:db>.", *2 * [f"It is {VALUE}."]]


@requirement("openwop:redaction.review")
async def test_a_secret_that_a_run_is_told_of_later_stays_out_of_what_waits(host: Host) -> None:
    service, ana = host.service, host.principal
    run = await host.open()
    waiting = await service.remember_many(
        ana, [held(run, f"key {VALUE}"), held(None, f"key {VALUE}")], atomic=True
    )
    await service.secrets.register(ana, label="db", value=VALUE, run_id=run.id)
    answers = await service.reviewing.decide(ana, proposed(waiting[0]), Decision(approved=True))
    found = await host.running.parts.ledger.read("default", [answer.id for answer in answers])
    assert [found[answer.id].content for answer in answers] == ["key <REDACTED:db>", f"key {VALUE}"]


@requirement("openwop:redaction.review")
async def test_under_reject_an_edit_with_a_runs_secret_is_refused_and_goes_on_waiting(opened: Opened) -> None:
    host = await opened(secrets_policy="reject")
    service, ana = host.service, host.principal
    run = await host.open()
    await service.secrets.register(ana, label="db", value=VALUE, run_id=run.id)
    waiting = proposed(await service.remember(ana, held(run, "wait")))
    with pytest.raises(SecretLeakageError) as refused:
        await service.reviewing.decide(ana, waiting, Decision(approved=True, edit=Edit(content=VALUE)))
    assert VALUE not in str(refused.value.__dict__)
    (proposal,) = await host.running.parts.ledger.proposals("default")
    assert proposal.status == "pending"


@requirement("openwop:redaction.imports")
@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_line_of_an_import_is_checked_with_the_secrets_of_the_run_that_it_names(
    opened: Opened, dry_run: bool
) -> None:
    host = await opened(secrets_policy="reject")
    run, other = await host.open(), await host.open()
    await host.service.secrets.register(host.principal, label="db", value=VALUE, run_id=run.id)

    async def lines() -> AsyncIterator[Line]:
        for where in (run, other):
            text = f"key {VALUE}"
            yield Line(RememberRequest(agent_id="a", type=MemoryType.SEMANTIC, content=text, run_id=where.id))

    answer = await host.service.exchange.import_lines(host.principal, lines(), dry_run=dry_run)
    assert (answer.stored, answer.failed) == (1, 1)
    assert [(number, told.split(":")[0]) for number, told in answer.errors] == [(1, "secret_leakage")]


@requirement("openwop:durability.kill-secrets")
def test_a_server_that_is_killed_and_started_again_tells_no_secret_anywhere(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    settings = {
        **{"QUIPU_OPENWOP_SEAMS": "true", "QUIPU_OPENWOP_LEASE_S": "6"},
        **{"QUIPU_RATE": "0", "QUIPU_LOG_LEVEL": "debug"},
    }
    workflows = (REDACTION, "conformance-agent-memory-injection-budget")
    with Program(store, **settings) as first:
        token = first.token
        with httpx.Client(base_url=first.url, headers=_bearer(token), timeout=60) as client:
            told = client.post("/quipu/v1/secrets", json={"label": SECRET, "value": VALUE})
            assert told.is_success, told.text
            names = [
                client.post("/v1/runs", json={"workflowId": name}).json()["runId"]
                for _ in range(8)
                for name in workflows
            ]
        first.stop(signal.SIGKILL)
    with (
        Program(store, **settings) as second,
        httpx.Client(base_url=second.url, headers=_bearer(token), timeout=60) as client,
    ):
        shown = [client.get(f"/v1/runs/{name}").json() for name in names]
        assert any(run["status"] != "completed" for run in shown)  # it was killed in the middle
        shown += [_ended(client, name) for name in names]
        markers = [
            run["variables"].get("redactedContentSample") or run["variables"]["memoryReadback"]["content"]
            for run in shown[len(names) :]
        ]
        assert all(f"<REDACTED:{SECRET}>" in marker for marker in markers)
        shown += [client.get(f"/v1/runs/{name}/events").json() for name in names]
        shown += [client.get("/v1/memory/conformance%2Fagent-memory-redaction").json()]
        second.stop()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert VALUE not in str(shown) + first.log + second.log
    assert VALUE.encode() not in kept


def _ended(client: httpx.Client, name: str) -> Any:
    until = time.monotonic() + 90
    while (found := client.get(f"/v1/runs/{name}").json())["status"] not in ("completed", "failed"):
        assert time.monotonic() < until, "the run does not end"
        time.sleep(0.2)
    assert found["status"] == "completed"
    return found


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


# -- what an orchestrator outside says ------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["node", "variable", "code", "end", "last"])
async def test_a_name_that_holds_a_secret_is_refused_and_nothing_of_it_is_kept(host: Host, said: str) -> None:
    """Names of nodes and results and codes of failures cannot be rewritten without meaning something else."""
    runs, me = host.service.runs, host.principal
    await host.service.secrets.register(me, label="db", value=VALUE)
    run = await host.open()
    before = len(await host.events(run))
    error, results = RunError(VALUE, "It broke."), [Variable(VALUE, 1)]
    done, failed = EventType.NODE_COMPLETED, EventType.NODE_FAILED
    ways = {
        "node": lambda: runs.node(me, run.id, VALUE, done),
        "variable": lambda: runs.node(me, run.id, "first", done, variables=results),
        "code": lambda: runs.node(me, run.id, "first", failed, error=error),
        "end": lambda: runs.fail(me, run.id, error),
        "last": lambda: runs.complete(me, run.id, results),
    }
    with pytest.raises(SecretLeakageError) as refused:
        await ways[said]()
    assert VALUE not in repr(refused.value)
    assert (len(await host.events(run)), (await host.run(run)).status) == (before, RunStatus.RUNNING)


async def test_no_ref_is_given_out_for_an_agent_whose_name_is_a_secret(host: Host) -> None:
    await host.service.secrets.register(host.principal, label="db", value=VALUE)
    head = await host.running.parts.ledger.head(host.principal.tenant)
    with pytest.raises(SecretLeakageError):
        await host.service.runs.mint(host.principal, VALUE, "main")
    assert await host.running.parts.ledger.head(host.principal.tenant) == head


async def test_a_result_is_read_under_its_name_and_beside_the_others(host: Host) -> None:
    await host.service.secrets.register(host.principal, label="db", value=VALUE)
    run = await host.open()
    key = "q7XvN2mB9sKdR4tZ"
    said = [Variable("api_key", key), Variable("one", VALUE[:14]), Variable("two", VALUE[14:])]
    await host.service.runs.complete(host.principal, run.id, said)
    kept = await host.variables(run)
    assert sorted(kept) == ["api_key", "one", "two"]
    for part in (key, VALUE[:14], VALUE[14:]):
        assert part not in str(kept)


async def test_a_secret_that_is_cut_in_two_stays_out_of_what_a_run_is_opened_with(host: Host) -> None:
    await host.service.secrets.register(host.principal, label="db", value=VALUE)
    run = await host.open(tags=(VALUE[:14], VALUE[14:]), metadata={"a": "plain"})
    assert not {VALUE[:14], VALUE[14:]}.intersection(run.tags)
    assert run.metadata == {"a": "plain"}


@pytest.mark.parametrize("way", ["open", "node", "complete", "fail", "branch"])
async def test_a_secret_registered_while_a_run_is_written_stays_out_of_it(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Another server registers it after the texts were checked and before they are committed."""
    host, other = await opened(), await opened()
    runs, me, ledger = host.service.runs, host.principal, host.running.parts.ledger
    run = await host.open()
    ended = await host.open()
    await host.complete(ended)
    real, told = ledger.commit, list[bool]()

    async def late(*commits: Any, guard: int | None = None) -> Any:
        if VALUE in repr(commits) and not told:
            told.append(True)
            await other.service.secrets.register(me, label="db", value=VALUE)
        return await real(*commits, guard=guard)

    monkeypatch.setattr(ledger, "commit", late)
    said = [Variable("result", f"it is {VALUE}")]
    error = RunError("broken", f"It was {VALUE}.")
    match way:
        case "open":
            run = await host.open(inputs={"a": VALUE})
        case "node":
            await runs.node(me, run.id, "first", EventType.NODE_FAILED, error=error, variables=said)
        case "complete":
            await runs.complete(me, run.id, said)
        case "fail":
            await runs.fail(me, run.id, error)
        case _:
            asked = ForkRequest(run_id=ended.id, mode=ForkMode.BRANCH, inputs={"a": VALUE})
            run = (await runs.fork(me, asked)).run
    assert told
    assert VALUE not in repr([await host.run(run), await host.events(run), await host.variables(run)])


@pytest.mark.parametrize("kind", ["registered", "shaped", "armoured"])
async def test_a_secret_cut_in_two_stays_out_of_the_entry_that_both_become(host: Host, kind: str) -> None:
    await host.service.secrets.register(host.principal, label="db", value=VALUE)
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
    halves = {
        "registered": (f"it is {VALUE[:14]}", VALUE[14:]),
        "shaped": ("the key is sk-ant-api03-", "CANARYshape0123456789" * 2 + "abcdefghij"),
        "armoured": ("-----BEGIN PRIVATE KEY-----", f"{body}\n-----END PRIVATE KEY-----"),
    }
    for half in halves[kind]:
        await host.put(half)
        host.clock.move(1)
    made = await host.service.runs.deriving.compact(host.principal, REF)
    assert made is not None
    assert "<REDACTED:" in made.record.content
    assert halves[kind][1].partition("\n")[0] not in made.record.content
