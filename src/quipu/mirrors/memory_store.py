"""Another memory as a mirror: a server of ours, a second ledger, or any object that speaks memorywire.

Tenant, store and agent together are the other side's agent, the user is its user, and the mark stands in the metadata.
A Quipu is changed in place, read by id and walked over. What knows memorywire's five operations alone is told to forget
what carries a record's mark before that record is written, so nothing is there twice; and it forgets for good at once,
for it tells nobody what it keeps of what was forgotten.
"""

import json
import secrets
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, cast, runtime_checkable

from quipu.errors import (
    BackendUnavailableError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    QuipuError,
    UnauthenticatedError,
    UnsupportedError,
)
from quipu.memory import model as m
from quipu.memory.memory_store import MemoryStore, fields_of, is_awaited, request_kinds
from quipu.memory.recall.signed_hits import are_signed
from quipu.mirrors import adapter
from quipu.mirrors.backend import (
    ALL_TYPES,
    Answer,
    Capabilities,
    Capability,
    Container,
    Copy,
    Health,
    Kept,
    Place,
    Query,
    Remaining,
)
from quipu.model.ids import now
from quipu.model.principal import DEFAULT_TENANT
from quipu.operation import Request

#: For whom the other memory signs its hits.
_AUDIENCE: Final = "quipu"
_MOST_HITS: Final = 1000
_MOST_ITEMS: Final = 500
#: So many ids are asked for in one filter.
_MOST_NAMED: Final = 200
#: A name of ours is not empty and has no U+0000.
_LEGAL: Final = r"[^\x00]+"
_LONGEST: Final = 256
_ALWAYS: Final[frozenset[Capability]] = frozenset({"nested_metadata", "delete_reports_absence", "verbatim"})
_OF_A_QUIPU: Final[frozenset[Capability]] = frozenset({"get_by_id", "list", "update", "multi_process"})


@runtime_checkable
class QuipuMemory(Protocol):
    """What a Quipu has beside memorywire's five operations."""

    async def call(self, name: str, /, **given: Any) -> Any: ...
    async def get(self, id: str) -> m.RecordView: ...
    async def list(self, **given: Any) -> m.ListResponse: ...
    async def update(self, id: str, **given: Any) -> m.RememberResponse: ...
    async def remember_many(self, items: Sequence[m.RememberRequest]) -> m.RememberManyResponse: ...


