"""Whether a yes that others still have to join counts when they do."""

from __future__ import annotations

from collections.abc import Sequence

from quipu.model.access import Token
from quipu.model.change import Approval


def stands(given: Approval, tokens: Sequence[Token], now: int) -> bool:
    """Whether nobody has taken the reviewer's credential away since.

    A token that was rotated goes on under the same name, and one that merely expired was good when it was used. Whoever
    has no token here, such as who comes from an identity provider, cannot be told to have lost it.
    """
    own = [token for token in tokens if token.name == given.reviewer]
    taken = [token.revoked_at for token in own if token.revoked_at is not None]
    return all(_goes_on(own, at) for at in taken if given.at <= at <= now)


def _goes_on(own: Sequence[Token], at: int) -> bool:
    return any(
        token.created_at <= at and all(end is None or end > at for end in _ends(token)) for token in own
    )


def _ends(token: Token) -> tuple[int | None, int | None]:
    return token.revoked_at, token.expires_at
