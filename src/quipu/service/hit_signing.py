"""Hits that this memory signs, for whoever asks it among others."""

from __future__ import annotations

from dataclasses import replace

from quipu.model.outcomes import RecallResponse
from quipu.ports.parts import Parts
from quipu.rules import signed_hits

#: What the backend is called in its own statements; whoever checks knows it by its key.
_BACKEND = "quipu"


class HitSigning:
    """Signs with the key that signs the journal."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def signed(self, answer: RecallResponse, asked: signed_hits.Asked | None) -> RecallResponse:
        """The answer, each hit made out to who asked. Unsigned where the settings or the asker do not want it."""
        if asked is None or not self._parts.routing.sign_hits:
            return answer
        signer, now = self._parts.signer, self._parts.clock()
        hits = [
            replace(
                hit,
                signature=signed_hits.signed(
                    signed_hits.statement(
                        asked,
                        backend=_BACKEND,
                        rank=rank,
                        id=hit.id,
                        text=signed_hits.text_of(hit.content),
                        at=now,
                    ),
                    signer.key_id,
                    signer.sign,
                    self._parts.canonical,
                ),
            )
            for rank, hit in enumerate(answer.results)
        ]
        return replace(answer, results=tuple(hits))
