"""Where the vector of an item that was shown is fetched: it is of the text as it was shown, evidence and all (D16, 7.1).

A vector is fetched without a body, so who was shown an item by evidence, or asked to be shown less of it, finds in the
address what came of that: sealed, bound to one grant and one item, and good no longer than the evidence.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from urllib.parse import quote

from quipu.errors import InvalidError, QuipuError
from quipu.model.grants import Lent, Trust
from quipu.ports.parts import Parts
from quipu.rules import receipts
from quipu.service.lending import lending_parts

_LIFE_MS = 900_000


class Addresses:
    """Makes and reads them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def of(self, lent: Lent, item_id: str) -> str:
        """The address of a vector, for an answer."""
        url = f"{lending_parts(self._parts).public_url}/oap/memory/vec/{item_id}.bin"
        trust = lent.grant.trust
        if trust is None:
            return url
        until = self._parts.clock() + _LIFE_MS
        if trust.vouched_until is not None:
            until = min(until, trust.vouched_until)
        told = [dict(one) for one in trust.told]
        body = {"requested": trust.requested, "vouched": trust.vouched, "told": told, "until": until}
        sealed = self._parts.sealer.seal(json.dumps(body).encode("utf-8"), self._place(lent, item_id))
        return f"{url}?shown={quote(receipts.b64(sealed))}"

    def trusted(self, lent: Lent, item_id: str, shown: str) -> Lent:
        """The same grant, as it was when the item was shown; an address of another grant, item or time is none."""
        try:
            sealed = base64.urlsafe_b64decode(shown + "=" * (-len(shown) % 4))
            body = json.loads(self._parts.sealer.unseal(sealed, self._place(lent, item_id)))
        except (ValueError, QuipuError):
            raise _no_address() from None
        if body["until"] <= self._parts.clock():
            raise _no_address()
        trust = Trust(requested=body["requested"], vouched=body["vouched"], told=tuple(body["told"]))
        return replace(lent, grant=replace(lent.grant, trust=trust))

    def _place(self, lent: Lent, item_id: str) -> bytes:
        return b"oap-vector:" + self._parts.canonical([lent.tenant, lent.grant.id, lent.grant.hash, item_id])


def _no_address() -> InvalidError:
    return InvalidError.at(
        "/shown",
        "bad_value",
        "This is no address of ours any more.",
        hint="Ask for the item again; the answer names the address of its vector.",
    )
