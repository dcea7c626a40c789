"""Taking memories out as a file: walked through once, spooled, written in the format that was asked for, signed."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from typing import IO, Any, BinaryIO, cast

from quipu.errors import ConflictError, InvalidError
from quipu.formats import values
from quipu.formats.items import item_of
from quipu.formats.losses import Loss
from quipu.formats.signing import Signing
from quipu.formats.spool import Spool
from quipu.formats.values import Item
from quipu.formats.writing import Shelf, written
from quipu.model.journal import Head
from quipu.model.moving import ExportedFile, ExportReport, FileExport
from quipu.model.moving_formats import WRITTEN, Format
from quipu.model.operations import ListRequest
from quipu.model.principal import Permission, Principal
from quipu.model.record import State
from quipu.model.store import MAIN, Store
from quipu.ports.parts import Parts
from quipu.rules import moments
from quipu.service.access import Access
from quipu.service.exchange import Exchange
from quipu.service.exporting_proofs import Proofs
from quipu.service.exporting_watch import Watch
from quipu.service.import_owners import Passages, Planted, is_planted
from quipu.service.import_placing import UNDONE
from quipu.service.reading import Reading

_SAFE = 2**53 - 1
_PIECE = 1 << 20
#: So often a file is made anew because something was erased meanwhile.
_ATTEMPTS = 5


class Exporting:
    """Writes files of memories."""

    def __init__(
        self, parts: Parts, access: Access, reading: Reading, exchange: Exchange, version: str
    ) -> None:
        self._parts, self._access, self._version = parts, access, version
        self._reading, self._exchange = reading, exchange

    async def made(
        self, principal: Principal, request: FileExport, admits: Callable[[Item], bool] | None = None
    ) -> ExportedFile:
        """The file. It is made whole before its first byte is handed out, and never held in memory.

        `admits` may leave items out. What is erased while the file is made is not in it: it is made anew.
        """
        self._access.authorise(principal, Permission.ADMIN, request.agent_id)
        checked(request)
        since = await self._since(principal.tenant, request)
        for _ in range(_ATTEMPTS):
            watch = await Watch.begun(self._parts, principal.tenant)
            proofs = Proofs(self._parts, principal.tenant, request)
            with Spool() as items, Spool() as relations, Spool() as tombstones, closing(proofs):
                loss = Loss()
                await proofs.begin()
                withheld, stores, scopes = await self._walked(
                    principal, request, items, relations, loss, admits, since, proofs
                )
                if request.format is Format.BUNDLE and request.as_of is None:
                    await self._tombstones(principal, request, tombstones, since)
                await proofs.finish()
                more = {"scopes": scopes, **_course(request, watch.head), **proofs.told()}
                shelf = self.shelf(request, items, relations, tombstones, loss, stores, more)
                shelf = replace(shelf, others=proofs.files(), vectors=proofs.vectors)
                file = await self.finished(request, shelf, withheld)
            if not await watch.erased():
                return replace(file, still=watch.still)
            file.close()
        raise ConflictError("Something is being erased all the time.", reason="erased_meanwhile")

    def shelf(
        self,
        request: FileExport,
        items: Spool,
        relations: Spool,
        tombstones: Spool,
        loss: Loss,
        stores: Sequence[Store] = (),
        more: Mapping[str, Any] | None = None,
    ) -> Shelf:
        """All that a writer needs. `more` goes into the head."""
        return Shelf(
            head={**self._head(request, stores), **(more or {})},
            items=items,
            relations=relations,
            tombstones=tombstones,
            signing=self._signing(),
            loss=loss,
        )

    async def finished(self, request: FileExport, shelf: Shelf, withheld: int = 0) -> ExportedFile:
        """What was spooled, as a file."""
        target: IO[bytes] = tempfile.TemporaryFile(prefix="quipu-export-")  # noqa: SIM115  handed on
        try:
            name, media_type = await asyncio.to_thread(written, cast("BinaryIO", target), request, shelf)
            if request.encrypt_to:
                target = await asyncio.to_thread(self._sealed, target, request.encrypt_to)
                name, media_type = f"{name}.age", "application/octet-stream"
            size, sha256 = await asyncio.to_thread(_measured, cast("BinaryIO", target))
        except BaseException:
            target.close()
            raise
        report = ExportReport(
            export_id=shelf.head["export_id"],
            format=request.format,
            file_name=name,
            media_type=media_type,
            size=size,
            sha256=sha256,
            items=len(shelf.items),
            withheld=withheld,
            loss=shelf.loss.report(),
        )
        return ExportedFile(cast("BinaryIO", target), report)

    def _sealed(self, plain: IO[bytes], recipients: Sequence[str]) -> IO[bytes]:
        """The same, readable only for these."""
        if self._parts.envelope is None:
            raise InvalidError.at("/encrypt_to", "bad_value", "Nothing is sealed here.")
        sealed = tempfile.TemporaryFile(prefix="quipu-export-")  # noqa: SIM115  handed on
        try:
            plain.seek(0)
            self._parts.envelope.seal(cast("BinaryIO", plain), cast("BinaryIO", sealed), recipients)
        except BaseException:
            sealed.close()
            raise
        plain.close()
        return sealed

    async def _walked(
        self,
        principal: Principal,
        request: FileExport,
        items: Spool,
        relations: Spool,
        loss: Loss,
        admits: Callable[[Item], bool] | None,
        since: int,
        proofs: Proofs,
    ) -> tuple[int, Sequence[Store], Sequence[str]]:
        stores = {store.id: store for store in await self._parts.ledger.stores(principal.tenant)}
        owner = self._owner(request)
        used: dict[str, Store] = {}
        scopes: set[str] = set()
        withheld = 0
        wanted = _listing(request, (State.LIVE, State.ARCHIVED))
        async with aclosing(self._exchange.export(principal, wanted)) as records:
            async for record in records:
                if record.born <= since:
                    continue
                store = stores.get(record.store_id)
                item = item_of(record, owner=owner, store=MAIN if store is None else store.name)
                if admits is not None and not admits(item):
                    continue
                if not item["exportable"] and not (
                    request.non_exportable and request.format is Format.BUNDLE
                ):
                    withheld += 1
                    continue
                if store is not None and store.name != MAIN:
                    used[store.id] = store
                scopes.add(item["scope_id"])
                items.add(self.line(item, loss))
                await proofs.item(record, item)
                # Spools are read from their end.
                for link in reversed(record.links):
                    body = {"from": record.id, "to": link.to, "rel": link.rel}
                    relations.add(self.line(body, loss))
        return withheld, sorted(used.values(), key=lambda store: store.name), sorted(scopes)

    async def _since(self, tenant: str, request: FileExport) -> int:
        """The position that a file goes on from; 0 where it holds everything."""
        if request.since is None:
            return 0
        ledger = self._parts.ledger
        head, named = await ledger.head(tenant), moments.as_of(request.since, "/since")
        if isinstance(named, moments.RunStart):
            raise InvalidError.at("/since", "bad_value", "This names no position and no moment.")
        seq = named.seq if isinstance(named, moments.Position) else await ledger.position_at(tenant, named.at)
        # What retention has emptied is still told by its tombstones, so only the future is refused.
        moments.checked_position(max(seq, head.horizon), head, "/since")
        return seq

    async def _tombstones(self, principal: Principal, request: FileExport, spool: Spool, since: int) -> None:
        """What was forgotten or erased, without a word of what it said. An import that was undone leaves none."""
        wanted = _listing(request, (State.FORGOTTEN, State.ERASED))
        planted, passages = Planted(self._parts, principal.tenant), Passages(self._parts, principal.tenant)
        async for record in self._reading.walk(principal, wanted):
            died = record.died or 0
            if died <= since or await planted.is_undone(record):
                continue
            if record.provenance.import_id is not None:
                reasons = await self._parts.ledger.reasons(principal.tenant, record.id)
                if reasons.get(died, "").startswith(UNDONE):
                    continue
            # One that came by an import says when it was deleted where it came from.
            passage = None if is_planted(record) else await passages.at(died)
            at = record.updated_at if passage is None else passage.at
            body = {"item_id": record.id, "hash": record.digest, "deleted_at": values.moment(at)}
            spool.add(self._parts.canonical(body))

    def line(self, item: Item, loss: Loss) -> bytes:
        """A value in the one way it is written."""
        try:
            return self._parts.canonical(item)
        except ValueError:
            return self._parts.canonical(_spelt(item, loss))

    def _head(self, request: FileExport, stores: Sequence[Store]) -> dict[str, Any]:
        return {
            "format": "quipu-bundle",
            "version": 1,
            "export_id": self._parts.mint_id("exp"),
            "exported_at": values.moment(self._parts.clock()),
            "exporter": f"quipu/{self._version}",
            "owner": self._owner(request),
            "export_type": "full",
            "stores": [_store_body(store) for store in stores],
        }

    def _owner(self, request: FileExport) -> str:
        return request.owner or values.did_key(self._parts.signer.public_key)

    def _signing(self) -> Signing:
        signer = self._parts.signer
        return Signing(
            key_id=signer.key_id,
            public_key=signer.public_key,
            sign=signer.sign,
            canonical=self._parts.canonical,
        )


def checked(request: FileExport) -> None:
    """Such a file can be written."""
    if request.format not in WRITTEN:
        raise InvalidError.at(
            "/format", "unknown_format", "No files of this format are written.", accepted=list(WRITTEN)
        )
    if request.as_lines and request.format is not Format.BUNDLE:
        raise InvalidError.at("/as_lines", "bad_value", "Only a bundle can be a stream of lines.")
    if request.since is not None and (request.format is not Format.BUNDLE or request.as_of is not None):
        raise InvalidError.at("/since", "bad_value", "Only a bundle of today can go on from another.")
    for name in ("receipts", "logs", "grants", "embeddings"):
        if getattr(request, name) and request.format is not Format.BUNDLE:
            raise InvalidError.at(f"/{name}", "bad_value", "Only a bundle has room for these.")
    if request.embeddings and request.as_lines:
        raise InvalidError.at(
            "/embeddings", "bad_value", "Vectors are no lines; an archive has room for them."
        )
    if request.base_export_id is not None and request.since is None:
        raise InvalidError.at("/since", "missing_field", "Say where the other export ended.")


def _course(request: FileExport, head: Head) -> dict[str, Any]:
    """Where the file stands among others of its owner: up to where it goes, and where it goes on from."""
    told: dict[str, Any] = {"chain_head": {"seq": head.seq, "hash": f"sha256:{head.hash}"}}
    if request.since is not None:
        told |= {"export_type": "incremental", "since": request.since}
    if request.base_export_id is not None:
        told["base_export_id"] = request.base_export_id[:64]
    return told


def _listing(request: FileExport, states: tuple[State, ...]) -> ListRequest:
    return ListRequest(
        agent_id=request.agent_id,
        user_id=request.user_id,
        store=request.store,
        types=request.types,
        states=states,
        filter=request.filter,
        as_of=request.as_of,
    )


def _store_body(store: Store) -> dict[str, str]:
    body = {
        "name": store.name,
        "scope": store.scope.value,
        "tier": store.tier.value,
        "namespace": store.namespace,
        "description": store.description,
    }
    return {name: value for name, value in body.items() if value is not None}


def _spelt(value: Any, loss: Loss) -> Any:
    """Numbers that canonical JSON cannot hold, as text."""
    if isinstance(value, dict):
        return {name: _spelt(inner, loss) for name, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_spelt(inner, loss) for inner in cast("Sequence[Any]", value)]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE:
        loss.mapped("a number beyond 2^53", "text")
        return str(value)
    return value


def _measured(file: BinaryIO) -> tuple[int, str]:
    file.flush()
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
    size = file.tell()
    file.seek(0)
    return size, digest.hexdigest()
