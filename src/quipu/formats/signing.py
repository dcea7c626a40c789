"""Signatures of files: detached JWS with Ed25519, checked by a function that is handed in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from quipu.errors import TamperedError
from quipu.formats import values

#: Canonical bytes (RFC 8785) of a JSON value.
Canonical: TypeAlias = Callable[[object], bytes]
#: Message, key id, signature, public keys by id → is it right?
Verify: TypeAlias = Callable[[bytes, str, str, Mapping[str, str]], bool]

ABSENT, FOREIGN, VALID = "absent", "foreign", "valid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """A private key, as far as a writer needs it."""

    key_id: str
    #: Raw Ed25519 public key, base64url.
    public_key: str
    sign: Callable[[bytes], str]
    canonical: Canonical

    def jws(self, body: object) -> dict[str, str]:
        """A detached JWS over the canonical bytes of a body, with the key that checks it."""
        header = values.b64(self.canonical({"alg": "EdDSA", "kid": self.key_id}))
        signature = self.sign(_message(header, self.canonical(body)))
        return {"jws": f"{header}..{signature}", "kid": self.key_id, "public_key": self.public_key}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checking:
    """What a reader checks signatures with."""

    canonical: Canonical
    verify: Verify
    #: Public keys that are believed, by id.
    keys: Mapping[str, str]

    def standing(self, body: object, given: Any) -> str:
        """Whether the signature is by a key that is believed, or by another; a wrong one is refused."""
        if given is None:
            return ABSENT
        signed = values.an_object(given)
        parts = str(signed.get("jws", "")).split(".")
        public, kid = str(signed.get("public_key", "")), signed.get("kid")
        if len(parts) != 3 or parts[1] or kid is None or self._kid(parts[0]) != kid:
            raise wrong_signature()
        return self.by(public, _message(parts[0], self.spelt(body)), parts[2])

    def spelt(self, body: object) -> bytes:
        """What a signature covers; where that has no canonical bytes, nobody has signed it."""
        try:
            return self.canonical(body)
        except ValueError:
            raise wrong_signature() from None

    def by(self, public: str, message: bytes, signature: str) -> str:
        """The same for a bare signature by a public key."""
        try:
            name = key_name(public)
            is_right = self.verify(message, name, signature, {name: public})
        except ValueError:
            is_right, name = False, ""
        if not is_right:
            raise wrong_signature()
        return VALID if self.keys.get(name) == public else FOREIGN

    def _kid(self, header: str) -> Any:
        try:
            body = values.an_object(json.loads(values.unb64(header)))
        except (ValueError, RecursionError):
            return None
        return body.get("kid") if body.get("alg") in ("EdDSA", "Ed25519") and "crit" not in body else None


def _message(header: str, body: bytes) -> bytes:
    return f"{header}.{values.b64(body)}".encode("ascii")


def key_name(public: str) -> str:
    """The id that follows from a public key; ValueError where it is none."""
    raw = values.unb64(public)
    if len(raw) != 32:
        raise ValueError
    return hashlib.sha256(raw).hexdigest()[:16]


def wrong_signature() -> TamperedError:
    """The file was altered, or signed by somebody else than it says."""
    return TamperedError("The file's signature is wrong.", reason="wrong_signature")


def wrong_digest() -> TamperedError:
    """A part of the file is not what its manifest says."""
    return TamperedError("A part of the file does not have the digest that it should.", reason="wrong_digest")
