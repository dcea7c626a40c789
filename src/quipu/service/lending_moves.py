"""Whole memories over memory exchange: out for the owner or under a grant, in for the owner, each on its receipt."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import replace
from functools import partial
from typing import Any

from quipu.errors import ForbiddenError, InvalidError
from quipu.formats.losses import Loss
from quipu.formats.spool import Spool
from quipu.model.disclosure import Question, Standing, Writes
from quipu.model.grants import Lent
from quipu.model.moving import ExportedFile, FileExport, FileImport, Format, ImportReport
from quipu.model.principal import Principal
from quipu.model.value import JsonObject
from quipu.ports.parts import Parts
from quipu.rules import grants, grants_tokens, receipts
from quipu.rules import grants_decisions as decisions
from quipu.rules.grants_exports import AskedExport
from quipu.rules.grants_times import rfc3339
from quipu.service.access import Access
from quipu.service.disclosing import Disclosing
from quipu.service.exporting import Exporting
from quipu.service.exporting_tasks import ExportTasks
from quipu.service.exporting_watch import Watch
from quipu.service.import_register import Imports
from quipu.service.import_tasks import ImportTasks, Outcome
from quipu.service.importing import Importing
from quipu.service.lending import lending_parts, owner_of
from quipu.service.lending_tasks import Who


class Moves:
    """What goes over as a whole."""

    def __init__(
        self,
        parts: Parts,
        access: Access,
        disclosing: Disclosing,
        exporting: Exporting,
        importing: Importing,
        imports: Imports,
    ) -> None:
        self._parts, self._access, self._disclosing = parts, access, disclosing
        self._exporting, self._importing, self._imports = exporting, importing, imports
        #: Files that are made while somebody waits, or asks again later.
        self.tasks = ExportTasks(parts, access, self._made)
        #: Files that are gone through, carried out and undone likewise.
        self.incoming = ImportTasks(parts, access)

    async def close(self) -> None:
        """End what is under way."""
        await self.tasks.close()
        await self.incoming.close()

    # -- out -----------------------------------------------------------------------------------------------------

    async def _made(self, who: Who, asked: AskedExport) -> ExportedFile:
        return await (self.lent(who, asked) if isinstance(who, Lent) else self.exported(who, asked))

    async def exported(self, principal: Principal, asked: AskedExport) -> ExportedFile:
        """The owner's own copy."""
        if asked.trust is not None:
            raise InvalidError.at("/projection", "bad_value", "An owner's own copy is whole.")
        tenant = owner_of(self._access, principal)
        wanted = asked.filter
        made = await self._exporting.made(
            principal,
            FileExport(
                format=asked.format,
                non_exportable=asked.non_exportable,
                receipts=asked.receipts,
                logs=asked.logs,
                grants=asked.grants,
                embeddings=asked.embeddings,
                since=asked.since,
                as_of=None if wanted is None or wanted.as_of is None else rfc3339(wanted.as_of),
                encrypt_to=asked.encrypt_to,
                owner=lending_parts(self._parts).keyring.did(tenant),
            ),
            None if wanted is None else lambda item: grants.admits(wanted, item),
        )
        output = {"export_id": made.report.export_id, "sha256": made.report.sha256}
        await self._receipt(tenant, "memory_export", asked.body, output, {"items": made.report.items})
        return made

    async def lent(self, lent: Lent, asked: AskedExport) -> ExportedFile:
        """A bundle of what a grant shows: with its projection, its cap, and receipts (5.6). No logs, grants or salts."""
        if asked.format is not Format.BUNDLE:
            raise InvalidError.at(
                "/format",
                "unknown_format",
                "What is lent goes out as a bundle, which keeps its proofs.",
                accepted=[Format.BUNDLE],
            )
        if asked.non_exportable or asked.receipts or asked.logs or asked.grants or asked.embeddings:
            raise ForbiddenError("What may not leave is in no grant.", reason="scope_missing")
        if asked.since is not None:
            raise InvalidError.at("/since", "bad_value", "What is lent goes out as it is today.")
        grant = lent.grant
        items: list[dict[str, Any]] = []
        told: list[dict[str, Any]] = []
        applied: dict[str, Any] = {"redacted_field_count": 0}
        async for answer in self._disclosing.export(lent, asked.listed):
            items.extend(answer.output["items"])
            applied = _summed(applied, answer.output["projection_applied"])
            names = ("receipt_id", "input_salt", "output_salt")
            told.append({name: answer.receipt[name] for name in names})
        watch = await Watch.begun(self._parts, lent.tenant)
        covered = await self._disclosing.views.covered(lent.tenant, grant)
        left = {seen.item_id for seen in covered.items.values()}
        request, loss = FileExport(owner=grant.granter, encrypt_to=asked.encrypt_to), Loss()
        with Spool() as spool, Spool() as relations, Spool() as tombstones:
            for item in items:
                if item["item_id"] in left:  # what was erased while the others were shown stays here
                    spool.add(self._exporting.line(item, loss))
            more = {
                "redaction_profile": grant.profile,
                "grant": {
                    "grant_id": grant.id,
                    "grant_hash": grant.hash,
                    "receipts": told,
                    "projection_applied": applied,
                },
            }
            shelf = self._exporting.shelf(request, spool, relations, tombstones, loss, more=more)
            made = await self._exporting.finished(request, shelf)
        return replace(made, still=partial(self._still, watch, lent))

    async def _still(self, watch: Watch, lent: Lent) -> None:
        """Raises once something was erased, or the grant is worth nothing any more: what is being sent ends there."""
        await watch.still()
        kept = await self._parts.ledger.lending.grant(lent.tenant, lent.grant.id)
        grants_tokens.check_standing(kept, self._parts.clock())

    # -- in ------------------------------------------------------------------------------------------------------

    async def tried(
        self,
        principal: Principal,
        pieces: AsyncIterable[bytes],
        request: FileImport,
        root: str,
        *,
        is_later: bool = False,
    ) -> Outcome | dict[str, Any]:
        """What would come in, or the task that finds out; nothing is written. `root` is where this host is asked."""
        owner_of(self._access, principal)
        self.incoming.check_room(principal, is_later=is_later)
        received = await self._importing.received(principal, pieces, request)
        work = self._importing.gone_through(principal, received, request)
        return await self.incoming.tried(principal, work, root, is_later=is_later)

    async def fetched(
        self, principal: Principal, url: str, request: FileImport, root: str, *, is_later: bool = False
    ) -> Outcome | dict[str, Any]:
        """The same of a file at an address."""
        owner_of(self._access, principal)
        self.incoming.check_room(principal, is_later=is_later)
        work = self._importing.fetched(principal, url, request)
        return await self.incoming.tried(principal, work, root, is_later=is_later)

    async def committed(
        self, principal: Principal, import_id: str, root: str, *, is_later: bool = False
    ) -> Outcome | dict[str, Any]:
        """Carry out what was tried: what became of it, or the task that does it."""
        tenant, name = owner_of(self._access, principal), ("commit", import_id)
        work = partial(self._carried_out, principal, tenant, import_id)
        return await self.incoming.once(principal, name, work, root, is_later=is_later)

    async def _carried_out(self, principal: Principal, tenant: str, import_id: str) -> ImportReport:
        """It is joined to the chain by a Migration Receipt (10.3, step 10)."""
        before = await self._parts.ledger.head(tenant)
        report = await self._importing.committed(principal, import_id)
        after = await self._parts.ledger.head(tenant)
        output = {"import_id": report.import_id, "accepted": report.accepted, "sha256": report.sha256}
        heads = {"old_head": f"sha256:{before.hash}", "new_head": f"sha256:{after.hash}"}
        named = f"import:{report.export_id or report.import_id}"
        await self._receipt(tenant, "memory_import", {"import_id": import_id}, output, heads, named)
        return report

    async def rolled_back(
        self, principal: Principal, import_id: str, root: str, *, force: bool, is_later: bool = False
    ) -> Outcome | dict[str, Any]:
        """Undo an import whole (F10): what was undone, or the task that does it."""
        owner_of(self._access, principal)
        name = ("undo with force" if force else "undo", import_id)
        work = partial(self._imports.roll_back, principal, import_id, force=force)
        return await self.incoming.once(principal, name, work, root, is_later=is_later)

    # -- receipts ------------------------------------------------------------------------------------------------

    async def _receipt(
        self,
        tenant: str,
        action: str,
        body: JsonObject,
        output: JsonObject,
        decided: dict[str, Any],
        *tags: str,
    ) -> None:
        """The owner did something with the whole memory: ids, counts and salted hashes."""
        own, now, canonical = lending_parts(self._parts), self._parts.clock(), self._parts.canonical
        owner, salt = own.keyring.did(tenant), receipts.b64(self._parts.mint_salt())

        def decide(standing: Standing) -> Writes:
            made = receipts.receipt(
                standing.end,
                id=self._parts.mint_id("rcp").partition("_")[2],
                type="invocation",
                at=now,
                principal=owner,
                agent=owner,
                hand=own.keyring.hand(None),
                canonical=canonical,
                action_id=action,
                action_version="1.0.0",
                input_hash=receipts.hashed({"input": body, "salt": salt}, canonical),
                output_hash=receipts.hashed({"output": output, "salt": salt}, canonical),
                policy_decisions=[
                    decisions.policy(
                        self._parts.mint_id("pol"), decisions.ALLOW, [decisions.OWNER], **decided
                    )
                ],
                provenance_tags_out=list(tags),
            )
            return Writes(receipts=[made])

        await self._parts.ledger.lending.decide(tenant, Question(now=now), decide)


def _summed(before: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    """What was applied to all batches: each is treated alike, and what was left out adds up."""
    name = "redacted_field_count"
    return {**applied, name: before[name] + applied[name]}
