"""Which faces a server shows, over one service."""

from __future__ import annotations

from dataclasses import replace

from quipu._version import __version__
from quipu.bootstrap import Running, telemetry
from quipu.bootstrap.mcp import Alone, http_options
from quipu.bootstrap.surroundings import random_bytes
from quipu.config import Config
from quipu.faces.http import openapi_page
from quipu.faces.http.catalogue import Face
from quipu.faces.mcp import routes as mcp
from quipu.faces.memorywire import openapi as memorywire_openapi
from quipu.faces.memorywire import paths as memorywire_paths
from quipu.faces.memorywire import routes as memorywire
from quipu.faces.oap import routes as oap
from quipu.faces.openwop import routes as openwop
from quipu.faces.rest import openapi as rest_openapi
from quipu.faces.rest import routes as rest
from quipu.faces.web import routes as web
from quipu.ports.surroundings import Clock


def faces(running: Running, config: Config, clock: Clock, alone: Alone | None = None) -> list[Face]:
    """Every public contract, and what people are told about it; with `alone`, MCP only."""
    service = running.service
    spoken = mcp.face(service, http_options(config, running, alone), at_once=alone is not None)
    over_mcp = replace(spoken, told={"mcp": mcp.PATH})
    if alone is not None:
        return [over_mcp]
    page = web.face(
        service, clock=clock, random=random_bytes, recent=telemetry.recent(running.parts.observer)
    )
    wire = memorywire.face(service, public_url=config.public_url)
    return [
        replace(page, told={"page": page.prefix}),
        replace(wire, told={"memorywire": memorywire_paths.PREFIX}),
        rest.face(service),
        over_mcp,
        openwop.face(service, running.parts.host, clock, __version__),
        oap.face(service.sharing, service.moves),
        openapi_page.face([memorywire_openapi.described(), rest_openapi.described()], __version__),
    ]
