"""Entries: their shape, how they are listed, what is kept out of them, and how long they live."""

from typing import Any

import pytest

from quipu.errors import ForbiddenError, InvalidError, SecretLeakageError
from quipu.model.operations import ForgetRequest, RememberRequest
from quipu.model.outcomes import RememberResponse
from quipu.model.principal import Permission, Principal
from quipu.model.record import MemoryType
from quipu.model.runs import EventType, ForkMode, RunError, Variable
from quipu.rules.runs_options import ListOptions, list_options, new_entry, within_budget
from quipu.rules.runs_refs import SUMMARIES, is_minted, is_wellformed, summary_id
from quipu.service.runs_forking import ForkRequest
from quipu.testing.builders import START_MS
from tests.openwop.conftest import Opened
from tests.openwop.hosts import REF, Host
from tests.requirement import requirement

VALUE = "hunter2-hunter2"


def entry(**given: Any) -> Any:
    return new_entry({"content": "x", **given}, now=START_MS, most_bytes=64)


# -- shape and options ----------------------------------------------------------------------------------------------


@requirement("openwop:entry.size")
@pytest.mark.parametrize(
    ("content", "is_good"), [("x" * 64, True), ("x" * 65, False), ("ö" * 32, True), ("ö" * 33, False)]
)
def test_size_is_counted_in_bytes(content: str, is_good: bool) -> None:
    if is_good:
        assert entry(content=content).content == content
    else:
        with pytest.raises(InvalidError) as refused:
            entry(content=content)
        assert refused.value.faults[0].reason == "too_large"


@requirement("openwop:entry.tags")
async def test_tags_of_256_characters_are_kept_longer_ones_refused_and_empty_ones_dropped(host: Host) -> None:
    name = await host.put("tagged", tags=["t" * 256, "", "b"])
    assert (await host.get(name))["tags"] == ["t" * 256, "b"]
    with pytest.raises(InvalidError):
        await host.put("tagged", tags=["t" * 257])
    assert await host.list(tag="b") == [name]
    assert await host.list(tag="c") == []


@requirement("openwop:entry.host-assigned")
async def test_id_and_time_are_the_hosts_to_give(host: Host) -> None:
    name = await host.put("mine", id="chosen", createdAt="2001-01-01T00:00:00Z")
    assert name != "chosen"
    assert (await host.get(name))["createdAt"] == "2023-11-14T22:13:20.000Z"
    with pytest.raises(InvalidError):
        entry(colour="red")


