"""From a place in `stores=[...]` to the adapter that keeps copies there.

A place is a URL, or an object that speaks memorywire. A mirror is named after its scheme (`store` for an object), with
`-2`, `-3` for repeats, or by `?name=`. `?weight=`, `?deadline_ms=`, `?contents=`, `?python=` and `?signed_by=` are Quipu's,
all other parameters belong to the adapter. A URL may hold a credential anywhere, so it is never logged or shown: `shown` may be.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module, metadata
from pathlib import Path
from typing import Final, Literal, Protocol, cast
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from quipu.embed.port import Embedder
from quipu.errors import UnsupportedError
from quipu.jose import unb64
from quipu.memory.memory_store import MemoryStore
from quipu.mirrors.adapter import bad_url
from quipu.mirrors.backend import Backend, MakeBackend, Setup
from quipu.mirrors.memory_store import MemoryBackend

#: Other packages offer adapters here: the entry point's name is the scheme, its value makes the backend.
GROUP: Final = "quipu.backends"
#: Scheme → module; its `make` makes the backend. A vendor's package is imported when the backend is opened.
VENDORS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("mem0", "mem0+postgresql"), "quipu.mirrors.vendors.mem0"),
    **dict.fromkeys(
        ("langgraph", "langgraph+sqlite", "langgraph+postgresql"), "quipu.mirrors.vendors.langgraph"
    ),
    **dict.fromkeys(("letta", "letta+http"), "quipu.mirrors.vendors.letta"),
    "cognee": "quipu.mirrors.vendors.cognee",
    "graphiti": "quipu.mirrors.vendors.graphiti",
}
#: Servers of ours.
SERVERS: Final = ("quipu+https", "quipu+http", "https", "http")
#: Ledgers of ours; a plain path is a file's.
LEDGERS: Final = (
    *("sqlite", "sqlite-vec", "sqlite+vec", "sqlitevec"),
    *("postgresql", "postgres", "pgvector", "pgvector+postgres"),
)
_OURS: Final = ("name", "weight", "deadline_ms", "contents", "python", "signed_by")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
DEADLINE_MS: Final = 800


class OpenMemory(Protocol):
    """Makes the memory at a ledger's or a server's address, as a Quipu of its own. It is opened later."""

    def __call__(self, address: str, *, token: str | None, embedder: Embedder | None) -> MemoryStore: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorAddress:
    """A place, taken apart."""

    name: str
    scheme: str
    #: Without Quipu's own parameters. It may hold a credential. Empty for an object.
    url: str = field(default="", repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    weight: float = 1.0
    deadline_ms: int = DEADLINE_MS
    #: `own`: it also holds memories that did not come from the ledger.
    contents: Literal["copies", "own"] = "copies"
    #: The interpreter of an environment of the vendor's own.
    python: str | None = None
    #: The public key that the hits of another memory must be signed with.
    signed_by: str | None = None
    #: The object that was handed in.
    store: MemoryStore | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """The place as anybody may see it: no user, no password, no parameters."""
        rest = self.url.partition("://")[2].partition("?")[0].partition("#")[0]
        return f"{self.scheme}://{rest.rpartition('@')[2]}"


def is_ledger(place: object) -> bool:
    """Whether a ledger can be opened there."""
    return isinstance(place, str) and _scheme(place) in LEDGERS


def schemes() -> tuple[str, ...]:
    """Every scheme that copies can be kept with."""
    return tuple(sorted({*VENDORS, *SERVERS, *LEDGERS, *(point.name for point in _entry_points())}))


def addresses(places: Sequence[str | MemoryStore], taken: Iterable[str] = ()) -> list[MirrorAddress]:
    """Each place taken apart, in order. Raises for one that cannot be a mirror. `taken`: names that others have."""
    used = set(taken)
    found: list[MirrorAddress] = []
    for place in places:
        if isinstance(place, str):
            address = _taken_apart(place, used)
        elif not isinstance(place, MemoryStore):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may give anything
            raise bad_url("This cannot be a mirror.", "a store URL, or an object that speaks memorywire")
        else:
            address = MirrorAddress(
                name=_name(None, "store", used), scheme="store", contents="own", store=place
            )
        used.add(address.name)
        found.append(address)
    return found


def adapter_at(
    place: MirrorAddress | str | MemoryStore,
    *,
    folder: Path,
    open_memory: OpenMemory,
    embedder: Embedder | None = None,
) -> Backend:
    """The backend that keeps copies at a place, not yet opened. Raises for a place that is none.

    folder: Where it may keep files that outlive the process; made when it is needed.
    open_memory: How another ledger, or a server of ours, is reached.
    embedder: The ledger's own; a vendor that finds by meaning only is refused without one.
    """
    at = place if isinstance(place, MirrorAddress) else addresses([place])[0]
    if at.store is not None:
        return MemoryBackend(at.store, is_ours=False, has_own=at.contents == "own")
    if at.scheme in (*LEDGERS, *SERVERS):
        address, token = (at.url, None) if at.scheme in LEDGERS else _server(at)
        lent = embedder if at.scheme in LEDGERS else None
        return MemoryBackend(
            open_memory(address, token=token, embedder=lent),
            is_ours=True,
            has_own=at.contents == "own",
            signed_by=at.signed_by,
        )
    if at.signed_by is not None:
        raise bad_url("Only the hits of another memory can be signed.", "no signed_by")
    return _maker(at.scheme)(
        Setup(
            name=at.name,
            url=at.url,
            scheme=at.scheme,
            parameters=at.parameters,
            embedder=embedder,
            folder=folder,
            python=at.python,
        )
    )


def _server(at: MirrorAddress) -> tuple[str, str | None]:
    """A server's address without the credential, and the credential."""
    if at.parameters:
        raise bad_url("The address of a Quipu has no such parameter.", "no parameter")
    parts = urlsplit(at.url)
    address = f"{at.scheme.removeprefix('quipu+')}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return address, unquote(parts.password or parts.username or "") or None


