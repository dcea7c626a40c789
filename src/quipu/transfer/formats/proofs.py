"""What proves a file: the signature of its owner, the logs of its items and the chain of receipts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from quipu import jose
from quipu.errors import QuipuError, TamperedError, UnauthenticatedError, UnverifiableError
from quipu.jose import Signatory
from quipu.ledger.canonical import canonical
from quipu.sharing.dids import PublicKey, split
from quipu.sharing.receipts import GENESIS, hashed, receipt_is_signed
from quipu.transfer.formats import values
from quipu.transfer.formats.values import Found

#: `valid`: by a key of the owner's own document. `unknown`: there is one, but its key cannot be had, or proves nothing
#: any more. A signature that is wrong is no status: the file is refused.
Signature: TypeAlias = Literal["absent", "unknown", "valid"]
#: The public key of a full name such as did:web:host#key-1; None, or UnverifiableError, where it cannot be had.
Keys: TypeAlias = Callable[[str], PublicKey | None]


def no_keys(_kid: str) -> None:
    """Nobody's key is known: each signature is `unknown`."""


def signed(body: Mapping[str, Any], by: Signatory) -> dict[str, str]:
    """The signature over a body, as it stands in a file."""
    return {"jws": jose.detached(canonical(body), by)}


def standing(
    body: Mapping[str, Any], given: Any, owner: str | None, at: int | None, keys: Keys, now: int
) -> tuple[Signature, str | None]:
    """Whether the owner signed this, and the key's name; TamperedError where a signature is wrong.

    `at`: when the file says that it was made. A key that was retired since then still proves it.
    """
    if given is None:
        return "absent", None
    jws = values.an_object(given).get("jws")
    try:
        kid = jose.opened_detached(jws).get("kid") if isinstance(jws, str) else None
        message = canonical(body)
    except (UnauthenticatedError, ValueError):  # a body without canonical bytes was signed by nobody
        raise wrong_signature() from None
    if not isinstance(jws, str) or not isinstance(kid, str) or split(kid)[0] != owner:
        raise wrong_signature()
    try:
        key = keys(kid)
    except UnverifiableError:
        key = None
    if key is None:
        return "unknown", kid
    if not jose.verify_detached(message, jws, key.jwk):
        raise wrong_signature()
    return "valid" if key.may_sign_at(now if at is None else at, now) else "unknown", kid


def wrong_signature() -> TamperedError:
    """The file was altered, or signed by somebody else than it says."""
    return TamperedError(
        "The file's signature is wrong: it was altered, or somebody else than its owner signed it.",
        reason="wrong_signature",
        hint="Ask its owner for a new export.",
    )


def wrong_digest() -> TamperedError:
    """A part of the file is not what its manifest says."""
    return TamperedError(
        "A part of the file is not what its manifest says: it was altered or damaged.",
        reason="wrong_digest",
        hint="Ask its owner for a new export.",
    )


FaultKind: TypeAlias = Literal["bad_line", "broken_log", "broken_chain", "bad_signature", "wrong_end"]
_MOST_FAULTS = 100
_MOST_KEYS = 100


@dataclass(frozen=True, slots=True)
class ProofFault:
    """One thing that is wrong: with the log or the receipts, and on which line."""

    kind: FaultKind
    file: Literal["logs", "receipts"]
    line: int


@dataclass(slots=True)
class Proofs:
    """How many lines there are of each, and what is wrong with them."""

    logs: int = 0
    receipts: int = 0
    #: Receipts whose key cannot be had, so that nobody can say who signed them.
    unverified: int = 0
    #: The first hundred.
    faults: list[ProofFault] = field(default_factory=list[ProofFault])

    def fault(self, kind: FaultKind, file: Literal["logs", "receipts"], line: int) -> None:
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(ProofFault(kind, file, line))


def checked(logs: Iterable[Found], receipts: Iterable[Found], head: str | None, keys: Keys) -> Proofs:
    """Logs of items, one item after the other, and receipts up to where the manifest says that they end."""
    proofs = Proofs()
    _check_logs(logs, proofs)
    _check_receipts(receipts, head, keys, proofs)
    return proofs


def _check_logs(logs: Iterable[Found], proofs: Proofs) -> None:
    item, previous, number = None, GENESIS, 0
    for line, entry in logs:
        proofs.logs += 1
        if isinstance(entry, QuipuError):
            proofs.fault("bad_line", "logs", line)
            continue
        if entry.get("item_id") != item:
            item, previous, number = entry.get("item_id"), GENESIS, 0
        number += 1
        if entry.get("prev") != previous or entry.get("seq") != number:
            proofs.fault("broken_log", "logs", line)
        previous = hashed(entry)


def _check_receipts(receipts: Iterable[Found], head: str | None, keys: Keys, proofs: Proofs) -> None:
    previous, line = GENESIS, 0
    known = _Known(keys)
    for line, body in receipts:
        proofs.receipts += 1
        if isinstance(body, QuipuError):
            proofs.fault("bad_line", "receipts", line)
            continue
        if body.get("previous_receipt_hash") != previous:
            proofs.fault("broken_chain", "receipts", line)
        known.is_missing = False
        if not receipt_is_signed(body, known.check):
            if known.is_missing:
                proofs.unverified += 1
            else:
                proofs.fault("bad_signature", "receipts", line)
        previous = hashed(body)
    if head is not None and previous != head:
        proofs.fault("wrong_end", "receipts", line)


class _Known:
    """The keys that were asked for; a file cannot make us ask for any number of them."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._found: dict[str, PublicKey | None] = {}
        #: Whether the last signature was by a key that cannot be had.
        self.is_missing = False

    def check(self, message: bytes, kid: str, value: str) -> bool:
        if kid not in self._found and len(self._found) < _MOST_KEYS:
            try:
                self._found[kid] = self._keys(kid)
            except UnverifiableError:
                self._found[kid] = None
        key = self._found.get(kid)
        if key is None or key.revoked is not None:
            self.is_missing = True
            return False
        return jose.verify(message, value, key.jwk)
