"""What this host tells strangers."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from quipu.errors import InvalidError
from quipu.faces.oap.answering import bare, enveloped
from quipu.service.sharing import Sharing


class Discovery:
    """Documents and manifests."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing

    async def host(self, _request: Request) -> Response:
        """This host's DID document."""
        return bare(await self._sharing.document())

    async def owner(self, request: Request) -> Response:
        """An owner's DID document."""
        return bare(await self._sharing.document(request.path_params["id"]))

    async def tool(self, _request: Request) -> Response:
        """The tool manifest."""
        return bare(self._sharing.tool_manifest())

    async def memory(self, _request: Request) -> Response:
        """The memory manifest of the host's own owner."""
        return bare(await self._sharing.memory_manifest())

    async def owner_memory(self, request: Request) -> Response:
        """The memory manifest of one owner."""
        return bare(await self._sharing.memory_manifest(request.path_params["id"]))

    async def scopes(self, _request: Request) -> Response:
        """Scopes that are public: none, unless an owner says otherwise."""
        manifest = await self._sharing.memory_manifest()
        return bare({"principal": manifest["principal"], "scopes": []})

    async def status(self, request: Request) -> Response:
        """Whether a grant still counts, for whoever knows its id."""
        grant_id = request.query_params.get("grant_id", "")
        if not grant_id:
            raise InvalidError.at("/grant_id", "required", "Name a grant.")
        return bare(await self._sharing.grants.status(grant_id))

    async def described(self, request: Request) -> Response:
        """The one action that anybody may call: what this host is."""
        manifest = self._sharing.tool_manifest()
        output = {name: manifest[name] for name in ("tool", "memory_exchange", "projections")}
        return enveloped(request, self._sharing, output)
