"""Reading by id, page and history; stores; approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quipu.errors import InvalidError
from quipu.memory import arguments
from quipu.memory.session import Session
from quipu.memory.shapes import shaped
from quipu.model.operations import CreateStoreRequest, ListRequest, MergeStrategy
from quipu.model.record import MemoryType, Record, State, Tier
from quipu.model.store import Store, StoreScope

if TYPE_CHECKING:
    from quipu.model.change import Proposal
    from quipu.model.governance import Edit, Replayed, Review, Rule
    from quipu.model.outcomes import Page, RememberResponse, Version
    from quipu.model.value import JsonObject

_STATUSES = ("pending", "approved", "rejected")


class Reads(Session):
    """What is there, what it was, and what waits."""

    async def get(self, record_id: str, /, *, as_of: str | int | None = None) -> Record:
        """One record, as it stands or stood."""
        service = await self._service()
        moment = arguments.moment(as_of, "/as_of")
        return await service.reading.get(
            self._principal, self.agent_id, arguments.text(record_id, "/id"), moment
        )

    async def list(
        self,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        store: str | None = None,
        types: Sequence[MemoryType | str] | None = None,
        states: Sequence[State | str] = (State.LIVE,),
        filter: JsonObject | None = None,
        as_of: str | int | None = None,
        limit: int = 50,
        cursor: str | None = None,
        all_agents: bool = False,
    ) -> Page:
        """A page of records, newest first."""
        service = await self._service()
        request = ListRequest(
            agent_id=None if arguments.truth(all_agents, "/all_agents") else self.agent_id,
            user_id=arguments.maybe_text(user_id, "/user_id"),
            session_id=arguments.maybe_text(session_id, "/session_id"),
            store=arguments.maybe_text(store, "/store"),
            types=tuple(
                arguments.member(MemoryType, kind, "/types")
                for kind in arguments.several(() if types is None else types, "/types")
            ),
            states=tuple(
                arguments.member(State, state, "/states") for state in arguments.several(states, "/states")
            ),
            filter=arguments.filter(filter),
            as_of=arguments.moment(as_of, "/as_of"),
            limit=arguments.whole(limit, "/limit"),
            cursor=arguments.maybe_text(cursor, "/cursor"),
        )
        return await service.reading.list(self._principal, request)

    async def history(self, record_id: str, /) -> tuple[Version, ...]:
        """All versions of a record, oldest first."""
        named = arguments.text(record_id, "/id")
        return await (await self._service()).reading.history(self._principal, self.agent_id, named)

    async def restore(self, record_id: str, /, *, reason: str | None = None) -> RememberResponse:
        """Bring back what was forgotten, merged away, archived or demoted."""
        named, why = arguments.text(record_id, "/id"), arguments.maybe_text(reason, "/reason")
        return await (await self._service()).restore(self._principal, self.agent_id, named, why)

    async def create_store(
        self,
        name: str,
        /,
        *,
        scope: StoreScope | str = StoreScope.AGENT,
        tier: Tier | str = Tier.LONG_TERM,
        namespace: str | None = None,
        description: str | None = None,
    ) -> Store:
        """Open a memory store. One of scope `team` or `global` is shared by all agents."""
        request = CreateStoreRequest(
            name=arguments.text(name, "/name"),
            scope=arguments.member(StoreScope, scope, "/scope"),
            tier=arguments.member(Tier, tier, "/tier"),
            namespace=arguments.maybe_text(namespace, "/namespace"),
            description=arguments.maybe_text(description, "/description"),
        )
        return await (await self._service()).stores.create(self._principal, request)

    async def list_stores(self) -> tuple[Store, ...]:
        """The memory stores in reach."""
        return await (await self._service()).stores.list(self._principal)

    async def delete_store(self, name: str, /, *, confirm: str, hard_delete: bool = False) -> int:
        """Take a store away with all it holds; `confirm` is its name once more. Returns how many records went."""
        service = await self._service()
        asked, named = arguments.text(name, "/name"), arguments.text(confirm, "/confirm")
        arguments.truth(hard_delete, "/hard_delete")
        return await service.stores.delete(self._principal, asked, named, hard_delete=hard_delete)

    async def proposals(self, status: str | None = "pending") -> tuple[Proposal, ...]:
        """Writes that wait for a person, or were decided; None: all of them."""
        if status is not None and arguments.text(status, "/status") not in _STATUSES:
            raise InvalidError.at(
                "/status", "bad_value", "status is not one of its words.", accepted=[*_STATUSES, "None: all"]
            )
        return await (await self._service()).governance.proposals(self._principal, status)

    async def review(self, proposal_id: str, /) -> Review:
        """A held write, with what a yes would change now and the memories that are like it."""
        asked = arguments.text(proposal_id, "/proposal_id")
        return await (await self._service()).reviewing.review(self._principal, asked)

    async def decide(
        self,
        proposal_id: str,
        /,
        *,
        approved: bool,
        reason: str | None = None,
        etag: str | None = None,
        edit: Edit | None = None,
        merge_into: str | None = None,
        strategy: MergeStrategy | str = MergeStrategy.KEEP_CANONICAL,
        supersedes: Sequence[str] = (),
    ) -> Any:
        """Approve a held write, which carries it out, or reject it.

        `etag` is that of the review that was seen; if what it would do has changed since, nothing is decided. `edit`
        changes it first, `merge_into` merges it into a live record, `supersedes` also forgets these records.
        """
        from quipu.model.governance import Edit

        arguments.truth(approved, "/approved")
        arguments.instance(edit, Edit, "/edit")
        service = await self._service()
        return await service.decide(
            self._principal,
            arguments.text(proposal_id, "/proposal_id"),
            approved=approved,
            reason=arguments.maybe_plain(reason, "/reason"),
            etag=arguments.maybe_text(etag, "/etag"),
            edit=None if edit is None else shaped(edit, "/edit"),
            merge_into=arguments.maybe_plain(merge_into, "/merge_into"),
            strategy=arguments.member(MergeStrategy, strategy, "/strategy"),
            supersedes=arguments.texts(supersedes, "/supersedes"),
        )

    async def rules(self, *, own: bool = False) -> tuple[Rule, ...]:
        """The rules that decide on writes, in their order; with `own`, those that `set_rules` replaces."""
        is_own, policies = arguments.truth(own, "/own"), (await self._service()).policies
        return await (policies.own(self._principal) if is_own else policies.list(self._principal))

    async def set_rules(self, document: JsonObject, /) -> tuple[Rule, ...]:
        """Replace the tenant's own rules by those of `{"rules": [...]}`. Returns all that decide now."""
        arguments.mapping(document, "")
        return await (await self._service()).policies.set(self._principal, document)

    async def test_rules(
        self, document: JsonObject | None = None, /, *, last: int = 1_000
    ) -> tuple[Replayed, ...]:
        """What rules would have done to the last writes, newest first. Without a document: those in force."""
        asked = arguments.whole(last, "/last")
        if document is not None:
            arguments.mapping(document, "")
        return await (await self._service()).policies.tried(self._principal, document, asked)
