"""The proposal's example trace, attribute by attribute: a shopping agent with a long-term store for each of its users."""

from itertools import count

from opentelemetry.trace import SpanKind

from quipu import Telemetry
from quipu.bootstrap import open_container
from quipu.config import Settings
from quipu.memory.operations import CREATE_STORE, RECALL, REMEMBER
from quipu.model.principal import local
from quipu.operation import dispatch
from quipu.testing.embedders import WordEmbedder
from tests.fixtures.spans import Shown, values
from tests.requirement import requirement

MS = 1_000_000
P = "gen_ai.memory."


class Time:
    """Nanoseconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_750_000_000_000 * MS
        self.steps: list[int] = []

    def __call__(self) -> int:
        """Each look at the clock takes the next step."""
        self.now += self.steps.pop(0) * MS if self.steps else 0
        return self.now


@requirement("opentelemetry:example.trace")
async def test_the_shopping_agent(shown: Shown) -> None:
    time, numbers = Time(), count(1)
    given_ids = {"mem": iter(("mem_1", "mem_2", "mem_3", "mem_xyz789"))}
    container = await open_container(
        Settings(),
        stores=[":memory:"],
        embedder=WordEmbedder(),
        new_id=lambda prefix: next(given_ids.get(prefix, iter(())), f"{prefix}_{next(numbers)}"),
        telemetry=Telemetry(tracer_provider=shown.tracers, meter_provider=shown.meters, clock_ns=time),
    )
    principal = local(agent_id="shopping-assistant")

    async def call(operation, **fields):  # type: ignore[no-untyped-def]
        return await dispatch(container.context(principal), operation, fields)

    store = await call(
        CREATE_STORE, name="user-preferences", scope="user", tier="long_term", namespace="user_12345"
    )
    for text in ("Likes running shoes.", "Wears running shoes in size 42.", "Returned red running shoes."):
        await call(REMEMBER, content=text, store="user-preferences", user_id="user_12345")
    shown.taken()

    tracer = shown.tracers.get_tracer("agent")
    with tracer.start_as_current_span("invoke_agent Shopping Assistant", kind=SpanKind.CLIENT):
        time.steps = [0, 45]  # begun now, ended 45 ms later
        found = await call(
            RECALL, query="running shoes", store="user-preferences", user_id="user_12345", min_relevance=0.7
        )
        with tracer.start_as_current_span("chat gpt-4", kind=SpanKind.CLIENT):
            pass
        time.steps = [5, 30]
        done = await call(
            REMEMBER, content="Bought trail shoes.", store="user-preferences", user_id="user_12345"
        )
    await container.close()

    agent, chat = shown.named("invoke_agent Shopping Assistant"), shown.named("chat gpt-4")
    search, update = (
        shown.named("search_memory user-preferences"),
        shown.named("update_memory user-preferences"),
    )
    assert len(shown.spans) == 4
    for span in (search, chat, update):
        assert span.parent is not None
        assert span.parent.span_id == agent.get_span_context().span_id
        assert span.kind is SpanKind.CLIENT
    assert [(one.end_time or 0) - (one.start_time or 0) for one in (search, update)] == [45 * MS, 30 * MS]
    assert len(found) == 3
    common = {
        "gen_ai.provider.name": "quipu",
        f"{P}store.id": store.id,
        f"{P}store.name": "user-preferences",
        f"{P}type": "long_term",
        f"{P}namespace": "user_12345",
        "quipu.memory.side": "caller",
    }
    assert values(search) == {
        **common,
        "gen_ai.operation.name": "search_memory",
        f"{P}search.result.count": 3,
        f"{P}search.similarity.threshold": 0.7,
        "quipu.memory.operation": "recall",
        "quipu.memory.search.k": 5,
    }
    assert done.id == "mem_xyz789"
    assert values(update) == {
        **common,
        "gen_ai.operation.name": "update_memory",
        f"{P}id": "mem_xyz789",
        "quipu.memory.operation": "remember",
        "quipu.memory.outcome": "created",
        "quipu.memory.record.type": "semantic",
    }
    assert shown.findings() == []
