"""Mirrors: copies of the ledger elsewhere, each behind its guard."""

from quipu.bootstrap.places import is_memory, sqlite_path
from quipu.config import Settings, data_dir
from quipu.embed.port import Embedder
from quipu.memory.memory_store import MemoryStore
from quipu.mirrors.copies import Mirror
from quipu.mirrors.guard import GuardedBackend, Patience
from quipu.mirrors.registry import MirrorAddress, OpenMemory, adapter_at
from quipu.telemetry.settings import Propagating


def mirror_of(settings: Settings, ledger: str, embedder: Embedder | None, place: MirrorAddress) -> Mirror:
    """A mirror behind its guard, not opened yet. `ledger`: the address of what it mirrors."""
    beside = None if is_memory(ledger) else sqlite_path(ledger)
    if beside is None:
        folder = data_dir() / "mirrors" / place.name
    else:
        folder = beside.with_name(f"{beside.name}.mirror-{place.name}")
    backend = adapter_at(place, folder=folder, open_memory=other_memories(settings), embedder=embedder)
    return Mirror(
        name=place.name,
        backend=GuardedBackend(place.name, backend, patience=Patience(search_s=place.deadline_ms / 1000)),
        shown=place.shown,
        weight=place.weight,
        has_own_contents=place.contents == "own",
    )


def other_memories(settings: Settings) -> OpenMemory:
    """How mirrors reach other ledgers and servers of ours: with these settings, but for what belongs to one place."""
    own = settings.model_copy(update={"mirrors": (), "rules": None, "sealing_key": None, "signing_key": None})
    #: What is done in a mirror is part of what is done here, so it is not reported once more.
    silent = own.model_copy(update={"telemetry": False})

    def made(address: str, *, token: str | None, embedder: Embedder | None) -> MemoryStore:
        from quipu.api import Memory, connect  # above them, and only a mirror needs them here

        if address.lower().startswith(("http://", "https://")):
            return connect(address, token=token, retries=0, config=own, telemetry=Propagating())
        return Memory(stores=address, embedder=Lent(embedder) if embedder else "none", config=silent)

    return made


class Lent:
    """An embedder for somebody who does not close it."""

    def __init__(self, inner: Embedder) -> None:
        self.model, self.dimensions, self.calibration = inner.model, inner.dimensions, inner.calibration
        self.embed, self.clear = inner.embed, inner.clear

    async def close(self) -> None:
        """It is still in use."""
