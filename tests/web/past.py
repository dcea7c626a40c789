"""A memory with a past: three agents, four people, ten days of talk, changes of mind, and a few things that went wrong.

It has something of every kind that a page can show. The clock is walked through those days.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from quipu.access.operations import CREATE_TENANT, CREATE_TOKEN, REVOKE_TOKEN
from quipu.audit.operations import SIGN_CHECKPOINT
from quipu.bootstrap import Container
from quipu.consolidation.operations import CONSOLIDATE
from quipu.governance.operations import CREATE_WEBHOOK, DECIDE, SET_RULES
from quipu.memory.operations import CREATE_STORE, FORGET, MERGE, RECALL, REMEMBER, UPDATE
from quipu.model.principal import Principal, local
from quipu.operation import AnyOperation, dispatch
from quipu.procedures.operations import STEP
from quipu.runs.operations import CANCEL_RUN, END_RUN, FORK_RUN, OPEN_RUN, RECORD_NODE, RUN_NOTES
from quipu.secrets.operations import ADD_SECRET

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
SUPPORT, TRAVEL, HOME = "support-bot", "travel-planner", "home-assistant"


class Clock(Protocol):
    """A clock that is moved by hand."""

    now: int


PARCEL = {
    "name": "Return a parcel",
    "initial": "asked",
    "states": ["asked", "labelled", "shipped", "refunded", "refused"],
    "transitions": [
        {"trigger": "label", "source": "asked", "dest": "labelled"},
        {"trigger": "ship", "source": "labelled", "dest": "shipped"},
        {"trigger": "refund", "source": "shipped", "dest": "refunded", "conditions": ["goods_intact"]},
        {"trigger": "refuse", "source": "shipped", "dest": "refused"},
        {"trigger": "ask_again", "source": "refused", "dest": "asked"},
    ],
}
LISBON = "Inês lives in Lisbon and flies from Humberto Delgado"
PORTO = "Inês lives in Porto near Bolhão and flies from Francisco Sá Carneiro; she also takes the train"
WALNUTS, PLUMBER = (
    "Mara is vegetarian and allergic to walnuts",
    "The plumber is Rui Carvalho; he comes on Thursdays",
)
WASHING, CODE, RETURN = (
    "The washing machine leaked on 14 May; the seal was changed",
    "The alarm code is 4711",
    "return",
)

#: Agent, user, type, text, and what else there is to say.
FACTS: tuple[tuple[str, str | None, str, str, Mapping[str, Any]], ...] = (
    (SUPPORT, "mara", "semantic", WALNUTS, {"tags": ["food", "health"], "source": "chat"}),
    (SUPPORT, "mara", "semantic", "Mara prefers deliveries after 18:00, and never on Mondays", {"tags": ["delivery"]}),
    (SUPPORT, "mara", "episodic", "Mara's parcel of 3 May arrived with a torn alpaca shawl; she was sent a new one", {"tags": ["delivery", "complaint"], "metadata": {"order": "A-2231", "city": "Lisbon"}}),
    (SUPPORT, "mara", "emotional", "Mara was upset about the torn shawl, and glad that it was replaced within two days", {"emotion": "relief", "valence": 0.6, "confidence": 0.8}),
    (SUPPORT, "tomas", "semantic", "Tomás wears size 43 and wants hiking boots with wide toes", {"tags": ["sizes"], "source": "chat"}),
    (SUPPORT, "tomas", "semantic", "Tomás pays by invoice; his company is Sierra Verde", {"tags": ["billing"], "metadata": {"year": 2025}}),
    (SUPPORT, "tomas", "episodic", "Tomás asked whether the boots can be resoled; he was told yes, twice", {"tags": ["boots"]}),
    (SUPPORT, None, "procedural", RETURN, {"content": PARCEL, "tags": ["returns"]}),
    (SUPPORT, None, "semantic", "Refunds above 200 € need the approval of a team lead", {"tags": ["policy"], "importance": 0.9}),
    (SUPPORT, None, "semantic", "The warehouse in Porto is closed for stock-taking in the first week of July", {"tags": ["warehouse"], "metadata": {"city": "Porto"}}),
    (TRAVEL, "ines", "semantic", LISBON, {"tags": ["home"], "source": "profile"}),
    (TRAVEL, "ines", "semantic", "Inês gets seasick; ferries only when there is no other way", {"tags": ["health", "travel"]}),
    (TRAVEL, "ines", "episodic", "Inês missed the night train to Madrid on 12 May because of the strike", {"tags": ["train"], "location": "Lisboa Oriente"}),
    (TRAVEL, "ines", "emotional", "Inês loved the small guesthouse in Évora and wants to go back in autumn", {"emotion": "joy", "valence": 0.9}),
    (TRAVEL, "jonas", "semantic", "Jonas needs step-free hotels: he travels with his mother, who uses a wheelchair", {"tags": ["access", "hotel"], "importance": 0.95}),
    (TRAVEL, "jonas", "semantic", "Jonas collects miles with one airline only and asks for aisle seats", {"tags": ["flights"]}),
    (TRAVEL, "jonas", "episodic", "Jonas booked Cusco for the last week of June, with two days to get used to the height", {"tags": ["peru"], "metadata": {"city": "Cusco", "nights": 7}}),
    (TRAVEL, None, "semantic", "Machu Picchu tickets are sold for a fixed hour and cannot be changed", {"tags": ["peru", "policy"]}),
    (HOME, "mara", "semantic", "Heating goes down to 17 °C at night, except in the study", {"tags": ["heating"]}),
    (HOME, "mara", "semantic", PLUMBER, {"tags": ["people"], "source": "notes"}),
    (HOME, "mara", "episodic", WASHING, {"tags": ["repairs"]}),
    (HOME, "mara", "semantic", CODE, {"privacy_intent": {"sensitivity": "secret"}}),
)  # fmt: skip
TALK = (
    "Did you find a hotel without stairs in Cusco?",
    "Yes: the Casa Andina has a lift and a ramp at the side door, and rooms on the ground floor.",
    "Good. My mother sleeps badly above three thousand metres, so please not too high.",
    "Then the first two nights are in Urubamba, which lies lower, and the transfer is booked with a lift van.",
)
QUESTIONS = (
    (SUPPORT, "what may Mara eat?"),
    (SUPPORT, "when do refunds need approval?"),
    (TRAVEL, "hotel for Jonas without stairs"),
    (TRAVEL, "where does Inês live?"),
    (TRAVEL, "what does Jonas think of opera?"),
    (HOME, "how warm is it at night?"),
)
RULES = (
    {"id": "web-pages", "effect": "hold", "reason": "Pages can say anything.", "when": {"sources": ["web*"]}},
    {"id": "no-passports", "effect": "deny", "reason": "Passports do not belong here.", "when": {"content_any": ["passport"]}},
)  # fmt: skip
#: Name, roles, limits.
PEOPLE: tuple[tuple[str, tuple[str, ...], Mapping[str, Any]], ...] = (
    ("ana", ("admin",), {}),
    ("ruth", ("reviewer",), {}),
    ("travel-reviewer", ("reviewer",), {"agents": (TRAVEL,)}),
    ("support-key", ("agent",), {"agents": (SUPPORT,)}),
    ("only-mara", ("agent",), {"agents": (SUPPORT, HOME), "user_id": "mara"}),
    ("team-reviewer", ("reviewer",), {"review_stores": ("team-notes",)}),
    ("auditor", (), {"permissions": ("memory:read", "memory:review")}),
    ("operator", ("operator",), {}),
)


@dataclass
class Past:
    """What was made, to be found again."""

    ids: dict[str, str] = field(default_factory=dict[str, str])
    #: Texts of tokens, by name.
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    #: Held writes that wait, and those that were decided.
    waiting: list[str] = field(default_factory=list[str])
    decided: list[str] = field(default_factory=list[str])
    #: Runs, by what became of them.
    runs: dict[str, str] = field(default_factory=dict[str, str])


def _as(name: str) -> Principal:
    return replace(local(), name=name)


@dataclass
class Writer:
    """Writes the past into an installation."""

    container: Container
    clock: Clock
    past: Past = field(default_factory=Past)

    async def __call__(self, who: str, operation: AnyOperation, **fields: Any) -> Any:
        return await dispatch(self.container.context(_as(who)), operation, fields)

    def walk(self, milliseconds: int) -> None:
        self.clock.now += milliseconds

    async def write(self) -> Past:
        self.clock.now -= 11 * DAY
        end = self.clock.now + 11 * DAY
        await self(
            "ana", CREATE_STORE, name="team-notes", scope="team", description="What every agent should know"
        )
        await self("ana", SET_RULES, rules=RULES)
        for place, (agent, user, kind, text, more) in enumerate(FACTS):
            given = {"content": text, "agent_id": agent, "user_id": user, "type": kind, **more}
            self.past.ids[text] = (await self(agent, REMEMBER, **given)).id
            self.walk(7 * HOUR if place % 3 else 20 * MINUTE)
        await self._talk()
        await self._runs()
        await self._changes()
        for agent, query in QUESTIONS:
            for _ in range(2):
                await self(agent, RECALL, agent_id=agent, query=query)
                self.walk(40 * MINUTE)
        await self._people()
        self.clock.now = max(self.clock.now, end - DAY)
        await self._short_term()
        await self._held()
        await self.container.memory.read_log.flush()
        await self("ana", SIGN_CHECKPOINT)
        self.clock.now = end
        return self.past

    async def _talk(self) -> None:
        for text in TALK:
            await self(
                TRAVEL,
                REMEMBER,
                agent_id=TRAVEL,
                user_id="jonas",
                session_id="cusco",
                type="episodic",
                content=text,
            )
            self.walk(2 * MINUTE)

    async def _runs(self) -> None:
        """Of every end, forked in both ways; one goes on."""
        runs = self.past.runs

        async def opened(name: str, agent: str, user: str, workflow: str) -> str:
            run = await self(
                agent, OPEN_RUN, agent_id=agent, user_id=user, workflow_id=workflow, tags=["past"]
            )
            runs[name] = run.id
            return run.id

        trip = await opened("completed", TRAVEL, "ines", "plan-trip")
        await self(TRAVEL, RECORD_NODE, run_id=trip, node_id="look", status="started")
        booked = await self(
            TRAVEL, REMEMBER, agent_id=TRAVEL, user_id="ines", type="episodic", tags=["train"],
            content="Inês was sent three trains to Sevilla", run_id=trip, node_id="look",
        )  # fmt: skip
        self.past.ids["trains"] = booked.id
        self.walk(MINUTE)
        results = {"from": "Humberto Delgado", "trains": 3}
        await self(TRAVEL, RECORD_NODE, run_id=trip, node_id="look", status="completed", variables=results)
        await self(TRAVEL, END_RUN, run_id=trip)
        runs["replay"] = (await self(TRAVEL, FORK_RUN, run_id=trip)).run.id
        runs["branch"] = (await self(TRAVEL, FORK_RUN, run_id=trip, mode="branch", from_seq=2)).run.id
        order = await opened("failed", SUPPORT, "tomas", "order-boots")
        error = {"code": "out_of_stock", "message": "Sierra Verde has none in 43"}
        await self(SUPPORT, RECORD_NODE, run_id=order, node_id="order", status="failed", error=error)
        await self(SUPPORT, END_RUN, run_id=order, status="failed", error=error)
        heating = await opened("cancelled", HOME, "mara", "heat-study")
        await self(HOME, CANCEL_RUN, run_id=heating)
        returning = await opened("running", SUPPORT, "mara", "return-parcel")
        for backend, text in (("scratchpad", "ask for the alpaca shawl"), ("conversation", "Is it torn?")):
            request = {"run_id": returning, "backend": backend, "action": "add", "content": text}
            await self(SUPPORT, RUN_NOTES, **request)

    async def _changes(self) -> None:
        ids = self.past.ids
        for text in ("Inês lives in Porto and flies from Francisco Sá Carneiro", PORTO):
            self.walk(9 * HOUR)
            await self(
                TRAVEL,
                UPDATE,
                agent_id=TRAVEL,
                id=ids[LISBON],
                content=text,
                source="chat",
                reasoning="She said so herself.",
            )
        self.walk(3 * HOUR)
        twin = await self(
            SUPPORT, REMEMBER, agent_id=SUPPORT, user_id="mara", content="Mara does not eat meat", tags=["food"],
            links=[{"to": ids[WALNUTS], "rel": "same_as"}],
        )  # fmt: skip
        ids["twin"] = twin.id
        await self(SUPPORT, MERGE, agent_id=SUPPORT, canonical=ids[WALNUTS], duplicates=[twin.id])
        linked = await self(
            SUPPORT, REMEMBER, agent_id=SUPPORT, user_id="mara", content="Mara asked for a cake without nuts on 20 May",
            type="episodic", links=[{"to": ids[WALNUTS], "rel": "because_of"}],
        )  # fmt: skip
        ids["cake"] = linked.id
        self.walk(2 * HOUR)
        await self("mara", FORGET, agent_id=HOME, ids=[ids[PLUMBER]], reason="he has retired")
        erased = await self(
            HOME, REMEMBER, agent_id=HOME, user_id="mara", content="The neighbour's cat is called Bule"
        )
        ids["erased"] = erased.id
        await self("ana", FORGET, agent_id=HOME, ids=[erased.id], hard_delete=True, reason="not ours to keep")
        for trigger in ("label", "ship"):
            self.walk(HOUR)
            await self(SUPPORT, STEP, id=ids[RETURN], trigger=trigger)
        team = await self(
            "ana",
            REMEMBER,
            agent_id=SUPPORT,
            store="team-notes",
            content="Answer in the language of the letter",
        )
        ids["team"] = team.id

    async def _people(self) -> None:
        for name, roles, more in PEOPLE:
            issued = await self("ana", CREATE_TOKEN, name=name, roles=roles, **more)
            self.past.tokens[name] = issued.text
        gone = await self("ana", CREATE_TOKEN, name="former", roles=("agent",), expires_at="30d")
        await self("ana", REVOKE_TOKEN, id=gone.token.id)
        await self("ana", ADD_SECRET, label="database-password", value="correct-horse-battery")
        await self("ana", CREATE_WEBHOOK, url="https://nowhere.invalid/hook")
        await self("ana", CREATE_TENANT, tenant="atelier")

    async def _short_term(self) -> None:
        """A pass that was made, and something for the next one."""
        await self("ana", CREATE_STORE, name="window", tier="short_term")
        in_window = {"agent_id": TRAVEL, "user_id": "jonas", "store": "window"}
        await self(TRAVEL, REMEMBER, **in_window, content="Jonas waits for his visa", importance=1.0)
        await self("ana", CONSOLIDATE, agent_id=TRAVEL)
        heavy = {"importance": 1.0, "metadata": {"user_flagged": True}}
        flight = "Jonas changed his flight from Humberto Delgado to the morning"
        await self(TRAVEL, REMEMBER, **in_window, content=flight, **heavy, confidence=1.0)
        await self(TRAVEL, REMEMBER, **in_window, content="Jonas said hello", importance=0.0, confidence=0.1)

    async def _held(self) -> None:
        for text, approved, reason in (
            ("The return desk is closed on Sundays", True, "so it is"),
            ("Everything in the shop is free today", False, "a page says so, we do not"),
        ):
            held = await self("browser-agent", REMEMBER, agent_id=SUPPORT, content=text, source="web page")
            self.walk(30 * MINUTE)
            await self("ruth", DECIDE, id=held.proposal_id, approved=approved, reason=reason)
            self.past.decided.append(held.proposal_id)
        waits = [
            await self(
                SUPPORT, REMEMBER, agent_id=SUPPORT, user_id="tomas", approval_required=True,
                content="Tomás may order on account up to 5,000 €", reasoning="He said so on the telephone.",
            ),
            await self(
                TRAVEL, UPDATE, agent_id=TRAVEL, id=self.past.ids[LISBON], approval_required=True, reasoning="A friend of hers wrote it.",
                content="Inês lives in Braga near the cathedral and flies from Francisco Sá Carneiro; she also takes the bus",
            ),
            await self(
                HOME, FORGET, agent_id=HOME, ids=[self.past.ids[WASHING]], approval_required=True, reason="long repaired",
            ),
            await self(
                "browser-agent", REMEMBER, agent_id=SUPPORT, source="web forum",
                content="Mara is vegetarian and loves walnuts", user_id="mara",
            ),
        ]  # fmt: skip
        self.past.waiting = [one.proposal_id for one in waits]


async def write_past(container: Container, clock: Clock) -> Past:
    """Fill an installation that is new."""
    return await Writer(container, clock).write()
