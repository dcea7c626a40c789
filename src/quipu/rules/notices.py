"""Notices to other machines: what is told, how it is signed, when it is tried again, and where it may go."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from quipu.errors import InvalidError
from quipu.model.change import Proposal
from quipu.model.journal import Entry, Op
from quipu.model.notices import Event, Webhook
from quipu.model.value import Json

#: Ten seconds, then twice as long each time, up to an hour; after so many tries a notice is given up.
_FIRST_MS, _LONGEST_MS = 10_000, 3_600_000
MOST_ATTEMPTS = 16
_LONGEST_URL = 2_000
_EVENTS: Mapping[Op, Event] = {Op.HOLD: Event.HELD, Op.DECIDE: Event.DECIDED}


def event_of(entry: Entry) -> Event | None:
    """What a notice about this entry would tell; None where nobody is told of such."""
    return _EVENTS.get(entry.op)


def is_wanted(webhook: Webhook, entry: Entry) -> bool:
    """Whether it asked to be told of this."""
    event = event_of(entry)
    if event is None or event not in webhook.events or entry.agent is None:
        return False
    return any(fnmatchcase(entry.agent, glob) for glob in webhook.agents)


def body(webhook: Webhook, entry: Entry, proposal: Proposal | None, address: str) -> dict[str, Json]:
    """What is told. Without a word of the memory, unless the webhook is one that gets it."""
    name = str(entry.detail.get("proposal", ""))
    told: dict[str, Json] = {
        "id": f"{webhook.id}:{entry.seq}",
        "event": str(event_of(entry)),
        "at": entry.at,
        "seq": entry.seq,
        "tenant": entry.tenant,
        "agent_id": entry.agent,
        "proposal_id": name,
        "review_url": f"{address.rstrip('/')}/review/{name}" if address else None,
    }
    for key in ("operation", "held_by", "approved", "closed_by"):
        if key in entry.detail:
            told[key] = entry.detail[key]
    if proposal is not None:
        told |= {"writer": proposal.writer, "status": proposal.status, "lapses_at": proposal.lapses_at}
        if webhook.with_content and proposal.request:
            told["request"] = {key: value for key, value in proposal.request.items() if value is not None}
    return told


def signature(key: bytes, at_s: int, text: bytes) -> str:
    """The value of the header `Quipu-Signature`: a moment, and a keyed hash of the moment and the body."""
    digest = hmac.new(key, f"{at_s}.".encode() + text, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


def wait_ms(attempts: int) -> int:
    """How long to wait after so many tries."""
    return min(_LONGEST_MS, _FIRST_MS << min(attempts - 1, 20))


def is_due(webhook: Webhook, now: int) -> bool:
    """Whether its time has come. Nobody waits for longer than the longest wait: a clock was wrong that said so."""
    return not 0 < webhook.next_at - now <= _LONGEST_MS


def checked_url(text: str) -> str:
    """An address that notices may be sent to, as far as its words tell."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _bad("This is no address.") from None
    if len(text) > _LONGEST_URL or not text.isprintable() or " " in text:
        raise _bad("This is no address.")
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise _bad("An address begins with https://.")
    if parts.username is not None or parts.password is not None:
        raise _bad("An address holds no credentials; notices are signed.")
    if parts.fragment:
        raise _bad("An address has no fragment.")
    try:
        parts.hostname.encode("idna")
    except UnicodeError:
        raise _bad("No host can have this name.") from None
    return text


def _bad(message: str) -> InvalidError:
    return InvalidError.at("/url", "bad_value", message, accepted=["https://host/path"])
