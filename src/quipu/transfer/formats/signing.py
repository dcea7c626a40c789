"""Signatures of files: a detached JWS by the owner's key, whose name is in the owner's DID document."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from quipu import jose
from quipu.errors import TamperedError, UnauthenticatedError, UnverifiableError
from quipu.jose import Signatory
from quipu.ledger.canonical import canonical
from quipu.sharing.dids import PublicKey, split
from quipu.transfer.formats import values

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
