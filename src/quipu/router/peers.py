"""A router's peers: who they are, what they may be asked, and requests and answers of other packages.

A peer of another package is asked with its own request models and answers with its own: a request is built out of the
fields that its class has, and an answer is read by its fields. What a field says that the peer's class does not have is
never passed over in silence where it matters: then the peer is not asked.
"""

import asyncio
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from pydantic import ValidationError

from quipu.errors import Fault, InvalidError, UnsupportedError
from quipu.memory import model as m
from quipu.memory.memory_store import (
    FIVE,
    ForeignRequest,
    MemoryStore,
    fields_of,
    is_awaited,
    request_fields,
    request_kinds,
)
from quipu.operation import Request, Response, ScopedRequest, invalid
from quipu.router.hits import HOP
from quipu.search import fusion
from quipu.search.filters import METADATA, V0_FIELDS, canonical
from quipu.search.hops import factor as hop_factor

R = TypeVar("R", bound=Response)

_METHODS: Final = (*FIVE, "health")
_HINT: Final = 'Give memories by name, such as {"home": quipu.Memory(stores="./home.db")}.'
#: Fields that ask for more in the answer, or that the router itself heeds.
_NOT_THEIRS: Final = frozenset(
    {
        *("reasoning", "find_similar", "explain", "count_recall", "max_tokens", "quorum_k"),
        *("deadline_ms", "redact"),
    }
)
_GOVERNANCE, _RECALL_TRACKING, _GRAPH = "governance", "recall_tracking", "graph"


@dataclass(frozen=True, slots=True)
class Peer:
    """One of the stores that a router asks."""

    name: str
    store: MemoryStore
    weight: float
    #: By operation, the request class of the peer's own package; an operation that is not there takes ours.
    kinds: Mapping[str, Any]

    @property
    def is_ours(self) -> bool:
        """Whether it takes Quipu's own requests."""
        return not self.kinds

    @property
    def counts_what_is_shown(self) -> bool:
        """Whether it can be told afterwards which memories a recall used."""
        return self.is_ours and callable(getattr(self.store, "note_recalled", None))

    # -- promises -----------------------------------------------------------------------------------------------------

    def refusal(self, name: str, request: Request) -> UnsupportedError | None:
        """Why it is not asked; None where it is. A peer that declares nothing has said nothing against it."""
        declared = self.store.capabilities
        missing = sorted(_needed(request) - set(declared)) if declared else []
        if missing:
            return UnsupportedError(
                f"The store does not promise {missing[0]}.",
                reason="not_promised",
                hint=f"Ask a store that declares {missing[0]}, or leave out what needs it.",
            )
        try:
            self.request(name, request)
        except UnsupportedError as refusal:
            return refusal
        return None

    # -- requests -----------------------------------------------------------------------------------------------------

    def request(self, name: str, request: Request) -> Any:
        """Ours, or the peer's own model of it; raises where that has no place for something."""
        kind = self.kinds.get(name)
        if kind is None:
            return request
        assert isinstance(request, ScopedRequest)
        _ = request.agent  # memorywire's requests name one; raises
        known = frozenset(kind.model_fields)
        given = _given(name, request)
        beyond = sorted(given.keys() - known - _NOT_THEIRS)
        if beyond:
            raise _not_promised(beyond[0])
        fields = {field: value for field, value in given.items() if field in known}
        try:
            return kind.model_validate(fields)
        except ValidationError as error:
            place = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
            raise _not_promised(place or name) from None

    # -- answers ------------------------------------------------------------------------------------------------------

    def answer(self, kind: type[R], request: Request, given: object, most: int = 0) -> R:
        """Its answer as ours. Raises TypeError for what is none.

        most: So many hits are read: who sends more than was asked for is not read to the end.
        """
        if isinstance(given, kind):
            if not isinstance(given, m.RecallResponse):
                return given
            return given.model_copy(update={"results": self._hits(request, given.results, most)})
        fields = fields_of(given)
        if fields is None:
            raise TypeError(f"It did not answer with a {kind.__name__}.")
        if issubclass(kind, m.RecallResponse):
            fields["results"] = self._hits(request, fields.get("results"), most)
        known = {
            name: value for name, value in fields.items() if name in kind.model_fields and value is not None
        }
        try:
            return kind.model_validate({**_defaults(kind, request, self.name), **known}, strict=False)
        except ValidationError as error:
            raise TypeError(f"It did not answer with a {kind.__name__}.") from error

    def _hits(self, request: Request, given: object, most: int) -> tuple[m.Hit, ...]:
        """What is no hit is left out."""
        if not isinstance(given, Sequence):
            raise TypeError("Its results are no list.")
        hits = (self._hit(request, hit) for hit in cast("Sequence[object]", given)[:most])
        return tuple(hit for hit in hits if hit is not None)

    def _hit(self, request: Request, given: object) -> m.Hit | None:
        if isinstance(given, m.Hit):
            return given
        fields = fields_of(given)
        if fields is None:
            return None
        score = _number(fields.get("score"))
        known = {
            name: value for name, value in fields.items() if name in m.Hit.model_fields and value is not None
        }
        try:
            return m.Hit.model_validate(
                {
                    **{"version": 1, "store": "main", "tier": "long_term", "confidence": 1.0, "rank": 0},
                    **{"agent_id": getattr(request, "agent_id", None) or "", "source_store": self.name},
                    **{"created_at": 0, "updated_at": known.get("created_at", 0)},
                    **{"provenance": {"written_by": self.name, "trust": "external"}},
                    **{"relevance": min(1.0, max(0.0, score))},
                    **known,
                    "score": score,
                },
                strict=False,
            )
        except ValidationError:
            return None

    # -- links --------------------------------------------------------------------------------------------------------

    async def linked(self, hits: Sequence[m.Hit], hops: int) -> list[m.Hit]:
        """Hits with their links, where the peer tells its neighbours by `neighbors(id, hops)` and not in the hits."""
        ask = getattr(self.store, "neighbors", None)
        if self.is_ours or not hops or _GRAPH not in self.store.capabilities or not callable(ask):
            return list(hits)
        asking: Any = ask
        told = await asyncio.gather(*(asking(hit.id, hops) for hit in hits), return_exceptions=True)
        members = {hit.id for hit in hits}
        linked: list[m.Hit] = []
        for hit, neighbours in zip(hits, told, strict=True):
            near = _distances(neighbours, members - {hit.id}, hops)
            if near:
                supporting = sorted(near, key=lambda id: (near[id], id))
                distance = near[supporting[0]]
                # As a peer that weighs links itself would tell it: it is taken back before rankings are fused.
                weighed = hit.score * hop_factor(distance)
                changes = {"supporting": tuple(supporting), "why": {HOP: distance}, "score": weighed}
                hit = hit.model_copy(update=changes)
            linked.append(hit)
        return linked


