"""Who is signed in to the page.

- A session is named by 256 random bits in a cookie; the table knows only the hash of that name.
- What was signed in with is sealed with the name, so the table alone gives no credential away.
- It ends after 8 hours without a request, after 24 hours in any case, at sign-out, and when the process ends.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from quipu.faces.web.proofs import Proof
from quipu.ports.surroundings import Clock

IDLE_MS = 8 * 3600 * 1000
LIFE_MS = 24 * 3600 * 1000
#: So many people at once; beyond that the one who has been away longest is signed out.
MOST = 10_000

RandomBytes = Callable[[int], bytes]


@dataclass(slots=True)
class Session:
    """One person at one browser."""

    #: What was signed in with, sealed; None for who is known without signing in.
    sealed: bytes | None = field(repr=False)
    #: Every form of this session carries it.
    csrf: str = field(repr=False)
    began_at: int
    seen_at: int
    #: Said once, on the next page.
    notice: str | None = None
    #: The check of the journal that this person last asked for.
    proof: Proof | None = None
    #: The last decision, while it can be taken back: until when, and which proposal it was on.
    undo: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A session that goes on, and what was signed in with."""

    session: Session
    credential: str | None = field(repr=False)


class Sessions:
    """All sessions of this process."""

    def __init__(self, clock: Clock, random: RandomBytes) -> None:
        self._clock, self._random = clock, random
        self._sessions: dict[str, Session] = {}

    def open(self, credential: str | None) -> str:
        """Begin a session under a new name, and return the name."""
        self._drop_ended()
        name = fresh(self._random)
        now = self._clock()
        if len(self._sessions) >= MOST:
            del self._sessions[min(self._sessions, key=self._worth)]
        self._sessions[_key(name)] = Session(
            sealed=None if credential is None else _sealed(name, credential.encode("utf-8")),
            csrf=fresh(self._random),
            began_at=now,
            seen_at=now,
        )
        return name

    def _worth(self, key: str) -> tuple[bool, int]:
        """Who did not sign in goes first, then who has been away longest."""
        kept = self._sessions[key]
        return kept.sealed is not None, kept.seen_at

    def get(self, name: str) -> Session:
        """A session that was just opened."""
        return self._sessions[_key(name)]

    def find(self, name: str | None) -> Found | None:
        """The session of this name, if it still goes on."""
        session = None if name is None else self._sessions.get(_key(name))
        if session is None or name is None:
            return None
        now = self._clock()
        if _has_ended(session, now):
            self.close(name)
            return None
        session.seen_at = now
        sealed = session.sealed
        return Found(session, None if sealed is None else _sealed(name, sealed).decode("utf-8"))

    def close(self, name: str | None) -> None:
        """End a session. That there is none does no harm."""
        session = None if name is None else self._sessions.pop(_key(name), None)
        if session is not None and session.proof is not None:
            session.proof.stop()

    def _drop_ended(self) -> None:
        now = self._clock()
        self._sessions = {key: kept for key, kept in self._sessions.items() if not _has_ended(kept, now)}

    def __len__(self) -> int:
        return len(self._sessions)


def fresh(random: RandomBytes) -> str:
    """256 random bits as text."""
    return base64.urlsafe_b64encode(random(32)).decode("ascii").rstrip("=")


def _has_ended(session: Session, now: int) -> bool:
    return now - session.seen_at >= IDLE_MS or now - session.began_at >= LIFE_MS


def _key(name: str) -> str:
    return hashlib.sha256(b"session " + name.encode("utf-8", "surrogatepass")).hexdigest()


def _sealed(name: str, text: bytes) -> bytes:
    """Sealed, or opened again. Every name is random and seals one text, so its stream is used once."""
    stream = hashlib.shake_256(b"credential " + name.encode("utf-8", "surrogatepass")).digest(len(text))
    return bytes(one ^ other for one, other in zip(text, stream, strict=True))
