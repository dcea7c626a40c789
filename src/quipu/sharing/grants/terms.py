"""What a grant says, and whether it may be registered as far as its words tell. Pure.

Unknown means refused: a member, a condition, a profile or a scope that is not known here is never passed over.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from quipu.errors import Fault
from quipu.fields import DAY_MS, Name, Redact, bad_value, fault
from quipu.operation import Request, invalid
from quipu.sharing import dids
from quipu.sharing.grants.filters import Instant, ItemFilter
from quipu.sharing.grants.profiles import PROFILES
from quipu.sharing.receipts import hashed, without
from quipu.sharing.times import instant

TokenScope: TypeAlias = Literal["memory.query", "memory.embeddings", "memory.export"]
TokenBinding: TypeAlias = Literal["bearer", "dpop"]
LawfulBasis: TypeAlias = Literal[
    "consent", "contract", "legal_obligation", "vital_interests", "public_task", "legitimate_interests"
]

LAWFUL_BASES: tuple[LawfulBasis, ...] = get_args(LawfulBasis)
#: What may be shared at most, by number of items and by days.
MOST_ITEMS, MOST_DAYS = 10_000, 180
QUERY: TokenScope = "memory.query"
EMBEDDINGS: TokenScope = "memory.embeddings"
EXPORT: TokenScope = "memory.export"
DEFAULT_LEVEL = 1
#: Scopes under a professional duty of silence: nothing is shared from them.
PRIVILEGED = frozenset({"attorney-client", "medical", "source-protection", "confessional"})
_SCOPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: Clocks may differ by a minute.
_SKEW_MS = 60_000


def is_scope(text: str) -> bool:
    """Whether a part of a memory can be called so."""
    return _SCOPE.fullmatch(text) is not None


def _granter(text: str) -> str:
    owner, scope_id = dids.split(text)
    if not dids.is_did(owner) or not is_scope(scope_id):
        raise bad_value("a DID with a scope, such as did:web:user.example#personal")
    return text


def _did(text: str) -> str:
    if not dids.is_did(text):
        raise bad_value("did:web:HOST, did:web:HOST:PATH or did:key:z…")
    return text


def _known_profile(text: str) -> str:
    if text not in PROFILES:
        raise fault("profile_unsupported", "", ", ".join(PROFILES))
    return text


def _in_bounds(count: int) -> int:
    if count > MOST_ITEMS:
        raise fault("cap_reached", "", f"1 to {MOST_ITEMS}")
    return count


def _plural(basis: object) -> object:
    """OAP's own example writes the singular."""
    return "legitimate_interests" if basis == "legitimate_interest" else basis


Did: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=dids.LONGEST), AfterValidator(_did), Redact.REFUSE
]
Profile: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=200), AfterValidator(_known_profile), Redact.REFUSE
]
MostItems: TypeAlias = Annotated[int, Field(ge=1), AfterValidator(_in_bounds)]
Level: TypeAlias = Annotated[int, Field(ge=0, le=4)]
Purpose: TypeAlias = Annotated[str, Field(min_length=1, max_length=2000), Redact.REWRITE]


class GrantBody(Request):
    """A grant as it is signed: the members of RFC 0010, and ours, which may be left out."""

    grant_id: Annotated[str, Field(pattern=r"^mgr_[A-Za-z0-9_-]{1,64}$"), Redact.REFUSE]
    granter: Annotated[str, Field(max_length=dids.LONGEST + 65), AfterValidator(_granter), Redact.REFUSE]
    grantee: Did
    purpose: Purpose
    filter: ItemFilter
    max_items: MostItems
    expires_at: Instant
    revocable: Literal[True]
    redaction_profile: Profile
    signature: Annotated[str, Field(max_length=16_384), Redact.NONE] | Annotated[dict[str, Any], Redact.NONE]
    trust_level: Level | None = None
    lawful_basis: Annotated[LawfulBasis, BeforeValidator(_plural)] = "consent"
    scopes: Annotated[tuple[TokenScope, ...], Strict(False), Field(min_length=1, max_length=3)] = (QUERY,)
    binding: TokenBinding = "bearer"
    purpose_code: Name | None = None
    issued_at: Instant | None = None
    revocation_endpoint: Annotated[str, Field(max_length=2000), Redact.REFUSE] | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant: its members, its bytes, and the hash that tokens and receipts name it by."""

    terms: GrantBody
    body: Mapping[str, Any]
    hash: str

    @property
    def id(self) -> str:
        return self.terms.grant_id

    @property
    def owner(self) -> str:
        """The DID of who gives it."""
        return dids.split(self.terms.granter)[0]

    @property
    def scope_id(self) -> str:
        """The part of the memory that it is about."""
        return dids.split(self.terms.granter)[1]

    @property
    def grantee(self) -> str:
        return self.terms.grantee

    @property
    def level(self) -> int:
        return DEFAULT_LEVEL if self.terms.trust_level is None else self.terms.trust_level

    @property
    def expires_at(self) -> int:
        """In milliseconds."""
        return instant(self.terms.expires_at) or 0


def grant_of(body: Mapping[str, Any]) -> Grant:
    """What a body says; InvalidError where it says something that is not understood."""
    return Grant(GrantBody.parse(body), body, hashed(without(body, "signature")))


def check(grant: Grant, now: int, taken: Collection[str]) -> None:
    """Refuse a grant that must not be registered. `taken`: what fragments of the granter's DID mean already."""
    ends = grant.expires_at
    if ends <= now:
        raise _refused("/expires_at", "grant_expired", "a time to come")
    if ends > now + MOST_DAYS * DAY_MS:
        raise _refused("/expires_at", "bad_value", f"at most {MOST_DAYS} days from now")
    issued = grant.terms.issued_at
    if issued is not None and (instant(issued) or 0) > now + _SKEW_MS:
        raise _refused("/issued_at", "bad_value", "a time that has come")
    if grant.scope_id in taken:
        raise _refused("/granter", "bad_value", "a scope that is no name of a key or a service")
    if grant.scope_id in PRIVILEGED:
        raise _refused("/granter", "bad_value", "another scope: nothing is shared from this one")
    if any(scope != grant.scope_id for scope in grant.terms.filter.scope_ids or ()):
        raise _refused("/filter/scope_ids", "bad_value", "only the granter's own scope")


def _refused(pointer: str, reason: str, accepted: str) -> Exception:
    return invalid([Fault(pointer, reason, accepted)])