class MemoryBackend:
    """Copies in another memory."""

    def __init__(
        self,
        store: MemoryStore,
        *,
        is_ours: bool,
        has_own: bool = False,
        signed_by: str | None = None,
        clock: Callable[[], int] = now,
    ) -> None:
        """is_ours: It was made for this mirror, and is opened and closed with it.
        has_own: What others have written into it, under the plain names of agents and users, is searched too.
        signed_by: The public key that its hits must be signed with; an answer with any other one is a failure.
        """
        if not is_awaited(store):
            raise InvalidError(
                "A mirror is awaited, and this memory blocks.", hint="Give `quipu.Memory`, which is awaited."
            )
        self._store, self._is_ours, self._has_own = store, is_ours, has_own
        self._signed_by, self._clock = signed_by, clock
        self._quipu = cast("QuipuMemory", store) if isinstance(store, QuipuMemory) else None
        #: Request classes of the store's own package.
        self._kinds = {} if self._quipu else request_kinds(store)

    @property
    def capabilities(self) -> Capabilities:
        declared = self._store.capabilities
        promises: set[Capability] = {*_ALWAYS, *(_OF_A_QUIPU if self._quipu else ())}
        if "fts" in declared:
            promises.add("keyword")
        if "vector" in declared or "fts" not in declared:  # one that says nothing finds somehow
            promises.add("vector")
        return Capabilities(
            promises=frozenset(promises), score_kind="rank_only", types=(ALL_TYPES & declared) or ALL_TYPES
        )

    async def open(self) -> None:
        with _in_our_words():
            if self._is_ours and hasattr(self._store, "open"):
                await cast("Any", self._store).open()
            else:
                await self._store.health()

    async def _ask(self, kind: type[Request], name: str, **given: Any) -> dict[str, Any]:
        """One of the five, by a request that the store knows; its answer's fields."""
        known = {field: value for field, value in given.items() if value is not None}
        foreign = self._kinds.get(name)
        with _in_our_words():
            request = kind.parse(known) if foreign is None else foreign.model_validate(known)
            fields = fields_of(await getattr(self._store, name)(request))
        if fields is None:
            raise adapter.unavailable("The other memory answered with something else.")
        if fields.get("pending_approval"):
            raise _held()
        return fields

    # -- keeping ------------------------------------------------------------------------------------------------------

    async def put(self, copies: Sequence[Copy]) -> Sequence[str]:
        native: dict[tuple[str, str], str] = {}
        for agent, mine in adapter.grouped(copies, lambda one: _agent(one.container)).items():
            if self._quipu is None:
                names = {copy.record_id: await self._put_anew(agent, copy) for copy in mine}
            else:
                names = await self._put_in_quipu(self._quipu, agent, mine)
            native |= {(agent, record_id): name for record_id, name in names.items()}
        return [native[_agent(copy.container), copy.record_id] for copy in copies]

    async def _put_anew(self, agent: str, copy: Copy) -> str:
        # In the filters of memorywire v0 a plain name is a key of the metadata.
        key = adapter.RECORD if "forget" in self._kinds else f"metadata.{adapter.RECORD}"
        marked = {key: copy.record_id}
        await self._ask(m.ForgetRequest, "forget", agent_id=agent, filter=marked, hard_delete=True)
        return str((await self._ask(m.RememberRequest, "remember", **_item(agent, copy)))["id"])

    async def _put_in_quipu(self, quipu: QuipuMemory, agent: str, copies: Sequence[Copy]) -> dict[str, str]:
        known = await self._marked(quipu, agent, [copy.record_id for copy in copies])
        names = {record_id: name for record_id, (name, _) in known.items()}
        fresh = [copy for copy in copies if copy.record_id not in known]
        with _in_our_words():
            for copy in copies:
                name, version = known.get(copy.record_id, ("", copy.version))
                if version != copy.version:  # what is there in this version was sent before a crash
                    _check(await quipu.update(name, replace=True, agent_id=agent, **_changing(copy)))
            for start in range(0, len(fresh), _MOST_ITEMS):
                some = fresh[start : start + _MOST_ITEMS]
                answer = await quipu.remember_many(
                    [
                        m.RememberRequest.parse({**_item(agent, copy), "session_id": copy.session_id})
                        for copy in some
                    ]
                )
                for copy, result in zip(some, answer.results, strict=True):
                    if result.response is None:
                        raise adapter.unavailable("The other memory refused a copy.")
                    _check(result.response)
                    names[copy.record_id] = result.response.id
        return names

    async def _marked(
        self, quipu: QuipuMemory, agent: str, record_ids: Sequence[str]
    ) -> dict[str, tuple[str, int]]:
        """By record, the id and version under which it is there already: by its mark, for its text may be no more."""
        found: dict[str, tuple[str, int]] = {}
        with _in_our_words():
            for start in range(0, len(record_ids), _MOST_NAMED):
                some = {"$in": list(record_ids[start : start + _MOST_NAMED])}
                page = await quipu.list(
                    agent_id=agent, filter={f"metadata.{adapter.RECORD}": some}, limit=_MOST_HITS
                )
                for record in page.records:
                    if (mark := adapter.mark_in(record.metadata)) is not None:
                        found[mark.record_id] = (record.id, mark.version)
        return found

    async def get(self, places: Sequence[Place]) -> Sequence[Kept]:
        quipu = self._reading("look a memory up by its id")
        found: list[Kept] = []
        with _in_our_words():
            for place in places:
                try:
                    record = await quipu.get(place.native_id)
                except NotFoundError:
                    continue
                if record.state == "live" and record.agent_id == _agent(place.container):
                    found.append(_kept(record.id, record.content, record.metadata))
        return found

    async def scan(self, container: Container) -> AsyncIterator[Kept]:
        quipu = self._reading("tell everything that it holds")
        user, cursor = _user(container.user_id), None
        while True:
            with _in_our_words():
                page = await quipu.list(
                    agent_id=_agent(container), user_id=user, limit=_MOST_HITS, cursor=cursor
                )
            for record in page.records:
                if record.user_id == user:
                    yield _kept(record.id, record.content, record.metadata)
            cursor = page.next_cursor
            if cursor is None:
                return

    def _reading(self, what: str) -> QuipuMemory:
        if self._quipu is None:
            raise UnsupportedError(f"The other memory cannot {what}.", reason="unsupported")
        return self._quipu

    async def delete(self, places: Sequence[Place]) -> int:
        return await self._forget(places, is_hard=self._quipu is None)

    async def erase(self, places: Sequence[Place], remaining: Remaining) -> None:
        await self._forget(places, is_hard=True)

    async def _forget(self, places: Sequence[Place], *, is_hard: bool) -> int:
        count = 0
        for agent, mine in adapter.grouped(places, lambda one: _agent(one.container)).items():
            answer = await self._ask(
                m.ForgetRequest,
                "forget",
                agent_id=agent,
                ids=[place.native_id for place in mine],
                hard_delete=is_hard,
            )
            count += len(answer["forgotten_ids"])
        return count

    # -- finding ------------------------------------------------------------------------------------------------------

    async def search(self, query: Query, limit: int) -> Answer:
        agents = dict.fromkeys(_agent(one) for one in adapter.within(query))
        if self._has_own and query.agent_id is not None and query.tenant == DEFAULT_TENANT:
            agents[query.agent_id] = None  # what others have there belongs to no other tenant of ours
        asked: dict[str, Any] = {
            "query": query.text,
            "k": min(limit, _MOST_HITS),
            "user_id": _user(query.user_id),
            "types": sorted(query.types) or None,
        }
        if "recall" not in self._kinds:
            asked |= {"min_relevance": "off", "count_recall": False}
        if self._quipu is not None:
            asked["session_id"] = query.session_id
        found = adapter.interleaved([await self._recalled(agent, asked) for agent in agents])
        applied = ("types",) if self._quipu is None else ("types", "session_id")
        return adapter.answered(query, limit, found, applied=applied, most=_MOST_HITS)

    async def _recalled(self, agent: str, asked: Mapping[str, Any]) -> list[Kept]:
        signed_for = None
        if self._signed_by is not None:
            signed_for = m.SignFor(audience=_AUDIENCE, nonce=secrets.token_urlsafe(16))
        answer = await self._ask(m.RecallRequest, "recall", agent_id=agent, **asked, sign_for=signed_for)
        hits = [fields_of(hit) or {} for hit in answer["results"]]
        is_good = signed_for is None or are_signed(
            hits, signed_for, asked["query"], self._signed_by or "", self._clock()
        )
        if not is_good:
            raise adapter.unavailable("The other memory's hits are not signed by its key.", "bad_signature")
        return [_kept(str(hit["id"]), hit.get("content"), hit.get("metadata")) for hit in hits if hit]

    # -- being there --------------------------------------------------------------------------------------------------

    async def health(self) -> Health:
        try:
            with _in_our_words():
                said = await self._store.health()
        except BackendUnavailableError:
            return Health(is_up=False)
        version = said.get("version")
        return Health(is_up=said.get("status") != "error", version=version and str(version))

    async def close(self) -> None:
        if self._is_ours:
            with _in_our_words():
                await cast("Any", self._store).close()


