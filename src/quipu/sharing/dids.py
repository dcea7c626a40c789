"""Decentralised identifiers as text and as documents: `did:web` and `did:key`. Nothing is fetched here.

1. A DID is compared as text; a fragment is cut off before anything else is done with it.
2. A key is only believed if the document of the DID that issued something lists it for that purpose.
3. A retired key stays in the document: `expires` ends its signing, `revoked` also ends what it signed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

from quipu.errors import Fault, InvalidError
from quipu.jose import b64
from quipu.operation import invalid
from quipu.sharing.times import instant, rfc3339

_WEB = re.compile(r"did:web:[A-Za-z0-9._:%-]+")
_KEY = re.compile(r"did:key:z[1-9A-HJ-NP-Za-km-z]{40,60}")
_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?")
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
#: Multicodec of an Ed25519 public key.
_ED25519 = b"\xed\x01"
_CONTEXT = ("https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/jws-2020/v1")
LONGEST = 512


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key of somebody's document: its full name, its JWK, and until when it counts, in milliseconds."""

    kid: str
    jwk: Mapping[str, Any]
    expires: int | None = None
    revoked: int | None = None

    def may_sign_at(self, at: int, now: int) -> bool:
        """Whether what it signed then still counts: retired keys did sign, compromised ones prove nothing any more."""
        return self.revoked is None and (self.expires is None or at <= self.expires or now <= self.expires)


# -- as text ------------------------------------------------------------------------------------------------------


def split(text: str) -> tuple[str, str]:
    """A DID URL as DID and fragment; the fragment is empty where there is none."""
    did, _, fragment = text.partition("#")
    return did, fragment


def is_did(text: object) -> bool:
    """Whether it is a plain DID of a method that is known here."""
    if not isinstance(text, str) or len(text) > LONGEST:
        return False
    if _KEY.fullmatch(text):
        return _raw_key(text) is not None
    return _WEB.fullmatch(text) is not None and _is_web(text)


def checked(text: object, pointer: str = "") -> str:
    """The DID, or InvalidError."""
    if isinstance(text, str) and is_did(text):
        return text
    raise invalid([Fault(pointer, "bad_did", "did:web:HOST, did:web:HOST:PATH or did:key:z…")])


def web_of(url: str) -> str:
    """The `did:web` of the host that an address names."""
    host = url.partition("://")[2].partition("/")[0]
    return f"did:web:{host.replace(':', '%3A')}"


def place_of(did: str) -> tuple[str, str]:
    """Where a `did:web` document is: host (with its port, if it names one) and path."""
    host, *path = did.removeprefix("did:web:").split(":")
    return unquote(host), "/" + "/".join([*path, "did.json"]) if path else "/.well-known/did.json"


def _is_web(did: str) -> bool:
    host, *path = did.removeprefix("did:web:").split(":")
    return bool(_HOST.fullmatch(unquote(host))) and all(
        _SEGMENT.fullmatch(part) and part not in (".", "..") for part in path
    )


# -- did:key ------------------------------------------------------------------------------------------------------


def key_did(raw: bytes) -> str:
    """The DID that an Ed25519 public key is."""
    number = int.from_bytes(_ED25519 + raw)
    text = ""
    while number:
        number, digit = divmod(number, 58)
        text = _ALPHABET[digit] + text
    return f"did:key:z{text}"


def is_key(did: str) -> bool:
    """Whether a DID is a key, and so has no address that anybody could be told something at."""
    return did.startswith("did:key:")


def key_document(did: str) -> dict[str, Any]:
    """The document that a `did:key` stands for."""
    raw = _raw_key(did)
    if raw is None:
        raise InvalidError("This did:key holds no Ed25519 key.", reason="bad_did")
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64(raw)}
    return document(did, [PublicKey(key_kid(did), jwk)])


def key_kid(did: str) -> str:
    """The name of the one key of a `did:key`."""
    return f"{did}#{did.removeprefix('did:key:')}"


