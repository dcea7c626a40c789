"""Tokens, sessions and links as they are kept, and what the operations of access take and give."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, Strict

from quipu.access.budgets import RECALL_USES
from quipu.fields import Count, Cursor, Expiry, Integer, Name, Names, Redact, bad_value
from quipu.ledger.table import Table
from quipu.model.principal import Permission
from quipu.operation import Request, Response

#: What somebody is here to do; each stands for a set of permissions (`rules.permissions_of`).
Role: TypeAlias = Literal["agent", "reviewer", "operator", "admin"]
PermissionName: TypeAlias = Literal[
    "memory:read",
    "memory:write",
    "memory:delete",
    "memory:review",
    "memory:admin",
    "tenant:manage",
    "server:operate",
]
#: What makes a second reviewer. Where Quipu runs, so that the token is made by nobody who writes: what a principal wrote is
#: not approved with a token that it made.
SECOND_REVIEWER = "quipu token create NAME --roles reviewer"
#: Everything of its kind.
ANY = ("*",)


# -- what is kept -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A credential as it is kept: everything but its text, of which there is only a hash."""

    id: str
    #: SHA-256 of the text, hexadecimal.
    hash: str
    #: Whom the journal names. No two good tokens of a tenant have the same; a rotated token keeps it.
    name: str
    #: The beginning of the text, to tell tokens apart by.
    prefix: str
    permissions: tuple[str, ...]
    agents: tuple[str, ...] = ANY
    default_agent: str | None = None
    user_id: str | None = None
    created_at: int
    #: Who created or rotated it, and with which token, if with one.
    created_by: str
    created_by_token: str | None = None
    expires_at: int | None = None
    revoked_at: int | None = None
    #: Requests per minute and memories per hour; None: the server's own limits.
    rate: int | None = None
    recall_budget: int | None = None
    review_stores: tuple[str, ...] = ANY
    review_operations: tuple[str, ...] = ANY

    @property
    def granted(self) -> frozenset[Permission]:
        return frozenset(Permission(name) for name in self.permissions)

    def is_good(self, now: int) -> bool:
        return all(end is None or end > now for end in (self.revoked_at, self.expires_at))


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSession:
    """Somebody who is signed in to the web page. The id is the SHA-256 of the cookie."""

    id: str
    token_id: str | None = None
    #: An OIDC principal, sealed with the server's key.
    principal: bytes | None = None
    csrf: str
    created_at: int
    seen_at: int
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SigninLink:
    """A link that signs in to the web page once. The id is the SHA-256 of its text."""

    id: str
    token_id: str
    expires_at: int
    used_at: int | None = None


TOKENS = Table("token", Token, key=("id",), unique=("hash",))
WEB_SESSIONS = Table("web_session", WebSession, key=("id",), is_journaled=False)
SIGNIN_LINKS = Table("signin_link", SigninLink, key=("id",), is_journaled=False)
TABLES: tuple[Table[Any], ...] = (TOKENS, RECALL_USES, WEB_SESSIONS, SIGNIN_LINKS)


# -- fields -------------------------------------------------------------------------------------------------------

#: Names that mean somebody else in the journal. Who signs in by OIDC is `oidc:…`, which no token can be called.
RESERVED_NAMES = frozenset({"local", "system"})


def _not_reserved(name: str) -> str:
    if name.lower() in RESERVED_NAMES:
        raise bad_value("a name other than local and system")
    return name


#: It also stands in the text of the tenant's tokens.
TenantName = Annotated[
    str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", min_length=1, max_length=63), Redact.REFUSE
]
TokenName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._@+-]{0,99}$", min_length=1, max_length=100),
    AfterValidator(_not_reserved),
    Redact.REFUSE,
]
Patterns = Annotated[Names, Field(min_length=1, max_length=64)]
Rate = Annotated[Integer, Field(ge=1, lt=2**31)]
#: At most thirty days.
Grace = Annotated[Integer, Field(ge=0, le=30 * 86_400_000)]


class _ForTenant(Request):
    """A request about the tokens of a tenant."""

    tenant: TenantName | None = Field(
        default=None, description="Another tenant than your own; needs the permission server:operate."
    )


# -- requests and answers -----------------------------------------------------------------------------------------


class WhoamiRequest(Request):
    """Show who you are here, what you may do and what is left of your budgets."""


class WhoamiResponse(Response):
    """Who asks."""

    tenant: str = Field(description="The tenant that the credential belongs to.")
    name: str = Field(description="Whom the journal names.")
    permissions: tuple[PermissionName, ...] = Field(description="What the credential may do.")
    agents: tuple[str, ...] = Field(description="Patterns of the agents it may act for.")
    default_agent: str | None = Field(
        default=None, description="The agent it acts for where a request names none."
    )
    user_id: str | None = Field(
        default=None, description="The only user whose memories it reaches; none: all users."
    )
    review_stores: tuple[str, ...] = Field(description="Patterns of the stores it sees and decides on.")
    review_operations: tuple[str, ...] = Field(description="The operations it decides on.")
    rate: int | None = Field(default=None, description="Requests it may send a minute; none: no limit.")
    recall_left: int | None = Field(
        default=None, description="Memories it may still be given this hour; none: no limit."
    )
    solo: bool = Field(
        description="True: nobody else may review here, so it may approve what it wrote itself."
    )
    makers: tuple[str, ...] = Field(
        description="Of who reviews: by whom the credential was made, directly or not. What they wrote it does not approve."
    )
    expires_at: int | None = Field(
        default=None, description="When the credential ends; milliseconds since 1970."
    )


