"""What a webhook is sent, how a delivery is signed, and when it is tried again. Pure functions."""

import hashlib
import hmac
from dataclasses import replace
from fnmatch import fnmatchcase

from quipu.governance.model import Proposal
from quipu.governance.webhooks.model import EVENTS, Webhook, WebhookPosition
from quipu.model.journal import Entry
from quipu.model.value import Json, JsonObject

#: Ten seconds, then twice as long each time, up to an hour; after so many tries an event is given up.
_FIRST_MS, _LONGEST_MS = 10_000, 3_600_000
MOST_ATTEMPTS = 16
#: So long nobody else sends to a webhook that somebody is sending to.
LEASE_MS = 60_000


def is_wanted(webhook: Webhook, entry: Entry) -> bool:
    """Whether it asked for the events of this entry."""
    if EVENTS.get(entry.op) not in webhook.events:
        return False
    return "*" in webhook.agents or (
        entry.agent is not None and any(fnmatchcase(entry.agent, pattern) for pattern in webhook.agents)
    )


def body(
    webhook: Webhook,
    tenant: str,
    entry: Entry,
    proposal: Proposal | None,
    public_url: str | None,
    *,
    with_content: bool,
) -> JsonObject:
    """What is sent. No word of a memory is in it, unless it is `with_content`."""
    proposal_id = str(entry.detail.get("proposal", ""))
    said: dict[str, Json] = {
        "id": f"{webhook.id}:{entry.seq}",
        "event": EVENTS[entry.op],
        "at": entry.at,
        "seq": entry.seq,
        "tenant": tenant,
        "agent_id": entry.agent,
        "proposal_id": proposal_id,
        "review_url": None if public_url is None else f"{public_url.rstrip('/')}/review/{proposal_id}",
    }
    if proposal is not None:
        said |= {
            "operation": proposal.operation,
            "writer": proposal.writer,
            "held_by": list(proposal.held_by),
            "status": proposal.status,
            "lapses_at": proposal.lapses_at,
        }
        if with_content and proposal.request:
            said["request"] = {name: value for name, value in proposal.request.items() if value is not None}
    return said


def signature(key: bytes, at_s: int, text: bytes) -> str:
    """The value of the header `Quipu-Signature`: a moment, and a keyed hash of the moment and the body."""
    digest = hmac.new(key, f"{at_s}.".encode() + text, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


def wait_ms(attempts: int) -> int:
    """How long to wait after so many tries."""
    return min(_LONGEST_MS, _FIRST_MS << min(attempts - 1, 20))


def is_due(place: WebhookPosition, now: int) -> bool:
    """Whether its time has come. Nobody waits longer than the longest wait: a clock was wrong that said so."""
    return not 0 < place.next_at - now <= _LONGEST_MS


def is_free(place: WebhookPosition, now: int) -> bool:
    """Whether nobody is sending to it now; who died while sending holds it no longer than the lease."""
    return place.holder is None or not 0 < place.held_until - now <= LEASE_MS


def delivered(place: WebhookPosition, seq: int) -> WebhookPosition:
    """After an event has arrived."""
    return replace(place, position=seq, attempts=0, next_at=0, error=None)


def failed(place: WebhookPosition, seq: int, error: str, now: int) -> WebhookPosition:
    """After an event has not arrived: it is tried again, or given up so that the next one has its turn."""
    attempts = place.attempts + 1
    if attempts >= MOST_ATTEMPTS:
        return replace(place, position=seq, attempts=0, next_at=0, error=error, dropped=place.dropped + 1)
    return replace(place, attempts=attempts, next_at=now + wait_ms(attempts), error=error)
