"""Where a page ended: sealed, so that it says nothing to others, and bound to one grant and one query (D10)."""

from __future__ import annotations

import base64
import json

from quipu.errors import InvalidError, QuipuError
from quipu.model.grants import Asked, Lent
from quipu.ports.parts import Parts
from quipu.rules import receipts
from quipu.service.disclosing_coverage import Ranked

_LIFE_MS = 900_000
#: What does not change what a query finds, or in which order.
_BESIDE = ("cursor", "max_results", "include_embeddings", "include_proofs")


class Cursors:
    """Makes and reads them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def after(self, lent: Lent, asked: Asked, last: Ranked) -> str:
        """The place behind an item of the answer."""
        body = {"order": list(last.order), "until": self._parts.clock() + _LIFE_MS}
        sealed = self._parts.sealer.seal(json.dumps(body).encode("utf-8"), self._place(lent, asked))
        return receipts.b64(sealed)

    def opened(self, lent: Lent, asked: Asked) -> tuple[float, str]:
        """Where the page before ended; a cursor of another grant, query or time is none."""
        text = asked.cursor or ""
        try:
            sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            body = json.loads(self._parts.sealer.unseal(sealed, self._place(lent, asked)))
        except (ValueError, QuipuError):
            raise _no_cursor() from None
        if body["until"] < self._parts.clock():
            raise _no_cursor()
        return float(body["order"][0]), str(body["order"][1])

    def _place(self, lent: Lent, asked: Asked) -> bytes:
        about = receipts.without(asked.body, *_BESIDE)
        return b"oap-cursor:" + self._parts.canonical([lent.tenant, lent.grant.id, lent.grant.hash, about])


def _no_cursor() -> InvalidError:
    return InvalidError.at("/cursor", "bad_value", "This is no cursor of ours.")