@requirement("openwop:list.options")
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"limit": -1}, "/limit"),
        ({"limit": True}, "/limit"),
        ({"tag": ""}, "/tag"),
        ({"tag": "t" * 257}, "/tag"),
        ({"tokenBudget": 0}, "/tokenBudget"),
        ({"rank": "newest"}, "/rank"),
        ({"rank": "relevance"}, "/query"),
        ({"query": ""}, "/query"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_bad_options_are_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as refused:
        list_options(given)
    assert refused.value.faults[0].pointer == field


@requirement("openwop:list.limit")
async def test_limit_zero_is_the_default_and_more_than_the_most_is_the_most(host: Host) -> None:
    assert list_options({"limit": 0}).limit == list_options({}).limit == 100
    assert list_options({"limit": 10_000}).limit == 500
    assert list_options({"query": "ignored"}).query is None
    names = [await host.put(f"entry {n}") for n in range(3)]
    assert await host.list(limit=2) == names[:0:-1]


@requirement("openwop:list.order")
async def test_the_newest_comes_first_also_when_the_clock_stands_still(host: Host) -> None:
    names = [await host.put(f"entry {n}") for n in range(3)]
    host.clock.move(1)
    names.append(await host.put("later"))
    assert await host.list() == names[::-1]


@requirement("openwop:budget.prefix")
@pytest.mark.parametrize(
    ("sizes", "budget", "kept"),
    [([9, 2, 3], 8, 0), ([2, 9, 3], 8, 1), ([2, 3, 9], 8, 2), ([9], 8, 0), ([4, 4], 8, 2), ([1, 1], None, 2)],
)
def test_a_budget_keeps_a_prefix_and_cuts_nothing(sizes: list[int], budget: int | None, kept: int) -> None:
    assert within_budget(sizes, sizes, budget) == sizes[:kept]


@requirement("openwop:budget.snapshot")
async def test_a_budgeted_read_is_bound_to_the_snapshot_and_to_the_limit(host: Host) -> None:
    names = [await host.put("x" * 10) for _ in range(3)]
    run = await host.open()
    await host.put("x" * 30)
    assert await host.list(run=run, token_budget=25) == names[:0:-1]
    assert await host.list(run=run, token_budget=25, limit=1) == names[:1:-1]
    assert await host.list(token_budget=29) == []


# -- refs -----------------------------------------------------------------------------------------------------------


@requirement("openwop:ref.malformed")
@pytest.mark.parametrize("ref", ["a/../b", "a\0b", "x" * 257, "", 7, None])
async def test_no_ref_at_all_is_empty_for_readers_and_refused_for_writers(host: Host, ref: Any) -> None:
    assert await host.list(ref) == []
    assert await host.get("x", ref) is None
    assert await host.delete("x", ref) is False
    with pytest.raises(InvalidError):
        await host.put("text", ref)


@requirement("openwop:ref.named")
@pytest.mark.parametrize(
    "ref",
    [
        "conformance/agent-memory-cti",
        "mem_tenant:default_agent:x_longTerm",
        "mem://conformance/consolidation",
        "conformance-distill",
    ],
)
async def test_names_of_every_shape_are_named_refs(host: Host, ref: str) -> None:
    assert is_wellformed(ref)
    assert not is_minted(ref)
    name = await host.put("kept", ref)
    assert await host.list(ref) == [name]


@requirement("openwop:ref.minted")
async def test_a_minted_ref_is_one_for_each_memory_and_forbidden_to_others(host: Host) -> None:
    runs = host.service.runs
    minted = await runs.mint(host.principal, "ana", "main")
    assert is_minted(minted.ref)
    assert await runs.mint(host.principal, "ana", "main") == minted
    name = await host.put("of ana", minted.ref)
    assert await host.list(minted.ref) == await host.list("ana") == [name]
    other = await host.of("other")
    invented = "mem_" + "0" * 26
    told = set()
    for ref in (minted.ref, invented):
        for work in (
            other.list(ref),
            other.get(name, ref),
            other.put("x", ref),
            other.delete(name, ref),
            other.list(ref, query="ana"),
        ):
            with pytest.raises(ForbiddenError) as refused:
                await work
            told.add((refused.value.code, refused.value.message, refused.value.reason, refused.value.faults))
        with pytest.raises(ForbiddenError):
            await host.service.runs.deriving.compact(other.principal, ref)
    assert len(told) == 1


@requirement("openwop:ref.same-name")
async def test_the_same_name_in_two_tenants_is_two_memories(host: Host) -> None:
    mine = await host.put("of the first tenant")
    other = await host.of("other")
    assert await other.list() == []
    assert await other.get(mine) is None
    assert await other.delete(mine) is False
    theirs = await other.put("of the second tenant")
    assert await other.list() == [theirs]
    assert await host.list() == [mine]


@requirement("openwop:ref.agents-bound")
async def test_a_credential_reaches_only_the_memory_of_its_agents(host: Host) -> None:
    bound = Principal(tenant="default", name="b", permissions=frozenset(Permission), agents=("team/*",))
    await host.put("seen")
    memory = host.service.runs.memory
    assert len(await memory.list(bound, REF, ListOptions())) == 1
    with pytest.raises(ForbiddenError):
        await memory.list(bound, "other", ListOptions())


# -- secrets --------------------------------------------------------------------------------------------------------


@requirement("openwop:redaction.content-and-tags")
@pytest.mark.parametrize("template", ["<REDACTED:{label}>", "[REDACTED:{label}]"])
async def test_a_resolved_secret_is_kept_out_of_content_and_tags(opened: Opened, template: str) -> None:
    host = await opened(secrets_marker=template)
    run = await host.open()
    host.service.secrets.resolved("default", run.id, "db", VALUE)
    name = await host.put(f"key {VALUE} end", run=run, node_id="n", tags=[f"t-{VALUE}"])
    marker = template.replace("{label}", "db")
    kept = await host.get(name)
    assert kept["content"] == f"key {marker} end"
    assert kept["tags"] == [f"t-{marker}"]
    assert VALUE not in str(await host.events(run))
    # Gone with the run: what nobody resolves in a run is not known to it.
    await host.complete(run)
    assert (await host.get(await host.put(f"key {VALUE}", run=await host.open())))[
        "content"
    ] == f"key {VALUE}"


@requirement("openwop:redaction.lengths")
async def test_eight_characters_are_a_secret_and_seven_are_not_and_the_longest_wins(host: Host) -> None:
    run = await host.open()
    for label, value in (("short", "abcdefg"), ("eight", "qrstuvwx"), ("long", "qrstuvwx-and-more")):
        host.service.secrets.resolved("default", run.id, label, value)
    name = await host.put("abcdefg qrstuvwx qrstuvwx-and-more", run=run)
    assert (await host.get(name))["content"] == "abcdefg <REDACTED:eight> <REDACTED:long>"


@requirement("openwop:redaction.reject")
async def test_under_reject_nothing_is_stored_and_nothing_told(opened: Opened) -> None:
    host = await opened(secrets_policy="reject")
    run = await host.open()
    host.service.secrets.resolved("default", run.id, "db", VALUE)
    with pytest.raises(SecretLeakageError) as refused:
        await host.put(f"key {VALUE}", run=run, node_id="n")
    assert VALUE not in str(refused.value)
    assert await host.list() == []
    assert await host.types(run) == ["run.started"]


@requirement("openwop:redaction.everywhere")
async def test_a_secret_reaches_no_variable_no_event_no_error_no_summary_and_no_input(host: Host) -> None:
    await host.service.secrets.register(host.principal, label="db", value=VALUE)
    run = await host.open(inputs={"a": VALUE}, metadata={"b": [VALUE]}, tags=(VALUE,))
    runs = host.service.runs
    await runs.node(
        host.principal,
        run.id,
        "n",
        EventType.NODE_FAILED,
        error=RunError("x", f"no {VALUE}"),
        variables=[Variable("v", {"k": VALUE})],
    )
    await runs.fail(host.principal, run.id, RunError("x", f"no {VALUE}"))
    summary = await host.get(summary_id(run.id), SUMMARIES)
    told = str(
        [await runs.snapshot(host.principal, run.id), await host.events(run), await host.run(run), summary]
    )
    assert VALUE not in told
    assert "<REDACTED:db>" in told


# -- time -----------------------------------------------------------------------------------------------------------


@requirement("openwop:ttl.past")
async def test_an_end_that_has_passed_is_refused_to_the_millisecond(host: Host) -> None:
    for past in ("2023-11-14T22:13:19.999Z", "2023-11-14T22:13:20.000Z"):
        with pytest.raises(InvalidError):
            await host.put("late", expiresAt=past)
    name = await host.put("just in time", expiresAt="2023-11-14T22:13:20.001Z")
    assert await host.list() == [name]
    host.clock.move(1)
    assert await host.list() == []
    assert await host.delete(name) is False


@requirement("openwop:ttl.never-extended")
async def test_the_end_is_told_as_it_was_given(host: Host) -> None:
    name = await host.put("short", expiresAt="2023-11-15T00:00:00+01:00")
    assert (await host.get(name))["expiresAt"] == "2023-11-14T23:00:00.000Z"
    assert await host.service.runs.deriving.compact(host.principal, REF) is None
    await host.put("long")
    made = await host.service.runs.deriving.compact(host.principal, REF)
    assert made is not None
    assert (await host.get(made.record.id))["expiresAt"] == "2023-11-14T23:00:00.000Z"


# -- compaction and erasure -----------------------------------------------------------------------------------------


@requirement("openwop:compaction.foreign-forms")
@pytest.mark.parametrize("template", ["<REDACTED:{label}>", "[REDACTED:{label}]"])
async def test_foreign_forms_become_the_hosts_own_marker(opened: Opened, template: str) -> None:
    host = await opened(secrets_marker=template)
    texts = ("Use [BYOK:hk_live_canary_42].", "Was <REDACTED:db>.", "Was [REDACTED:api].")
    for number, text in enumerate(texts):
        await host.service.runs.deriving.seed(host.principal, REF, f"e{number}", text, ())
    made = await host.service.runs.upkeep.compact(host.principal, REF)
    assert made is not None
    labels = ("carry-forward", "db", "api")
    wanted = [template.replace("{label}", label) for label in labels]
    assert made.record.content == f"Use {wanted[0]}.\nWas {wanted[1]}.\nWas {wanted[2]}."


@requirement("openwop:compaction.snapshot")
async def test_runs_that_began_before_a_compaction_still_see_its_sources(host: Host) -> None:
    names = [await host.put(f"Fact {n}.") for n in range(3)]
    run = await host.open()
    made = await host.service.runs.deriving.compact(host.principal, REF)
    assert made is not None
    assert await host.list(run=run) == names[::-1]
    assert (await host.get(names[0], run=run))["content"] == "Fact 0."
    assert await host.list() == await host.list(run=await host.open()) == [made.record.id]
    assert await host.texts() == ["Fact 0.\nFact 1.\nFact 2."]
    assert await host.get(names[0]) is None


@requirement("openwop:erasure.derived")
async def test_erasing_a_source_erases_what_was_made_of_it(host: Host) -> None:
    names = [await host.put(text) for text in ("About Ana.", "About Bo.")]
    made = await host.service.runs.deriving.compact(host.principal, REF)
    assert made is not None
    second = await host.put("About Cy.")
    again = await host.service.runs.deriving.compact(host.principal, REF)
    assert again is not None
    request = ForgetRequest(agent_id=REF, ids=(names[0],), hard_delete=True)
    await host.service.forget(host.principal, request)
    for name in (made.record.id, again.record.id):
        versions = await host.running.parts.ledger.versions("default", name)
        assert all(version.is_emptied for version in versions)
    assert await host.texts() == []
    assert second


@requirement("openwop:erasure.variables")
async def test_erasure_reaches_run_variables(host: Host) -> None:
    run = await host.execute("conformance-agent-memory-roundtrip")
    before = await host.variables(run)
    name = before["memoryReadback"]["id"]
    fork = await fork_of(host, run.id)
    ref = "conformance/agent-memory-roundtrip"
    await host.service.forget(host.principal, ForgetRequest(agent_id=ref, ids=(name,), hard_delete=True))
    assert await host.variables(run) == {"memoryReadback": None}
    assert await host.variables(await host.service.runs.get(host.principal, fork)) == {"memoryReadback": None}


@requirement("openwop:erasure.distilled")
async def test_erasing_a_source_erases_what_was_distilled_of_it(host: Host) -> None:
    name = await host.put("About Ana. She likes tea.")
    await host.put("The lamp is lit.")
    made, _, _ = await host.service.runs.upkeep.distill(host.principal, REF, 8000)
    assert "Ana" in made.record.content
    await host.service.forget(host.principal, ForgetRequest(agent_id=REF, ids=(name,), hard_delete=True))
    assert await host.texts() == await host.texts(query="Ana") == []
    assert all(v.is_emptied for v in await host.running.parts.ledger.versions("default", made.record.id))


@requirement("openwop:erasure.forks")
async def test_what_is_erased_is_in_no_fork_and_no_answer_that_is_repeated(host: Host) -> None:
    request = RememberRequest(
        agent_id=REF, type=MemoryType.SEMANTIC, content="About Ana.", idempotency_key="once"
    )
    kept = await host.service.remember(host.principal, request)
    run = await host.complete(await host.open())
    forget = ForgetRequest(agent_id=REF, ids=(kept.id,), hard_delete=True)
    await host.service.forget(host.principal, forget)
    for mode in ForkMode:
        asked = ForkRequest(run_id=run.id, mode=mode)
        fork = (await host.service.runs.fork(host.principal, asked)).run
        assert await host.list(run=fork) == await host.list(run=fork, query="Ana") == []
        assert await host.get(kept.id, run=fork) is None
    again = await host.service.remember(host.principal, request)
    assert again.id != kept.id  # the key is forgotten with what was kept under it
    assert not again.is_replayed


@requirement("openwop:erasure.event-tags")
async def test_erasure_takes_tags_out_of_the_logs_that_stay(host: Host) -> None:
    run = await host.open()
    name = await host.put("About Ana.", run=run, node_id="n", tags=["ana@example.org"])
    other = await host.put("Tea.", run=run, node_id="n", tags=["drinks"])
    await host.complete(run)
    copy = await host.service.runs.get(host.principal, await fork_of(host, run.id))
    await host.service.forget(host.principal, ForgetRequest(agent_id=REF, ids=(name,), hard_delete=True))
    for one in (run, copy):
        written = [event.payload for event in await host.events(one) if event.type == "memory.written"]
        assert "ana@example.org" not in str(written)
        assert [payload["memoryId"] for payload in written][:2] == [name, other]
        assert written[1]["tags"] == ["drinks"]


async def fork_of(host: Host, run_id: str) -> str:
    asked = ForkRequest(run_id=run_id, mode=ForkMode.REPLAY)
    return (await host.service.runs.fork(host.principal, asked)).run.id


# -- attribution ----------------------------------------------------------------------------------------------------


@requirement("openwop:attribution.once")
async def test_each_entry_is_told_once_with_its_node_and_can_be_got(host: Host) -> None:
    run = await host.open()
    name = await host.put("told", run=run, node_id="writer", tags=["a"])
    (written,) = [event for event in await host.events(run) if event.type == "memory.written"]
    assert written.node_id == "writer"
    assert written.payload == {"memoryRef": REF, "memoryId": name, "nodeId": "writer", "tags": ["a"]}
    assert await host.get(written.payload["memoryId"], written.payload["memoryRef"]) is not None
    record = (await host.running.parts.ledger.read("default", [name]))[name]
    assert record.born == written.position
    assert (record.provenance.run_id, record.provenance.node_id) == (run.id, "writer")


@requirement("openwop:attribution.memorywire")
async def test_a_write_by_any_face_that_names_the_run_is_told_too(host: Host) -> None:
    run = await host.open()
    request = RememberRequest(
        agent_id="ana", type=MemoryType.SEMANTIC, content="by another face", run_id=run.id
    )
    answer = await host.service.remember(host.principal, request)
    many = await host.service.remember_many(host.principal, [request, request])
    ids = [event.payload["memoryId"] for event in await host.events(run) if event.type == "memory.written"]
    assert ids == [answer.id, *(one.id for one in many if not isinstance(one, Exception))]
    assert (await host.get(answer.id, "ana"))["content"] == "by another face"


@requirement("openwop:attribution.off")
async def test_nothing_is_told_where_it_is_not_advertised(opened: Opened) -> None:
    host = await opened(openwop_attribution=False)
    run = await host.open()
    await host.put("untold", run=run, node_id="n")
    await host.complete(run)
    assert await host.types(run) == ["run.started", "run.completed"]


@requirement("openwop:attribution.refused")
async def test_a_refused_write_is_not_told(host: Host) -> None:
    run = await host.open()
    with pytest.raises(InvalidError):
        await host.put("x", "a/../b", run=run)
    assert await host.types(run) == ["run.started"]


@requirement("openwop:redaction.batches")
@pytest.mark.parametrize("atomic", [True, False])
async def test_each_write_of_a_batch_is_checked_with_the_secrets_of_its_own_run(
    host: Host, atomic: bool
) -> None:
    mine, other = await host.open(), await host.open()
    await host.service.secrets.register(host.principal, label="db", value=VALUE, run_id=mine.id)
    host.service.secrets.resolved("default", mine.id, "key", "resolved-in-mine")

    def asked(run_id: str | None) -> RememberRequest:
        text = f"{VALUE} and resolved-in-mine"
        return RememberRequest(agent_id=REF, type=MemoryType.SEMANTIC, content=text, run_id=run_id)

    requests = [asked(mine.id), asked(other.id), asked(None)]
    done = await host.service.remember_many(host.principal, requests, atomic=atomic)
    kept = [(await host.get(answer.id))["content"] for answer in done if isinstance(answer, RememberResponse)]
    assert kept == ["<REDACTED:db> and <REDACTED:key>", *2 * [f"{VALUE} and resolved-in-mine"]]


@requirement("openwop:redaction.batches")
async def test_under_reject_a_batch_with_a_runs_secret_stores_nothing(opened: Opened) -> None:
    host = await opened(secrets_policy="reject")
    run = await host.open()
    await host.service.secrets.register(host.principal, label="db", value=VALUE, run_id=run.id)
    request = RememberRequest(agent_id=REF, type=MemoryType.SEMANTIC, content=f"key {VALUE}", run_id=run.id)
    (refused,) = await host.service.remember_many(host.principal, [request], atomic=False)
    assert isinstance(refused, SecretLeakageError)
    assert await host.list() == []
