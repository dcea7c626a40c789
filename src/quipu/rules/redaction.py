"""Keeping secrets out: every string that will be kept passes a list of redactors, text in, text and findings out.

1. Content (also a machine, at any depth, keys included), metadata, tags, source, links' relations, details and
   reasons are rewritten, or the write is refused, as the policy says. What was JSON stays JSON.
2. Names that say who, where and which (agent, user, session, store, ids, keys) cannot be rewritten without meaning
   somebody else: a secret there refuses the write under either policy.
3. The strings of one request are also read one after the other, so that a secret cut in two is found.
4. An error tells the field and the label, never the value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, Protocol, TypeAlias, cast

from quipu.errors import Fault, SecretLeakageError
from quipu.model.operations import RememberRequest
from quipu.model.record import Link, MemoryType
from quipu.model.value import Json, JsonObject
from quipu.rules import marking
from quipu.rules.leaves import Findings, Leaf, Tree, gather
from quipu.rules.marking import TEMPLATE, Marker, Piece, Redacted, Span

#: What says who, where and which.
_IDENTITIES = (
    "agent_id",
    "user_id",
    "session_id",
    "store",
    "id",
    "idempotency_key",
    "run_id",
    "node_id",
    "memory_ref",
)
_POINTERS = tuple(f"/{name}" for name in _IDENTITIES)
_identities = attrgetter(*_IDENTITIES)
#: One way of finding and marking secrets.
Redactor: TypeAlias = Callable[[str], Redacted]


class Spreading(Protocol):
    """A redactor may also find a secret whose pieces lie in several texts."""

    def across(self, texts: Sequence[str]) -> Sequence[Piece]:
        """The pieces, where a secret begins in one text and goes on in the next."""
        ...


class Naming(Protocol):
    """A redactor may also know a secret by the key it stands under."""

    def named(self, key: str, text: str) -> Redacted:
        """The text without the secret that its key says it is."""
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """What a redactor has found out about the texts and keys of a batch: whether there is nothing to find in them."""

    texts: dict[str, bool] = field(default_factory=dict[str, bool])
    keys: dict[str, bool] = field(default_factory=dict[str, bool])
    #: Words that tell nothing.
    words: set[str] = field(default_factory=set[str])


class Screening(Protocol):
    """A redactor may also say, quickly, that it would find nothing."""

    def may_hold(
        self,
        texts: Sequence[str],
        keys: Sequence[str],
        known: Known | None = None,
        names: Sequence[str] = (),
    ) -> bool:
        """False only if a search of the texts and keys, each alone and all in a row, and of each name finds nothing.

        `known` goes from one request of a batch to the next: they mostly have their names and keys in common.
        """
        ...


#: What each redactor knows; made for one batch, as it holds texts.
Batch: TypeAlias = dict[Redactor, Known]


class Policy(StrEnum):
    """What becomes of a write that holds a secret."""

    REWRITE = "rewrite"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Redaction:
    """How secrets are found, what becomes of a write that holds one, and what stands in its place."""

    redactors: tuple[Redactor, ...] = ()
    policy: Policy = Policy.REWRITE
    template: str = TEMPLATE


def redacted_text(text: str, redactors: Sequence[Redactor], found: list[str]) -> str:
    """The text after every redactor, in order; what they found is added to `found`."""
    for redactor in redactors:
        result = redactor(text)
        text = result.text
        found.extend(result.found)
    return text


def redacted_value(
    value: Json, redactors: Sequence[Redactor], found: list[str], template: str = TEMPLATE
) -> Json:
    """Keys and values, at any depth; a number too, if it is a secret in digits."""
    tree, findings = Tree(value), Findings()
    _redact(tree.leaves, redactors, Marker(template))
    clean = tree.rebuilt("", findings)
    found.extend(label for _, labels in findings for label in labels)
    return clean


def redacted_request(
    request: RememberRequest, redactors: Sequence[Redactor], found: list[str], template: str = TEMPLATE
) -> RememberRequest:
    """Everything of a remember request that will be kept, and can be rewritten."""
    clean, findings = _rewritten(request, redactors, Marker(template))
    found.extend(label for _, labels in findings for label in labels)
    return clean


def guarded_text(text: str, redaction: Redaction, pointer: str) -> tuple[str, tuple[str, ...]]:
    """A text that may be kept, and the labels of what was found in it; or SecretLeakageError."""
    found: list[str] = []
    clean = redacted_text(text, redaction.redactors, found)
    if found and redaction.policy is Policy.REJECT:
        raise _leakage([(pointer, found)])
    return clean, tuple(found)


def guarded_lines(text: str, redaction: Redaction, pointer: str) -> str:
    """A text that was made of others, as it may be kept: a secret may begin in one line and go on in the next."""
    leaves = [Leaf(line) for line in text.split("\n")]
    marker = Marker(redaction.template)
    for redactor in redaction.redactors:
        if hasattr(redactor, "across"):
            _join(leaves, cast("Spreading", redactor), marker)
    found = [label for leaf in leaves for label in leaf.found]
    if not found:
        return text
    if redaction.policy is Policy.REJECT:
        raise _leakage([(pointer, found)])
    return "\n".join(leaf.text for leaf in leaves)


def guarded_request(
    request: RememberRequest, redaction: Redaction, batch: Batch | None = None
) -> tuple[RememberRequest, tuple[str, ...]]:
    """A request that may be kept, and the labels of what was found in it; or SecretLeakageError."""
    suspecting = _suspecting(request, redaction.redactors, batch)
    if not suspecting:
        return request, ()
    if suspecting != redaction.redactors:
        clean, found = _guarded(request, replace(redaction, redactors=suspecting))
        if not found:
            return clean, ()
    return _guarded(request, redaction)  # a marker may be read as a sign, so every redactor sees them all


def _guarded(request: RememberRequest, redaction: Redaction) -> tuple[RememberRequest, tuple[str, ...]]:
    refuse_named_secrets(_names(request), redaction)
    clean, findings = _rewritten(request, redaction.redactors, Marker(redaction.template))
    if findings and redaction.policy is Policy.REJECT:
        raise _leakage(findings)
    return clean, tuple(label for _, labels in findings for label in labels)


def refuse_named_secrets(names: Iterable[tuple[str, str | None]], redaction: Redaction) -> None:
    """Raise where a name holds a secret: it cannot be rewritten without meaning somebody else. Pointer and name each."""
    if not redaction.redactors:
        return
    findings = Findings()
    for pointer, name in names:
        found: list[str] = []
        if name:
            redacted_text(name, redaction.redactors, found)
        if found:
            findings.append((pointer, found))
    if findings:
        raise _leakage(findings)


def refuse_secrets(value: Json, redaction: Redaction, pointer: str) -> None:
    """Raise where a value holds a secret, at any depth: rewritten it would ask for something else."""
    found: list[str] = []
    redacted_value(value, redaction.redactors, found, redaction.template)
    if found:
        raise _leakage([(pointer, found)])


def _leakage(findings: Findings) -> SecretLeakageError:
    pointer, labels = findings[0]
    return SecretLeakageError(
        f"{pointer[1:].partition('/')[0] or 'The request'} holds a secret ({labels[0]}).",
        reason="secret_found",
        hint="Leave the secret out; nothing was kept.",
        faults=[Fault(place, "secret_found") for place, _ in findings],
    )


# -- one request ----------------------------------------------------------------------------------------------------


def _names(request: RememberRequest) -> Iterator[tuple[str, str | None]]:
    yield from zip(_POINTERS, _identities(request), strict=True)
    yield from _further_names(request)


def _further_names(request: RememberRequest) -> Iterator[tuple[str, str | None]]:
    for index, link in enumerate(request.links or ()):
        yield f"/links/{index}/to", link.to
    if request.embedding is not None:
        yield "/embedding/model", request.embedding.model
    if request.privacy_intent is not None:
        yield "/privacy_intent/consent_id", request.privacy_intent.consent_id
        for index, agent in enumerate(request.privacy_intent.share_with or ()):
            yield f"/privacy_intent/share_with/{index}", agent


def _suspecting(
    request: RememberRequest, redactors: tuple[Redactor, ...], batch: Batch | None
) -> tuple[Redactor, ...]:
    """The redactors without those that say at a glance that they would find nothing."""
    if request.type is MemoryType.PROCEDURAL:  # a machine in JSON text is searched as what it means
        return redactors
    names = [name for name in _identities(request) if name]
    texts: list[str] = []
    keys: list[str] = []
    if request.links or request.privacy_intent is not None:
        names += [name for _, name in _further_names(request) if name]
        texts += [link.rel for link in request.links or ()]
    elif request.embedding is not None and request.embedding.model:
        names.append(request.embedding.model)
    # Most requests leave most of these out, and every write pays for what is asked here.
    for value in (request.content, request.metadata, request.tags, request.source, request.details):
        if value:
            gather(value, texts, keys)
    if request.reasoning:
        texts.append(request.reasoning)
    return tuple([redactor for redactor in redactors if _may_find(redactor, names, texts, keys, batch)])


def _may_find(
    redactor: Redactor, names: Sequence[str], texts: Sequence[str], keys: Sequence[str], batch: Batch | None
) -> bool:
    if not hasattr(redactor, "may_hold"):
        return True
    known = None
    if batch is not None and (known := batch.get(redactor)) is None:
        known = batch[redactor] = Known()
    return cast("Screening", redactor).may_hold(texts, keys, known, names)


def _rewritten(
    request: RememberRequest, redactors: Sequence[Redactor], marker: Marker
) -> tuple[RememberRequest, Findings]:
    """The request with markers, and where they stand. Without secrets, the request itself."""
    if not redactors:
        return request, []
    content, is_parsed, repeats = _parsed(request)
    links = [{"rel": link.rel} for link in request.links or ()]
    trees = {
        "/content": Tree(content),
        "/metadata": Tree(request.metadata),
        "/tags": Tree(request.tags),
        "/source": Tree(request.source),
        "/links": Tree(links),
        "": Tree(request.details, with_numbers=False),
        "/reasoning": Tree(request.reasoning),
    }
    _redact([leaf for tree in trees.values() for leaf in tree.leaves], redactors, marker)
    findings = Findings()
    clean = {pointer: cast("Any", tree.rebuilt(pointer, findings)) for pointer, tree in trees.items()}
    if not findings and not repeats:
        return request, findings
    kept = clean["/content"]
    if is_parsed:
        is_same = kept is content and not repeats
        kept = request.content if is_same else json.dumps(kept, ensure_ascii=False)
    return replace(
        request,
        content=kept,
        # A vector of the caller's is one of the caller's words, and tells what they were.
        embedding=request.embedding if kept is request.content else None,
        metadata=clean["/metadata"],
        tags=request.tags and tuple(clean["/tags"]),
        source=clean["/source"],
        links=request.links
        and tuple(Link(old.to, new["rel"]) for old, new in zip(request.links, clean["/links"], strict=True)),
        details=clean[""],
        reasoning=clean["/reasoning"],
    ), findings


def _parsed(request: RememberRequest) -> tuple[Json, bool, bool]:
    """The content as it is searched, whether it had to be parsed for that, and whether it says a key twice.

    A machine may come as JSON text. It is searched as what it means, so that it is still a machine afterwards; what a
    repeated key said first is no part of that, and is not kept.
    """
    content, repeated = request.content, list[bool]()
    if request.type is not MemoryType.PROCEDURAL or not isinstance(content, str):
        return content, False, False

    def members(pairs: list[tuple[str, Json]]) -> JsonObject:
        result = dict(pairs)
        repeated.append(len(result) < len(pairs))
        return result

    try:
        return json.loads(content, object_pairs_hook=members), True, any(repeated)
    except (ValueError, RecursionError):
        return content, False, False


def _redact(leaves: Sequence[Leaf], redactors: Sequence[Redactor], marker: Marker) -> None:
    """First what is spread over several leaves, then each leaf under its key, then each by itself."""
    keys = [leaf for leaf in leaves if leaf.is_key]
    values = [leaf for leaf in leaves if not leaf.is_key and not leaf.is_number]
    together = [leaf for leaf in leaves if not leaf.is_number]
    for redactor in redactors:
        if hasattr(redactor, "across"):
            for row in (values, keys, together) if keys else (values,):
                _join(row, cast("Spreading", redactor), marker)
        naming = cast("Naming", redactor) if hasattr(redactor, "named") else None
        for leaf in leaves:
            if naming is not None and leaf.key is not None:
                _apply(leaf, naming.named(leaf.key.text, leaf.text))
            _apply(leaf, redactor(leaf.text))


def _join(leaves: Sequence[Leaf], redactor: Spreading, marker: Marker) -> None:
    """Every piece of a secret that runs over the ends of leaves is replaced."""
    spans: dict[int, list[Span]] = {}
    for place, start, end, label in redactor.across([leaf.text for leaf in leaves]):
        spans.setdefault(place, []).append(Span(start, end, label))
    for place, pieces in spans.items():
        whole = marking.merged(pieces)
        text = marking.replaced(leaves[place].text, whole, marker)
        _apply(leaves[place], Redacted(text, tuple(piece.label for piece in whole)))


def _apply(leaf: Leaf, result: Redacted) -> None:
    leaf.text = result.text
    leaf.found.extend(result.found)