@contextmanager
def _in_our_words() -> Generator[None]:
    try:
        yield
    except (UnauthenticatedError, ForbiddenError) as error:
        raise adapter.unavailable(
            "The other memory does not let the mirror do that.",
            hint="Its token needs to write and to forget; to erase, it must be an admin's.",
        ) from error
    except BackendUnavailableError as error:
        raise adapter.unavailable("The other memory does not answer.") from error
    except QuipuError as error:
        raise adapter.unavailable("The other memory refused what the mirror asked.") from error
    except Exception as error:
        raise adapter.unavailable("The other memory failed.") from error


def _check(answer: m.WriteResponse) -> None:
    if answer.pending_approval:
        raise _held()


def _held() -> BackendUnavailableError:
    return adapter.unavailable(
        "The other memory holds what the mirror sends for approval.",
        hint="Let its rules make an exception for the mirror's credential.",
    )


def _agent(one: Container) -> str:
    return adapter.joined([one.tenant, one.store_id, one.agent_id], longest=_LONGEST)


def _user(user_id: str | None) -> str | None:
    return None if user_id is None else adapter.label(user_id, _LEGAL, longest=_LONGEST)


def _item(agent: str, copy: Copy) -> dict[str, Any]:
    # What stands for a procedure that is no more is no machine, and would be refused as one.
    is_stand_in = copy.type == "procedural" and not copy.content.startswith("{")
    return {
        "agent_id": agent,
        "user_id": _user(copy.container.user_id),
        "type": "semantic" if is_stand_in else copy.type,
        **_changing(copy),
    }


def _changing(copy: Copy) -> dict[str, Any]:
    return {
        "content": copy.content,
        "metadata": adapter.mark(copy),
        "confidence": copy.confidence,
        "source": copy.source,
    }


def _kept(native_id: str, content: object, metadata: Mapping[str, Any] | None) -> Kept:
    """A procedure's machine is an object on the other side."""
    text = (
        content
        if isinstance(content, str)
        else json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    )
    return adapter.kept(native_id, text, metadata)