class TokenView(Response):
    """A token without its text."""

    id: str = Field(description="Its id.")
    name: str = Field(description="Whom the journal names.")
    prefix: str = Field(description="The beginning of its text, to recognise it by.")
    permissions: tuple[PermissionName, ...] = Field(description="What it may do.")
    agents: tuple[str, ...] = Field(description="Patterns of the agents it may act for.")
    default_agent: str | None = Field(
        default=None, description="The agent it acts for where a request names none."
    )
    user_id: str | None = Field(
        default=None, description="The only user whose memories it reaches; none: all users."
    )
    created_at: int = Field(description="Milliseconds since 1970.")
    created_by: str = Field(description="Who created or rotated it.")
    expires_at: int | None = Field(default=None, description="When it ends by itself.")
    revoked_at: int | None = Field(default=None, description="When it was, or will be, revoked.")
    rate: int | None = Field(default=None, description="Requests a minute; none: the server's own limit.")
    recall_budget: int | None = Field(
        default=None, description="Memories an hour; none: the server's own limit."
    )
    review_stores: tuple[str, ...] = Field(description="Patterns of the stores it sees and decides on.")
    review_operations: tuple[str, ...] = Field(description="The operations it decides on.")
    is_good: bool = Field(description="Whether it is accepted now.")


class IssuedTokenResponse(Response):
    """A new token with its text, which is shown this once."""

    token: TokenView = Field(description="The token.")
    text: str = Field(description="What to show the server. It cannot be shown again.", repr=False)


class CreateTokenRequest(_ForTenant):
    """Create a token. Its text is shown once.

    It may do what its roles may do, and the permissions that are named besides. Nobody can give more than they may do
    themselves. A token of role agent cannot also review.
    """

    name: TokenName = Field(description="Whom the journal will name: letters, digits, spaces and . _ @ + -")
    roles: Annotated[tuple[Role, ...], Strict(False), Field(max_length=4)] = Field(
        default=(),
        description="agent: read, write and delete memories; reviewer: read and decide; operator: run the server;"
        " admin: everything within the tenant.",
    )
    permissions: Annotated[tuple[PermissionName, ...], Strict(False), Field(max_length=7)] = Field(
        default=(), description="Permissions besides those of the roles."
    )
    agents: Patterns = Field(
        default=ANY, description="Patterns of the agents it may act for, such as shop-*; * is all."
    )
    default_agent: Name | None = Field(
        default=None,
        description="The agent it acts for where a request names none. Left out, the only exact name in `agents`.",
    )
    user_id: Name | None = Field(
        default=None, description="The only user whose memories it reaches. Left out, all users."
    )
    expires_at: Expiry | None = Field(
        default=None, description="When it ends: milliseconds since 1970, or a duration such as 30d."
    )
    rate: Rate | None = Field(
        default=None, description="Requests a minute. Left out, the server's own limit."
    )
    recall_budget: Rate | None = Field(
        default=None, description="Memories an hour. Left out, the server's own limit."
    )
    review_stores: Patterns = Field(
        default=ANY, description="Patterns of the stores it sees and decides on; * is all."
    )
    review_operations: Patterns = Field(
        default=ANY, description="The operations it decides on, such as remember; * is all."
    )


class ListTokensRequest(_ForTenant):
    """List the tokens of the tenant, also those that have ended, without their texts."""

    cursor: Cursor | None = Field(default=None, description="Where the page before ended.")
    limit: Count = Field(default=100, description="How many to list at most.")


class ListTokensResponse(Response):
    """A page of tokens, oldest first."""

    tokens: tuple[TokenView, ...] = Field(description="The tokens.")
    next_cursor: str | None = Field(
        default=None, description="Where the next page begins; none: this is the last one."
    )


class RevokeTokenRequest(_ForTenant):
    """End a token now. Ending it twice does no harm."""

    id: Name = Field(description="The token's id.")


class RotateTokenRequest(_ForTenant):
    """Give a token a new text, which is shown once. The old text ends now, or after a grace."""

    id: Name = Field(description="The token's id.")
    grace_ms: Grace = Field(
        default=0, description="How long the old text is still accepted, in milliseconds; at most 30 days."
    )


class CreateSigninLinkRequest(Request):
    """Create a link that signs in to the web page with the rights of a token. It works once, for 15 minutes."""

    token_id: Name | None = Field(
        default=None, description="The token to sign in with. Left out, the one that asks."
    )


class SigninLinkResponse(Response):
    """A link that works once."""

    url: str = Field(
        description="Where to open it; a path where the server does not know its own address.", repr=False
    )
    expires_at: int = Field(description="Until when it works; milliseconds since 1970.")


class TenantView(Response):
    """A tenant."""

    tenant: str = Field(description="Its name.")
    created_at: int = Field(description="Milliseconds since 1970.")
    suspended_at: int | None = Field(
        default=None, description="Since when none of its credentials is accepted; none: they are."
    )


class CreateTenantRequest(Request):
    """Create a tenant: memories, stores, tokens and a journal that nobody else reaches."""

    tenant: TenantName = Field(description="Its name: lower-case letters, digits and hyphens, at most 63.")


class ListTenantsRequest(Request):
    """List the tenants of this server."""

    cursor: Cursor | None = Field(default=None, description="Where the page before ended.")
    limit: Count = Field(default=100, description="How many to list at most.")


class ListTenantsResponse(Response):
    """A page of tenants in the order of their names."""

    tenants: tuple[TenantView, ...] = Field(description="The tenants.")
    next_cursor: str | None = Field(
        default=None, description="Where the next page begins; none: this is the last one."
    )


class SuspendTenantRequest(Request):
    """Refuse all credentials of a tenant from now on. Nothing is lost."""

    tenant: Name = Field(description="The tenant's name.")


class ResumeTenantRequest(Request):
    """Accept the credentials of a suspended tenant again."""

    tenant: Name = Field(description="The tenant's name.")