def _maker(scheme: str) -> MakeBackend:
    for point in _entry_points():
        if point.name == scheme:
            try:
                return cast("MakeBackend", point.load())
            except ImportError as error:
                raise UnsupportedError(
                    f"The adapter for {scheme}:// cannot be loaded: a package is missing.",
                    reason="missing_extra",
                    hint="Install what the package that offers this adapter needs.",
                ) from error
    return cast("MakeBackend", import_module(VENDORS[scheme]).make)


def _entry_points() -> Iterable[metadata.EntryPoint]:
    return metadata.entry_points(group=GROUP)


# -- addresses --------------------------------------------------------------------------------------------------------


def _scheme(place: str) -> str:
    """A plain path is a file's."""
    scheme, separator, _ = place.strip().partition("://")
    return scheme.lower() if separator else "sqlite"


def _taken_apart(place: str, used: set[str]) -> MirrorAddress:
    scheme = _scheme(place)
    if scheme not in schemes():
        name = scheme if re.fullmatch(r"[a-z0-9+.-]{1,32}", scheme) else "this"
        raise bad_url(f"There is no adapter for {name}://.", ", ".join(f"{one}://" for one in schemes()))
    if "://" not in place:
        return MirrorAddress(name=_name(None, scheme, used), scheme=scheme, url=place)
    rest, _, query = place.strip().partition("://")[2].partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    mine = {key: value for key, value in pairs if key in _OURS}
    theirs = [(key, value) for key, value in pairs if key not in _OURS]
    left = urlencode(theirs)
    contents = mine.get("contents", "copies")
    if contents not in ("copies", "own"):
        raise bad_url("contents in a store URL is no such word.", "copies or own")
    return MirrorAddress(
        name=_name(mine.get("name"), scheme, used),
        scheme=scheme,
        url=f"{scheme}://{rest}{'?' if left else ''}{left}",
        parameters=dict(theirs),
        weight=_number(mine, "weight", 1.0, least=0),
        deadline_ms=int(_number(mine, "deadline_ms", DEADLINE_MS, least=10)),
        contents="own" if contents == "own" else "copies",
        python=mine.get("python"),
        signed_by=_public_key(mine.get("signed_by")),
    )


def _name(given: str | None, scheme: str, used: set[str]) -> str:
    if given is not None:
        if not _NAME.fullmatch(given) or given in used:
            raise bad_url(
                "The name of this mirror cannot be used.", "letters, digits and . _ + -, and each name once"
            )
        return given
    repeats = (f"{scheme}-{count}" for count in range(2, len(used) + 3))
    return scheme if scheme not in used else next(name for name in repeats if name not in used)


def _public_key(given: str | None) -> str | None:
    try:
        is_key = given is None or len(unb64(given)) == 32
    except ValueError:
        is_key = False
    if not is_key:
        raise bad_url(
            "signed_by in a store URL is no public key.",
            "an Ed25519 key as base64url, as `list_checkpoints` of the other memory says it",
        )
    return given


def _number(mine: Mapping[str, str], key: str, default: float, *, least: float) -> float:
    try:
        value = float(mine.get(key, default))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= least):
        raise bad_url(f"{key} in a store URL is no such number.", f"a number from {least:g}")
    return value
