"""Any object that speaks memorywire, such as a router or a store of your own, as what scenarios are played on."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from quipu.api import Memory
from quipu.errors import QuipuError
from quipu.memory.memory_store import MemoryStore
from quipu.operation import AnyOperation, Response
from quipu.testing.scenarios.check import SMALL, Size, Unpromised
from quipu.testing.scenarios.subject import MovedClock, Subject

_FIVE = ("remember", "recall", "forget", "merge", "expire")


class StoreConnection:
    """Runs memorywire's five operations on an object. Give it to `Memory.over`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        #: Ids that were written, by agent.
        self.written: dict[str, list[str]] = {}

    async def check(self) -> None:
        await self._store.health()

    async def call(self, operation: AnyOperation, given: Mapping[str, Any]) -> Response:
        if operation.name not in _FIVE:
            raise Unpromised(f"it has memorywire's five operations alone, and no {operation.name}")
        request = operation.request.parse(given)
        answer: Response = await getattr(self._store, operation.name)(request)
        if operation.name == "remember":
            self.written.setdefault(str(given.get("agent_id")), []).append(answer.to_dict()["id"])
        return answer

    def stream(self, operation: AnyOperation, given: Mapping[str, Any]) -> AsyncIterator[Response]:
        raise Unpromised(f"it has memorywire's five operations alone, and no {operation.name}")

    async def close(self) -> None:
        """It was open before, and stays so."""


class StoreSubject(Subject):
    """An object, beside whatever it holds; give it a clock that can be moved if it has one."""

    has_operations = False

    def __init__(
        self, store: MemoryStore, *, label: str, clock: Callable[[], int], size: Size = SMALL
    ) -> None:
        self._connection = StoreConnection(store)

        async def opened() -> StoreConnection:
            return self._connection

        super().__init__(Memory.over(opened), label=label, clock=clock, size=size)
        self._store = store

    @property
    def held(self) -> object:
        return self._store

    @property
    def capabilities(self) -> set[str]:
        return self._store.capabilities

    async def health(self) -> Mapping[str, Any]:
        return await self._store.health()

    async def kept_all(self, items: Any) -> list[str]:
        return [await self.kept(**item) for item in items]

    async def travel(self, milliseconds: int) -> None:
        if not isinstance(self._clock, MovedClock):
            await super().travel(milliseconds)
        else:
            self._clock.now += milliseconds

    async def outlast(self, milliseconds: int) -> None:
        if isinstance(self._clock, MovedClock):
            await self.travel(milliseconds)
        else:
            await super().outlast(milliseconds)

    async def waiting(self) -> Any:
        raise Unpromised("what waits for a person cannot be asked of it")

    async def tidy(self) -> None:
        written, self._connection.written = self._connection.written, {}
        for agent, ids in written.items():
            try:
                await self.memory.forget(agent_id=agent, ids=ids, hard_delete=True)
            except QuipuError as error:
                self.left_behind.append(f"{len(ids)} memories of {agent} ({error.code})")