def _raw_key(did: str) -> bytes | None:
    number = 0
    for letter in did.removeprefix("did:key:z"):
        number = number * 58 + _ALPHABET.index(letter)
    data = number.to_bytes(34) if number.bit_length() <= 272 else b""
    return data[2:] if data[:2] == _ED25519 else None


# -- documents ----------------------------------------------------------------------------------------------------


def document(
    did: str, keys: Sequence[PublicKey], services: Mapping[str, tuple[str, str]] | None = None
) -> dict[str, Any]:
    """A DID document: newest key first; `services` are type → (fragment, address)."""
    active = [key.kid for key in keys if key.revoked is None]
    made: dict[str, Any] = {
        "@context": list(_CONTEXT),
        "id": did,
        "verificationMethod": [_method(did, key) for key in keys],
        "authentication": active,
        "assertionMethod": list(active),
    }
    if services:
        made["service"] = [
            {"id": f"{did}#{fragment}", "type": kind, "serviceEndpoint": address}
            for kind, (fragment, address) in services.items()
        ]
    return made


def _method(did: str, key: PublicKey) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": key.kid,
        "type": "JsonWebKey2020",
        "controller": did,
        "publicKeyJwk": {**key.jwk, "alg": "EdDSA", "use": "sig", "kid": split(key.kid)[1]},
    }
    for name, at in (("expires", key.expires), ("revoked", key.revoked)):
        if at is not None:
            made[name] = rfc3339(at)
    return made


def key_of(
    found: Mapping[str, Any], did: str, kid: str, purpose: str = "assertionMethod"
) -> PublicKey | None:
    """The key of that name in the document of `did`, if it is listed for the purpose, or was so until it was revoked."""
    if found.get("id") != did:
        return None
    full = kid if "#" in kid else f"{did}#{kid}"
    if split(full)[0] != did:
        return None
    for method in _objects(found.get("verificationMethod")):
        if _absolute(did, method.get("id")) != full:
            continue
        jwk = method.get("publicKeyJwk")
        revoked, expires = (_moment(method.get(name)) for name in ("revoked", "expires"))
        if not isinstance(jwk, Mapping) or method.get("controller", did) != did:
            return None
        if revoked is None and full not in _listed(found, did, purpose):
            return None
        return PublicKey(full, cast("Mapping[str, Any]", jwk), expires, revoked)
    return None


def keys_of(found: Mapping[str, Any], did: str, purpose: str = "assertionMethod") -> list[PublicKey]:
    """All keys that a document lists for a purpose."""
    keys = [key_of(found, did, name, purpose) for name in _listed(found, did, purpose) if name]
    return [key for key in keys if key is not None]


def fragments_of(found: Mapping[str, Any]) -> frozenset[str]:
    """What already means a key or a service in a document, and so can be no scope."""
    named = [*_objects(found.get("verificationMethod")), *_objects(found.get("service"))]
    return frozenset(split(str(entry.get("id", "")))[1] for entry in named) - {""}


def service_of(found: Mapping[str, Any], kind: str) -> str | None:
    """The address of a service by its type."""
    for entry in _objects(found.get("service")):
        address = entry.get("serviceEndpoint")
        if entry.get("type") == kind and isinstance(address, str):
            return address
    return None


def _listed(found: Mapping[str, Any], did: str, purpose: str) -> list[str]:
    given = found.get(purpose)
    entries: Iterable[Any] = cast("list[Any]", given) if isinstance(given, list) else ()
    return [
        _absolute(did, cast("Mapping[str, Any]", entry).get("id") if isinstance(entry, Mapping) else entry)
        for entry in entries
    ]


def _absolute(did: str, name: object) -> str:
    if not isinstance(name, str):
        return ""
    return f"{did}{name}" if name.startswith("#") else name


def _objects(value: object) -> list[Mapping[str, Any]]:
    given: list[Any] = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", entry) for entry in given if isinstance(entry, Mapping)]


def _moment(value: object) -> int | None:
    """A time that cannot be read counts as long past: what is unclear ends a key."""
    return None if value is None else instant(value) or 0
