"""Keeping secrets out: every text that will be kept passes a `Guard`.

1. What may be rewritten (content, metadata, tags, reasons) gets a marker in the place of a secret, or the request is
   refused, as the policy says. What was JSON stays JSON.
2. Names and ids cannot be rewritten without meaning something else: a secret there refuses the request under both
   policies.
3. The texts of one request are also read one after the other, so that a secret cut in two is found.
4. An error names the field and the label, never the value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel

from quipu.errors import Fault, SecretLeakageError
from quipu.fields import Redact
from quipu.model.record import Record
from quipu.model.value import Json
from quipu.secrets import marker as marking
from quipu.secrets.decoded import Decoded
from quipu.secrets.detectors import LABELS, Detectors
from quipu.secrets.marker import Marker, Redacted, Span
from quipu.secrets.registered import Registered, compiled
from quipu.secrets.tree import REWRITTEN, Finding, Leaf, Tree

ModelT = TypeVar("ModelT", bound=BaseModel)
#: What becomes of a request with a secret in a text that could be rewritten.
Policy: TypeAlias = Literal["rewrite", "reject"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What texts are checked with: the registered values as of one journal position, and the detectors."""

    registered: Registered = field(default_factory=partial(compiled, ()))
    #: With an empty table, only registered values are looked for.
    detectors: Detectors = field(default_factory=Detectors)
    policy: Policy = "rewrite"
    marker: Marker = field(default_factory=Marker)
    #: The journal position that the list of registered values was read at; a commit is refused if it has moved.
    checked_at: int = 0
    _labels: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_labels", self.registered.labels | LABELS)

    def clean(self, request: ModelT) -> ModelT:
        """The request as it may be kept, the same object where nothing was found; or SecretLeakageError."""
        return self._cleaned(Tree(request), "")

    def clean_each(self, requests: Sequence[ModelT]) -> list[ModelT | SecretLeakageError]:
        """The same for many requests, each for itself. Mostly none holds a secret, which one look at all of them says."""
        trees = [Tree(request) for request in requests]
        is_clear = self._is_clear(trees)
        cleaned: list[ModelT | SecretLeakageError] = []
        for tree in trees:
            try:
                cleaned.append(self._cleaned(tree, "", is_clear=is_clear))
            except SecretLeakageError as error:
                cleaned.append(error)
        return cleaned

    def clean_text(self, text: str, pointer: str = "/content") -> str:
        """A text as it may be kept, also one that was put together of others; or SecretLeakageError.

        A secret that was cut where texts were joined begins at the end of one line and goes on in the next.
        """
        whole = self._redacted(text)
        lines = [Leaf(line) for line in whole.text.split("\n")]
        self._join(lines, self.registered)
        self._join(lines, self.detectors)
        found = [*whole.found, *(label for line in lines for label in line.found)]
        if found and self.policy == "reject":
            raise _leakage([Finding(pointer, found, REWRITTEN)])
        return "\n".join(line.text for line in lines) if found else text

    def clean_record(self, record: Record) -> Record:
        """A version that was put together of others, the same one where nothing was found; or SecretLeakageError.

        What held no secret in either of two texts may hold one in both.
        """
        # A machine is never joined: whoever wrote it wrote all of it.
        content = record.content if record.type == "procedural" else self.clean_text(record.content)
        # Times among the details stay numbers.
        details = {
            name: value for name, value in record.details.items() if not isinstance(value, int | float)
        }
        texts: dict[str, Any] = {
            "content": content if record.type != "procedural" else None,
            "metadata": record.metadata,
            "tags": record.tags,
            "source": record.source,
            "details": details,
            "subject": record.provenance.subject,
        }
        clean: Any = self._cleaned(Tree(texts), "")
        if clean is texts and content == record.content:
            return record
        return replace(
            record,
            content=content if clean["content"] is None else clean["content"],
            metadata=clean["metadata"],
            tags=clean["tags"],
            source=clean["source"],
            details={**record.details, **clean["details"]},
            provenance=replace(record.provenance, subject=clean["subject"]),
        )

    def check(self, value: Json, pointer: str) -> None:
        """Refuse a name, or what would mean something else if it were rewritten, under both policies."""
        self._cleaned(Tree(value, Redact.REFUSE), pointer)

    def masked(self, text: str) -> str:
        """A text as it may be shown or logged: with markers, whatever the policy is."""
        return self._redacted(text).text

    def finds(self, text: str) -> tuple[str, ...]:
        """The labels of the secrets in a text."""
        return self._redacted(text).found

    # -- the search -----------------------------------------------------------------------------------------------

    def _cleaned(self, tree: Tree, pointer: str, *, is_clear: bool = False) -> Any:
        if not (is_clear or self._is_clear([tree])):
            self._search(tree)
        findings: list[Finding] = []
        clean = tree.rebuilt(pointer, findings)
        refused = [one for one in findings if one.row != REWRITTEN or self.policy == "reject"]
        if refused:
            raise _leakage(refused)
        return clean

    def _is_clear(self, trees: Sequence[Tree]) -> bool:
        """Whether none of these texts holds anything for sure. Every write pays for this, and mostly for nothing else."""
        texts = "\n".join([leaf.text for tree in trees for leaf in tree.leaves])
        return self.detectors.is_clear(Decoded(texts)) and not self._may_find(trees)

    def _may_find(self, trees: Sequence[Tree]) -> bool:
        """Whether a registered value may be in them."""
        return self.registered.may_find(text for tree in trees for text in _joined(tree.rows()))

    def _search(self, tree: Tree) -> None:
        """First what is spread over several texts, then each by itself, under its key."""
        rows, has_registered = tree.rows(), self._may_find([tree])
        suspects = tree.leaves if has_registered else self._suspects(tree.leaves)
        if not suspects:
            return
        for row in rows:
            if (
                has_registered
            ):  # a registered value keeps its label, also beside what looks like the start of a key
                self._join(row, self.registered)
                for leaf in row:
                    _apply(leaf, self._redacted_registered(leaf.text))
            if len(row) > 1 and self.detectors.may_begin([leaf.text for leaf in row]):
                self._join(row, self.detectors)
        if any(leaf.found for leaf in tree.leaves):
            suspects = tree.leaves
        for leaf in suspects:
            _apply(leaf, self._redacted(leaf.text, leaf.key.text if leaf.key is not None else None))

    def _suspects(self, leaves: Sequence[Leaf]) -> list[Leaf]:
        """The texts in which a detector may find something, by themselves or by their key."""
        unclear = {leaf for leaf in leaves if not self.detectors.is_clear(Decoded(leaf.text))}
        return [leaf for leaf in leaves if leaf in unclear or leaf.key in unclear]

    def _join(self, row: Sequence[Leaf], finder: Registered | Detectors) -> None:
        """Mark every piece of a secret that begins in one text and goes on in the next."""
        for order in _orders(row):
            spans: dict[int, list[Span]] = {}
            for number, start, end, label in finder.across([leaf.text for leaf in order]):
                spans.setdefault(number, []).append(Span(start, end, label))
            for number, found in spans.items():
                whole = marking.merged(found)
                text = marking.replaced(order[number].text, whole, self.marker)
                _apply(order[number], Redacted(text, tuple(span.label for span in whole)))

    def _redacted(self, text: str, key: str | None = None) -> Redacted:
        return marking.redacted(text, partial(self._spans, key), self.marker, self._labels)

    def _redacted_registered(self, text: str) -> Redacted:
        def spans(text: str) -> list[Span]:
            return [*self.registered.spans(Decoded(text))]

        return marking.redacted(text, spans, self.marker, self._labels)

    def _spans(self, key: str | None, text: str) -> list[Span]:
        decoded = Decoded(text)
        spans = [*self.registered.spans(decoded), *self.detectors.spans(decoded)]
        if key is not None:
            spans.extend(self.detectors.named(key, text))
        return spans


def _orders(row: Sequence[Leaf]) -> list[list[Leaf]]:
    """The texts that are read one after the other: values, keys, and both as they come."""
    texts = [leaf for leaf in row if not leaf.is_number]
    keys = [leaf for leaf in texts if leaf.is_key]
    return [[leaf for leaf in texts if not leaf.is_key], keys, texts] if keys else [texts]


def _joined(rows: Sequence[Sequence[Leaf]]) -> Iterator[str]:
    """Every text, alone or with those that it may go on in."""
    for row in rows:
        yield from (leaf.text for leaf in row if leaf.is_number)
        yield from ("".join([leaf.text for leaf in order]) for order in _orders(row))


def _apply(leaf: Leaf, result: Redacted) -> None:
    leaf.text = result.text
    leaf.found += result.found


def _leakage(findings: Sequence[Finding]) -> SecretLeakageError:
    pointer, labels, _ = findings[0]
    return SecretLeakageError(
        f"{pointer[1:].partition('/')[0] or 'The request'} holds a secret ({labels[0]}).",
        reason="secret_found",
        hint="Leave the secret out; nothing was kept.",
        faults=[
            Fault(one.pointer, "secret_found", f"text without the secret {one.labels[0]}") for one in findings
        ],
    )