def listed(
    peers: Mapping[str, MemoryStore] | Sequence[MemoryStore], weights: Mapping[str, float]
) -> list[Peer]:
    """The peers by name, in their order. What cannot be one is refused at once, with what to give instead."""
    given = cast("Any", peers)
    if isinstance(given, str | bytes) or all(hasattr(given, name) for name in _METHODS):
        raise _refused("/peers", "Peers come in a mapping or a list.")
    try:
        numbered = enumerate(() if hasattr(given, "keys") else given, 1)
        named: dict[Any, Any] = {f"peer-{number}": peer for number, peer in numbered} or dict(given)
    except TypeError as error:
        raise _refused("/peers", "Peers come in a mapping or a list.") from error
    if not named:
        raise _refused("/peers", "A router needs a peer.")
    first: dict[int, str] = {}
    for name, store in named.items():
        _check(name, store)
        if id(store) in first:
            same = first[id(store)]
            raise _refused(f"/peers/{name}", f"This is the same store as {same!r}, which would count twice.")
        first[id(store)] = name
    fusion.check_weights(weights, named.keys())
    return [
        Peer(name, store, weights.get(name, fusion.DEFAULT_WEIGHT), request_kinds(store))
        for name, store in named.items()
    ]


def together(peers: Sequence[Peer]) -> set[str]:
    """What all of them promise as one.

    As soon as there is anything to fuse, peers are asked for more than is shown. So several promise that only what is
    shown counts as recalled where each of them can be told what that was.
    """
    common = set[str].intersection(*(set(peer.store.capabilities) for peer in peers))
    is_counted = len(peers) == 1 or all(peer.counts_what_is_shown for peer in peers)
    return common if is_counted else common - {_RECALL_TRACKING}


