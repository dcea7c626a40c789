"""Decentralised identifiers, as text and as documents: `did:web` and `did:key` (OAP contract 6.1). Nothing is fetched here.

1. A DID is compared as text; a fragment is cut off before anything else is done with it.
2. A key is only believed if the document of the DID that issued something lists it for that purpose.
3. A retired key stays in the document: `expires` ends its signing, `revoked` also ends what it signed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

from quipu.errors import InvalidError
from quipu.model.value import JsonObject
from quipu.rules import grants_times as times

_WEB = re.compile(r"did:web:[A-Za-z0-9._:%-]+")
_KEY = re.compile(r"did:key:z[1-9A-HJ-NP-Za-km-z]{40,60}")
_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?")
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
#: Multicodec of an Ed25519 public key.
_ED25519 = b"\xed\x01"
LONGEST = 512

CONTEXT = ("https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/jws-2020/v1")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key of somebody's document: its full name, its JWK, and until when it counts, in milliseconds."""

    kid: str
    jwk: Mapping[str, Any]
    expires: int | None = None
    revoked: int | None = None


def split(text: str) -> tuple[str, str]:
    """A DID URL as DID and fragment; the fragment is empty where there is none."""
    did, _, fragment = text.partition("#")
    return did, fragment


def checked(text: object, pointer: str = "") -> str:
    """A plain DID of a method that is known here."""
    if isinstance(text, str) and len(text) <= LONGEST:
        if _KEY.fullmatch(text) and _raw_key(text) is not None:
            return text
        if _WEB.fullmatch(text) and _is_web(text):
            return text
    raise InvalidError.at(
        pointer,
        "bad_did",
        "This is no DID that can be resolved here.",
        accepted=["did:web:HOST", "did:web:HOST:PATH", "did:key:z…"],
    )


def _is_web(did: str) -> bool:
    host, *path = did.removeprefix("did:web:").split(":")
    return bool(_HOST.fullmatch(unquote(host))) and all(
        _SEGMENT.fullmatch(part) and part not in (".", "..") for part in path
    )


def web_of(url: str) -> str:
    """The `did:web` of the host that a URL names."""
    host = url.partition("://")[2].partition("/")[0]
    return f"did:web:{host.replace(':', '%3A')}"


def place(did: str) -> tuple[str, str]:
    """Where a `did:web` document is: host (with its port, if it names one) and path."""
    host, *path = did.removeprefix("did:web:").split(":")
    return unquote(host), "/" + "/".join([*path, "did.json"]) if path else "/.well-known/did.json"


# -- did:key ------------------------------------------------------------------------------------------------------


def key_did(raw: bytes) -> str:
    """The DID that an Ed25519 public key is."""
    number = int.from_bytes(_ED25519 + raw, "big")
    text = ""
    while number:
        number, digit = divmod(number, 58)
        text = _ALPHABET[digit] + text
    return f"did:key:z{text}"


def _raw_key(did: str) -> bytes | None:
    number = 0
    for letter in did.removeprefix("did:key:z"):
        number = number * 58 + _ALPHABET.index(letter)
    data = number.to_bytes(34, "big") if number.bit_length() <= 272 else b""
    return data[2:] if data[:2] == _ED25519 else None


def key_document(did: str, encode: Any) -> dict[str, Any]:
    """The document that a `did:key` stands for; `encode` is base64url."""
    raw = _raw_key(did)
    if raw is None:
        raise InvalidError.at("", "bad_did", "This did:key holds no Ed25519 key.")
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": encode(raw)}
    return document(did, [PublicKey(f"{did}#{did.removeprefix('did:key:')}", jwk)])


# -- documents ----------------------------------------------------------------------------------------------------


def document(
    did: str,
    keys: Sequence[PublicKey],
    agreement: PublicKey | None = None,
    services: Mapping[str, tuple[str, str]] | None = None,
) -> dict[str, Any]:
    """A DID document: signing keys first and newest first; `services` are type → (fragment, address)."""
    methods = [_method(did, key) for key in keys]
    active = [key.kid for key in keys if key.revoked is None]
    made: dict[str, Any] = {
        "@context": list(CONTEXT),
        "id": did,
        "verificationMethod": methods if agreement is None else [*methods, _method(did, agreement)],
        "authentication": active,
        "assertionMethod": list(active),
    }
    if agreement is not None:
        made["keyAgreement"] = [agreement.kid]
    if services:
        made["service"] = [
            {"id": f"{did}#{fragment}", "type": kind, "serviceEndpoint": address}
            for kind, (fragment, address) in services.items()
        ]
    return made


def _method(did: str, key: PublicKey) -> dict[str, Any]:
    _, fragment = split(key.kid)
    jwk = dict(key.jwk)
    if jwk.get("crv") == "Ed25519":
        jwk |= {"alg": "EdDSA", "use": "sig"}
    made: dict[str, Any] = {
        "id": key.kid,
        "type": "JsonWebKey2020",
        "controller": did,
        "publicKeyJwk": {**jwk, "kid": fragment},
    }
    for name, at in (("expires", key.expires), ("revoked", key.revoked)):
        if at is not None:
            made[name] = times.rfc3339(at)
    return made


def key_of(found: JsonObject, did: str, kid: str, purpose: str = "assertionMethod") -> PublicKey | None:
    """The key of that name in the document of `did`, if it is listed for the purpose, or for it was until revoked."""
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


def keys_of(found: JsonObject, did: str, purpose: str = "assertionMethod") -> list[PublicKey]:
    """All keys that a document lists for a purpose."""
    named = [name for name in _listed(found, did, purpose) if name]
    keys = [key_of(found, did, name, purpose) for name in named]
    return [key for key in keys if key is not None]


def fragments_of(found: JsonObject) -> frozenset[str]:
    """What already means a key or a service in a document, and so can be no scope (D4)."""
    named = [*_objects(found.get("verificationMethod")), *_objects(found.get("service"))]
    return frozenset(split(str(entry.get("id", "")))[1] for entry in named) - {""}


def service_of(found: JsonObject, kind: str) -> str | None:
    """The address of a service by its type."""
    for entry in _objects(found.get("service")):
        address = entry.get("serviceEndpoint")
        if entry.get("type") == kind and isinstance(address, str):
            return address
    return None


def _listed(found: JsonObject, did: str, purpose: str) -> list[str]:
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
    if value is None:
        return None
    return (times.instant(value) if isinstance(value, str) else None) or 0


# -- where a request may go ---------------------------------------------------------------------------------------
