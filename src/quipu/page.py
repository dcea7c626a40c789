"""A page of the web interface, declared by its capability in `page.py`. `load` and the actions only call `dispatch`, so a
page shows and does no more than its visitor may."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeAlias

from quipu.errors import Fault
from quipu.model.principal import Principal
from quipu.operation import WHOLE, AnyOperation, Context, FilePart, invalid

Group: TypeAlias = Literal["memory", "review", "activity", "sharing", "system"]


class Fields(Mapping[str, str]):
    """What stands in an address or in a form. A name may occur several times; as a mapping it has the last of each."""

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._pairs = tuple((name, value.replace("\r\n", "\n")) for name, value in pairs)
        self._last = dict(self._pairs)

    @property
    def pairs(self) -> Sequence[tuple[str, str]]:
        return self._pairs

    def __getitem__(self, name: str) -> str:
        return self._last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._last)

    def __len__(self) -> int:
        return len(self._last)

    def text(self, name: str) -> str | None:
        """The value without the space around it; None where there is nothing."""
        return self._last.get(name, "").strip() or None

    def texts(self, name: str) -> tuple[str, ...]:
        """Every value of a name that says something: ticked boxes."""
        return tuple(value for given, value in self._pairs if given == name and value.strip())

    def words(self, name: str) -> tuple[str, ...]:
        """A list that was typed with commas."""
        return tuple(word.strip() for word in self._last.get(name, "").split(",") if word.strip())

    def is_ticked(self, name: str) -> bool:
        return bool(self._last.get(name))

    def number(self, name: str) -> int | None:
        """A whole number; None where there is nothing."""
        text = self.text(name)
        if text is None:
            return None
        if not text.isascii() or not text.lstrip("-").isdigit() or len(text) > 18:
            raise invalid([Fault(f"/{name}", "bad_value", "a whole number")])
        return int(text)

    def day(self, name: str, *, is_end: bool = False) -> int | None:
        """A day such as 2026-01-31 as milliseconds: its beginning, or where the next one begins. Days are UTC."""
        text = self.text(name)
        if text is None:
            return None
        try:
            begins = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
            return int(begins.timestamp() * 1000) + (86_400_000 if is_end else 0)
        except (ValueError, OverflowError):
            raise invalid([Fault(f"/{name}", "bad_value", "a day such as 2026-01-31")]) from None

    def moment(self, name: str) -> int | None:
        """A day or a minute such as 2026-01-31T09:30, UTC, as milliseconds."""
        text = (self.text(name) or "").removesuffix("Z").replace(" ", "T")
        if "T" not in text:
            return self.day(name)
        try:
            given = datetime.fromisoformat(text)
            return int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            raise invalid(
                [Fault(f"/{name}", "bad_value", "a minute such as 2026-01-31T09:30, in UTC")]
            ) from None

    def given(self, *names: str) -> dict[str, str]:
        """Those of the fields that say something."""
        return {name: text for name in names if (text := self.text(name)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a form did, and where its sender goes."""

    said: str = "Done."
    #: Where to; None: the page that the form stands on.
    path: str | None = None
    #: What is shown this once and kept nowhere, such as the text of a token. The page itself is then the answer.
    once: Mapping[str, Any] | None = None
    #: A file that the browser saves; the page stays as it is.
    file: AsyncIterator[FilePart] | None = None


Load: TypeAlias = Callable[[Context, Fields], Awaitable[dict[str, Any]]]
#: Carries out a form. The fields of the address are among those of the form.
Action: TypeAlias = Callable[[Context, Fields], Awaitable[Done]]


class Part(Protocol):
    """What another room adds to a page."""

    async def load(self, ctx: Context, query: Fields) -> dict[str, Any]: ...

    @property
    def actions(self) -> Mapping[str, Action]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An address, what stands on it, and what its forms do: each form names one with its field `action`."""

    path: str
    group: Group
    title: str
    template: str
    load: Load
    actions: Mapping[str, Action | AnyOperation] = field(default_factory=dict[str, Any])
    #: What a visitor must be able to call for the page to be among their links; None: everybody has it.
    needs: AnyOperation | None = None
    #: Of another page that is already among the links: `/memories/{id}`, of `/memories`.
    parent: str | None = None


def may_use(principal: Principal, operation: AnyOperation | None) -> bool:
    """Whether it is worth offering an operation to somebody. `dispatch` decides; this only spares them a refusal."""
    if operation is None:
        return True
    permission = operation.permission
    if callable(permission):  # what the plainest request needs
        permission = permission(operation.request.model_construct())
    has_permission = permission is None or principal.may(permission)
    return has_permission and (operation.limits != WHOLE or principal.is_whole)
