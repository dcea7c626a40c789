"""Links that sign in to the web page once, with the rights of a token."""

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from quipu.access.credentials import Credentials, unknown_credential
from quipu.access.model import SIGNIN_LINKS, CreateSigninLinkRequest, SigninLink, SigninLinkResponse
from quipu.access.tokens import Tokens, check_gift, hash_of
from quipu.errors import ConflictError, Fault
from quipu.ledger.ledger import Ledger
from quipu.ledger.reader import Reader
from quipu.model.principal import Principal
from quipu.operation import Context, invalid

LIFE_MS = 15 * 60_000
_TEXT = re.compile(r"ql_([a-z0-9][a-z0-9-]{0,62})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SigninLinks:
    """Made for a token, used once."""

    ledger: Ledger
    tokens: Tokens
    credentials: Credentials
    random: Callable[[int], bytes]
    #: The server's address as people know it, without a slash at the end.
    public_url: str | None = None

    async def create(self, ctx: Context, request: CreateSigninLinkRequest) -> SigninLinkResponse:
        token_id = request.token_id or ctx.principal.token_id
        if token_id is None:
            raise invalid([Fault("/token_id", "missing_field", "the id of a token, see `quipu token list`")])
        return await self.made(ctx.principal, token_id, ctx.clock())

    async def made(self, principal: Principal, token_id: str, now: int) -> SigninLinkResponse:
        """A link for a token whose rights the principal may give."""
        token = await self.tokens.get(principal.tenant, token_id)
        check_gift(principal, token, principal.tenant)
        if not token.is_good(now):
            raise ConflictError("This token has ended.", reason="token_ended")
        text = (
            f"ql_{principal.tenant}_{base64.urlsafe_b64encode(self.random(32)).decode('ascii').rstrip('=')}"
        )
        link = SigninLink(id=hash_of(text), token_id=token.id, expires_at=now + LIFE_MS)
        stale = await self.ledger.page(SIGNIN_LINKS, principal.tenant, limit=100)
        ended = [(one.id,) for one in stale if one.expires_at <= now]
        await self.ledger.update(principal.tenant, SIGNIN_LINKS, link, drop=ended)
        return SigninLinkResponse(
            url=f"{self.public_url or ''}/signin?link={text}", expires_at=link.expires_at
        )

    async def redeemed(self, text: str) -> Principal:
        """Whom the link signs in; from now on it is used. One answer whatever is wrong with it."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise unknown_credential()
        tenant, link_id, now = found[1], hash_of(text), self.credentials.clock()
        if await self.ledger.get(SIGNIN_LINKS, tenant, link_id) is None:  # locking a tenant would make it
            raise unknown_credential()

        def work(reader: Reader) -> tuple[str | None, Sequence[SigninLink]]:
            link = reader.get(SIGNIN_LINKS, link_id)
            if link is None or link.used_at is not None or link.expires_at <= now:
                return None, ()
            return link.token_id, [replace(link, used_at=now)]

        token_id = await self.ledger.revise(tenant, SIGNIN_LINKS, work)
        if token_id is None:
            raise unknown_credential()
        return await self.credentials.of_token(tenant, token_id)
