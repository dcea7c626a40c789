"""The addresses of Quipu's own API."""

from __future__ import annotations

from starlette.routing import Route

from quipu.faces.http.catalogue import Face
from quipu.faces.rest.access import Access
from quipu.faces.rest.consolidation import Consolidations
from quipu.faces.rest.exporting import Exporting
from quipu.faces.rest.governing import Governing
from quipu.faces.rest.graph import Graphs
from quipu.faces.rest.heeding import heeded
from quipu.faces.rest.importing import Importing
from quipu.faces.rest.mirroring import Mirroring
from quipu.faces.rest.paths import PREFIX, STREAMING, UNBOUNDED
from quipu.faces.rest.procedures import Procedures
from quipu.faces.rest.records import Records
from quipu.faces.rest.upkeep import Upkeep
from quipu.service.memory import MemoryService


def face(service: MemoryService) -> Face:
    """What the plumbing needs to know of this face."""
    return Face(name="quipu", routes=routes(service), prefix=PREFIX, streaming=STREAMING, unbounded=UNBOUNDED)


def routes(service: MemoryService) -> list[Route]:
    """Every route. The service is asked at each request, not before."""
    every = [
        *_settling(service),
        *_memory(Records(service)),
        *_moving(Importing(service), Exporting(service)),
        *_ledger(Upkeep(service)),
        *_access(Access(service)),
        *_governing(Governing(service)),
        *_mirroring(Mirroring(service)),
    ]
    return [heeded(route) for route in every]


# `:path`: an id may hold anything, and one that is not there is told as such, not as an address that does not exist.


def _settling(service: MemoryService) -> list[Route]:
    consolidations = Consolidations(service)
    return [
        Route(f"{PREFIX}/records/{{id:path}}/procedure", Procedures(service).show, methods=["GET"]),
        Route(f"{PREFIX}/records/{{id:path}}/neighbours", Graphs(service).around, methods=["GET"]),
        Route(f"{PREFIX}/consolidate", consolidations.consolidate, methods=["POST"]),
        Route(f"{PREFIX}/consolidations/{{id:path}}/undo", consolidations.undo, methods=["POST"]),
    ]


def _memory(records: Records) -> list[Route]:
    return [
        Route(f"{PREFIX}/stores", records.stores, methods=["GET"]),
        Route(f"{PREFIX}/stores", records.create_store, methods=["POST"]),
        Route(f"{PREFIX}/stores/{{name:path}}", records.delete_store, methods=["DELETE"]),
        Route(f"{PREFIX}/records", records.list, methods=["GET"]),
        Route(f"{PREFIX}/records/query", records.query, methods=["POST"]),
        Route(f"{PREFIX}/records/{{id:path}}/history", records.history, methods=["GET"]),
        Route(f"{PREFIX}/records/{{id:path}}", records.get, methods=["GET"]),
        Route(f"{PREFIX}/proposals", records.proposals, methods=["GET"]),
        Route(f"{PREFIX}/proposals/{{id:path}}/decision", records.decide, methods=["POST"]),
        Route(f"{PREFIX}/proposals/{{id:path}}", records.review, methods=["GET"]),
        Route(f"{PREFIX}/export", records.export, methods=["POST"]),
        Route(f"{PREFIX}/import", records.import_lines, methods=["POST"]),
    ]


def _moving(importing: Importing, exporting: Exporting) -> list[Route]:
    return [
        Route(f"{PREFIX}/imports", importing.list, methods=["GET"]),
        Route(f"{PREFIX}/imports", importing.tried, methods=["POST"]),
        Route(f"{PREFIX}/imports/{{id:path}}/commit", importing.commit, methods=["POST"]),
        Route(f"{PREFIX}/imports/{{id:path}}/decision", importing.decide, methods=["POST"]),
        Route(f"{PREFIX}/imports/{{id:path}}/rollback", importing.roll_back, methods=["POST"]),
        Route(f"{PREFIX}/exports", exporting.export, methods=["POST"]),
    ]


def _ledger(upkeep: Upkeep) -> list[Route]:
    return [
        Route(f"{PREFIX}/me", upkeep.me, methods=["GET"]),
        Route(f"{PREFIX}/flush", upkeep.flush, methods=["POST"]),
        Route(f"{PREFIX}/journal", upkeep.journal, methods=["GET"]),
        Route(f"{PREFIX}/journal/head", upkeep.head, methods=["GET"]),
        Route(f"{PREFIX}/journal/export", upkeep.export, methods=["GET"]),
        Route(f"{PREFIX}/verify", upkeep.verify, methods=["POST"]),
        Route(f"{PREFIX}/checkpoints", upkeep.checkpoints, methods=["GET"]),
        Route(f"{PREFIX}/checkpoints", upkeep.sign, methods=["POST"]),
        Route(f"{PREFIX}/keys", upkeep.keys, methods=["GET"]),
        Route(f"{PREFIX}/sweep", upkeep.sweep, methods=["POST"]),
        Route(f"{PREFIX}/statistics", upkeep.statistics, methods=["GET"]),
        Route(f"{PREFIX}/vacuum", upkeep.vacuum, methods=["POST"]),
        Route(f"{PREFIX}/reembed", upkeep.reembed, methods=["POST"]),
        Route(f"{PREFIX}/backup", upkeep.backup, methods=["POST"]),
    ]


def _governing(governing: Governing) -> list[Route]:
    return [
        Route(f"{PREFIX}/recover", governing.recover, methods=["POST"]),
        Route(f"{PREFIX}/webhooks", governing.webhooks, methods=["GET"]),
        Route(f"{PREFIX}/webhooks", governing.add_webhook, methods=["POST"]),
        Route(f"{PREFIX}/webhooks/{{id:path}}/ping", governing.ping_webhook, methods=["POST"]),
        Route(f"{PREFIX}/webhooks/{{id:path}}", governing.remove_webhook, methods=["DELETE"]),
    ]


def _mirroring(mirroring: Mirroring) -> list[Route]:
    return [
        Route(f"{PREFIX}/mirrors", mirroring.list, methods=["GET"]),
        Route(f"{PREFIX}/mirrors/{{name:path}}/verify", mirroring.verify, methods=["POST"]),
        Route(f"{PREFIX}/mirrors/{{name:path}}/resync", mirroring.resync, methods=["POST"]),
    ]


def _access(access: Access) -> list[Route]:
    return [
        Route(f"{PREFIX}/tokens", access.tokens, methods=["GET"]),
        Route(f"{PREFIX}/tokens", access.issue, methods=["POST"]),
        Route(f"{PREFIX}/tokens/{{id:path}}/rotate", access.rotate, methods=["POST"]),
        Route(f"{PREFIX}/tokens/{{id:path}}", access.revoke, methods=["DELETE"]),
        Route(f"{PREFIX}/tenants", access.tenants, methods=["GET"]),
        Route(f"{PREFIX}/tenants", access.create_tenant, methods=["POST"]),
        Route(f"{PREFIX}/tenants/{{id:path}}/suspend", access.suspend, methods=["POST"]),
        Route(f"{PREFIX}/tenants/{{id:path}}/resume", access.resume, methods=["POST"]),
        Route(f"{PREFIX}/secrets", access.secrets, methods=["GET"]),
        Route(f"{PREFIX}/secrets", access.keep_secret, methods=["POST"]),
        Route(f"{PREFIX}/secrets/{{id:path}}", access.drop_secret, methods=["DELETE"]),
    ]
