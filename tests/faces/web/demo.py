"""A memory with a past: three agents, four people, ten days of talk, changes of mind, and a few things that went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from quipu.model.access import Role
from quipu.model.operations import (
    CreateStoreRequest,
    ForgetRequest,
    MergeRequest,
    RecallRequest,
    RememberRequest,
)
from quipu.model.principal import Principal, local
from quipu.model.record import Link, MemoryType, PrivacyIntent, Sensitivity
from quipu.model.store import StoreScope
from quipu.service.memory import MemoryService

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
SUPPORT, TRAVEL, HOME = "support-bot", "travel-planner", "home-assistant"

PARCEL = {
    "name": "return-parcel",
    "initial": "asked",
    "states": ["asked", "labelled", "shipped", "refunded"],
    "transitions": [
        {"trigger": "label", "source": "asked", "dest": "labelled"},
        {"trigger": "ship", "source": "labelled", "dest": "shipped"},
        {"trigger": "refund", "source": "shipped", "dest": "refunded", "conditions": "goods_intact"},
    ],
    "current": "asked",
}

#: agent, user, type, text, and what else there is to say
FACTS: tuple[tuple[str, str | None, str, str, dict[str, Any]], ...] = (
    (SUPPORT, "mara", "semantic", "Mara is vegetarian and allergic to walnuts.", {"tags": ("food", "health"), "source": "chat"}),
    (SUPPORT, "mara", "semantic", "Mara prefers deliveries after 18:00, and never on Mondays.", {"tags": ("delivery",)}),
    (SUPPORT, "mara", "episodic", "Mara's parcel of 3 May arrived with a torn alpaca shawl; she was sent a new one.", {"tags": ("delivery", "complaint"), "metadata": {"order": "A-2231", "city": "Lisbon"}}),
    (SUPPORT, "mara", "emotional", "Mara was upset about the torn shawl, and glad that it was replaced within two days.", {"details": {"emotion": "relief", "valence": 0.6}, "confidence": 0.8}),
    (SUPPORT, "tomas", "semantic", "Tomás wears size 43 and wants hiking boots with wide toes.", {"tags": ("sizes",), "source": "chat"}),
    (SUPPORT, "tomas", "semantic", "Tomás pays by invoice; his company is Sierra Verde Lda.", {"tags": ("billing",), "metadata": {"company": "Sierra Verde", "year": 2025}}),
    (SUPPORT, "tomas", "episodic", "Tomás asked whether the boots can be resoled; he was told yes, twice.", {"tags": ("boots",)}),
    (SUPPORT, None, "procedural", "return-parcel", {"content": PARCEL}),
    (SUPPORT, None, "semantic", "Refunds above 200 € need the approval of a team lead.", {"tags": ("policy",), "importance": 0.9}),
    (SUPPORT, None, "semantic", "The warehouse in Porto is closed for stock-taking in the first week of July.", {"tags": ("warehouse",), "metadata": {"city": "Porto"}}),
    (TRAVEL, "ines", "semantic", "Inês lives in Lisbon and flies from Humberto Delgado.", {"tags": ("home",), "source": "profile"}),
    (TRAVEL, "ines", "semantic", "Inês gets seasick; ferries only when there is no other way.", {"tags": ("health", "travel")}),
    (TRAVEL, "ines", "episodic", "Inês missed the night train to Madrid on 12 May because of the strike.", {"tags": ("train",), "details": {"location": "Lisboa Oriente"}}),
    (TRAVEL, "ines", "emotional", "Inês loved the small guesthouse in Évora and wants to go back in autumn.", {"details": {"emotion": "joy", "valence": 0.9}}),
    (TRAVEL, "jonas", "semantic", "Jonas needs step-free hotels: he travels with his mother, who uses a wheelchair.", {"tags": ("access", "hotel"), "importance": 0.95}),
    (TRAVEL, "jonas", "semantic", "Jonas collects miles with one airline only and asks for aisle seats.", {"tags": ("flights",)}),
    (TRAVEL, "jonas", "episodic", "Jonas booked Cusco for the last week of June, with two days to get used to the height.", {"tags": ("peru",), "metadata": {"city": "Cusco", "nights": 7}}),
    (TRAVEL, None, "semantic", "Machu Picchu tickets are sold for a fixed hour and cannot be changed.", {"tags": ("peru", "policy")}),
    (HOME, "mara", "semantic", "Heating goes down to 17 °C at night, except in the study.", {"tags": ("heating",)}),
    (HOME, "mara", "semantic", "The plumber is Rui Carvalho; he comes on Thursdays.", {"tags": ("people",), "source": "notes"}),
    (HOME, "mara", "episodic", "The washing machine leaked on 14 May; the seal was changed.", {"tags": ("repairs",)}),
    (HOME, "mara", "semantic", "The alarm code is 4711.", {"privacy_intent": PrivacyIntent(sensitivity=Sensitivity.SECRET)}),
)  # fmt: skip

TALK = (
    "Did you find a hotel without stairs in Cusco?",
    "Yes: the Casa Andina has a lift and a ramp at the side door, and rooms on the ground floor.",
    "Good. My mother sleeps badly above three thousand metres, so please not too high.",
    "Then the first two nights are in Urubamba, which lies lower, and the transfer is booked with a lift van.",
)


class WalkingClock:
    """Time that is walked through, and in the end goes on by itself."""

    def __init__(self, now: int, tail: Any = None) -> None:
        self.now, self._tail = now, tail

    def __call__(self) -> int:
        return self._tail() if self._tail is not None and self.now == 0 else self.now

    def walk(self, milliseconds: int) -> None:
        self.now += milliseconds

    def go_on(self) -> None:
        """From here on the true time."""
        if self._tail is not None:
            self.now = 0


@dataclass
class Demo:
    """What was made, for tests to find it again."""

    ids: dict[str, str] = field(default_factory=dict[str, str])
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    proposals: list[str] = field(default_factory=list[str])


def _as(name: str) -> Principal:
    return replace(local(), name=name)


async def seed(service: MemoryService, clock: WalkingClock) -> Demo:
    """Write the past, walking through its days."""
    demo = Demo()
    await service.stores.create(
        _as("ana"),
        CreateStoreRequest(
            name="team-notes", scope=StoreScope.TEAM, description="What every agent should know."
        ),
    )
    for place, (agent, user, kind, text, more) in enumerate(FACTS):
        content = more.get("content", text)
        given = {name: value for name, value in more.items() if name != "content"}
        request = RememberRequest(
            agent_id=agent, user_id=user, type=MemoryType(kind), content=content, **given
        )
        demo.ids[text] = (await service.remember(_as(agent), request)).id
        clock.walk(7 * HOUR if place % 3 else 20 * MINUTE)
    await _talk(service, clock)
    await _changes(service, clock, demo)
    await _looks(service, clock)
    await _held(service, demo)
    await _people(service, demo)
    await service.flush()
    await service.audit.checkpoint(_as("ana"))
    return demo


async def _talk(service: MemoryService, clock: WalkingClock) -> None:
    for text in TALK:
        request = RememberRequest(
            agent_id=TRAVEL,
            user_id="jonas",
            session_id="cusco-planning",
            type=MemoryType.EPISODIC,
            content=text,
        )
        await service.remember(_as(TRAVEL), request)
        clock.walk(2 * MINUTE)


async def _changes(service: MemoryService, clock: WalkingClock, demo: Demo) -> None:
    home = demo.ids["Inês lives in Lisbon and flies from Humberto Delgado."]
    for text, more in (
        ("Inês lives in Porto and flies from Francisco Sá Carneiro.", {"source": "chat"}),
        (
            "Inês lives in Porto near Bolhão and flies from Francisco Sá Carneiro; she also takes the train.",
            {},
        ),
    ):
        clock.walk(9 * HOUR)
        request = RememberRequest(
            agent_id=TRAVEL, user_id="ines", type=MemoryType.SEMANTIC, content=text, id=home, **more
        )
        await service.remember(_as(TRAVEL), request)
    clock.walk(3 * HOUR)
    twin = RememberRequest(
        agent_id=SUPPORT, user_id="mara", type=MemoryType.SEMANTIC, content="Mara does not eat meat.", tags=("food",),
        links=(Link(demo.ids["Mara is vegetarian and allergic to walnuts."], "same_as"),),
    )  # fmt: skip
    demo.ids["twin"] = (await service.remember(_as(SUPPORT), twin)).id
    first = demo.ids["Mara is vegetarian and allergic to walnuts."]
    await service.merge(
        _as(SUPPORT), MergeRequest(agent_id=SUPPORT, canonical=first, duplicates=(demo.ids["twin"],))
    )
    clock.walk(2 * HOUR)
    gone = demo.ids["The plumber is Rui Carvalho; he comes on Thursdays."]
    await service.forget(_as("mara"), ForgetRequest(agent_id=HOME, ids=(gone,), reason="he has retired"))


async def _looks(service: MemoryService, clock: WalkingClock) -> None:
    for agent, query in (
        (SUPPORT, "what may Mara eat?"),
        (SUPPORT, "when do refunds need approval?"),
        (TRAVEL, "hotel for Jonas without stairs"),
        (TRAVEL, "where does Inês live?"),
        (TRAVEL, "what does Jonas think of opera?"),
        (HOME, "how warm is it at night?"),
    ):
        for _ in range(2):
            await service.recall(_as(agent), RecallRequest(agent_id=agent, query=query))
            clock.walk(40 * MINUTE)


async def _held(service: MemoryService, demo: Demo) -> None:
    wants = RememberRequest(
        agent_id=SUPPORT, user_id="tomas", type=MemoryType.SEMANTIC, approval_required=True,
        content="Tomás may order on account up to 5,000 €.", reasoning="He said so on the telephone.",
    )  # fmt: skip
    await service.remember(_as(SUPPORT), wants)
    home = demo.ids["Inês lives in Lisbon and flies from Humberto Delgado."]
    change = RememberRequest(
        agent_id=TRAVEL, user_id="ines", type=MemoryType.SEMANTIC, id=home, approval_required=True,
        content="Inês lives in Braga and flies from Francisco Sá Carneiro; she also takes the train.",
    )  # fmt: skip
    await service.remember(_as(TRAVEL), change)
    drop = ForgetRequest(
        agent_id=HOME, ids=(demo.ids["The washing machine leaked on 14 May; the seal was changed."],),
        approval_required=True, reason="long repaired",
    )  # fmt: skip
    await service.forget(_as(HOME), drop)
    demo.proposals = [proposal.id for proposal in await service.governance.proposals(_as("ana"), "pending")]


async def _people(service: MemoryService, demo: Demo) -> None:
    for name, roles, more in (
        ("ana", (Role.ADMIN,), {}),
        ("ruth", (Role.REVIEWER,), {}),
        ("reader", (Role.REVIEWER,), {"agents": (TRAVEL,)}),
        ("bot", (Role.AGENT,), {"agents": (SUPPORT,)}),
        ("only-mara", (Role.AGENT,), {"agents": (SUPPORT, HOME), "user_id": "mara"}),
        ("oper", (Role.OPERATOR,), {}),
    ):
        issued = await service.tokens.issue(local(), name=name, roles=roles, **more)
        demo.tokens[name] = issued.text