def _check(name: object, store: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise _refused("/peers", "A peer's name is a text that is not empty.")
    if isinstance(store, str):  # an address may hold a password: it is not repeated
        raise _refused(f"/peers/{name}", "A peer is a store, and this is a text.")
    if missing := [method for method in _METHODS if not callable(getattr(store, method, None))]:
        message = f"A peer answers memorywire's five operations, and this one has no {', '.join(missing)}."
        raise _refused(f"/peers/{name}", message)
    if not is_awaited(store):
        raise _refused(f"/peers/{name}", "A peer is awaited, and this one blocks: give quipu.Memory.")


def _refused(pointer: str, message: str) -> InvalidError:
    return InvalidError(
        message, faults=[Fault(pointer, "bad_value", "a store, or several by name")], hint=_HINT
    )


# -- requests of other packages ------------------------------------------------------------------------------------


def _needed(request: Request) -> frozenset[str]:
    """The capabilities without which a request is not carried out as it says."""
    wanted = {_GOVERNANCE} if getattr(request, "approval_required", False) else set[str]()
    if isinstance(request, m.RememberRequest):
        wanted.add(request.type)
    if isinstance(request, m.ExpireRequest) and request.policy.no_recall_in_days is not None:
        wanted.add(_RECALL_TRACKING)
    return frozenset(wanted)


def _given(name: str, request: Request) -> dict[str, Any]:
    """What a request says, in plain values and in memorywire's own words."""
    defaults = {field: info.default for field, info in type(request).model_fields.items()}
    said = {
        field: value
        for field, value in request.model_dump(mode="json", exclude_none=True).items()
        if getattr(request, field) != defaults[field] or field == "type"
    }
    if name == "remember" and not isinstance(said["content"], str):
        said["content"] = json.dumps(said["content"])
    if "expires_at" in said and not isinstance(said["expires_at"], int):
        raise _not_promised("expires_at")  # a duration, and the peer wants a moment
    if said.get("min_relevance") in ("off", 0):  # what it would do by itself
        del said["min_relevance"]
    if "filter" in said:
        said["filter"] = _v0_filter(said["filter"])
    return said


def _v0_filter(filter: Mapping[str, Any]) -> dict[str, Any]:
    """As v0 has it: keys of the metadata by their plain names, each with the value that it must have."""
    found: dict[str, Any] = {}
    for path, value in canonical(dict(filter), plain_names="fields").items():
        name = path.removeprefix(METADATA)
        is_path = "." in name.replace("\\.", "")
        is_test = isinstance(value, dict) and any(
            key.startswith("$") for key in cast("dict[str, Any]", value)
        )
        if path.startswith("$") or is_path or is_test or (name == path and name not in V0_FIELDS):
            raise _not_promised("filter")
        found[name.replace("\\.", ".").replace("\\\\", "\\")] = value
    return found


def _not_promised(field: str) -> UnsupportedError:
    return UnsupportedError(
        f"The store has no {field} of this kind.",
        reason="not_promised",
        hint=f"Leave out `{field}`, or ask a store of Quipu's.",
    )


def _number(score: object) -> float:
    """A score; what is no number counts nothing."""
    return float(score) if isinstance(score, int | float) and math.isfinite(score) else 0.0


def _defaults(kind: type[Response], request: Request, peer: str) -> dict[str, Any]:
    """What v0's answers leave out and ours have."""
    if issubclass(kind, m.RecallResponse):
        return {"fusion_used": getattr(request, "fusion", "rrf"), "stores_queried": (peer,), "latency_ms": 0}
    return {}


def _distances(told: object, members: Collection[str], hops: int) -> dict[str, int]:
    """How far the neighbours are; one that does not say is next door."""
    if not isinstance(told, Sequence):
        return {}
    found: dict[str, int] = {}
    for one in cast("Sequence[object]", told):
        fields = fields_of(one) or {}
        id, metadata = fields.get("id"), fields.get("metadata")
        said = cast("dict[str, Any]", metadata).get("hop_distance", 1) if isinstance(metadata, dict) else 1
        distance = said if isinstance(said, int) and said >= 1 else 1
        if isinstance(id, str) and id in members and distance <= hops:
            found[id] = min(distance, found.get(id, distance))
    return found


def request_of(kind: type[Request], given: Any, fields: Mapping[str, Any], agent_id: str | None) -> Any:
    """Our request out of what a caller gave: ours, a mapping, another package's model, or fields by name."""
    if given is None:
        said = {name: value for name, value in fields.items() if value is not None}
    elif fields:
        raise invalid([Fault("", "bad_value", "a whole request, or its fields by name, but not both")])
    elif isinstance(given, kind) or (
        not isinstance(given, Request) and isinstance(given, Mapping | ForeignRequest)
    ):
        said = request_fields(cast("Any", given))
    else:
        raise invalid([Fault("", "bad_value", f"a {kind.__name__}, or its fields by name")])
    if agent_id is not None and said.get("agent_id") is None:
        said = {**said, "agent_id": agent_id}
    return given if isinstance(given, kind) and said.keys() <= given.model_fields_set else kind.parse(said)
