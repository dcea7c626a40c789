"""OAP's addresses for the OpenAPI document."""

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.routing import BaseRoute, Route

from quipu.sharing.wire import MEDIA_TYPE

#: What each is for, and whether anybody may ask.
_SAID: Mapping[tuple[str, str], tuple[str, bool]] = {
    ("GET", "/.well-known/did.json"): ("The keys of this host.", True),
    ("GET", "/owners/{path}/did.json"): ("The keys of an owner.", True),
    ("GET", "/.well-known/oap-memory.json"): ("What this host shares, and how to ask for it.", True),
    ("GET", "/owners/{path}/oap-memory.json"): ("What an owner shares, and how to ask for it.", True),
    ("GET", "/.well-known/oap-tool.json"): ("Memory as a tool of OAP.", True),
    ("GET", "/oap-conformance-receipt.json"): ("What OAP's own tests said of this host.", True),
    ("GET", "/.well-known/oap-revocation"): ("Whether a grant counts: `grant_id` says which.", True),
    ("POST", "/oap/memory/query"): ("Ask for memory under a grant.", False),
    ("POST", "/oap/memory/grant"): ("Draft a grant, or bring one that its owner has signed.", False),
    ("GET", "/oap/memory/grant"): ("List the grants that you have given.", False),
    ("DELETE", "/oap/memory/grant"): ("Take back every grant.", False),
    ("POST", "/oap/memory/grant/preview"): ("What a grantee would see of each item.", False),
    ("GET", "/oap/memory/grant/{id}"): ("Show a grant, and what it has shown.", False),
    ("DELETE", "/oap/memory/grant/{id}"): ("Take a grant back, or give it up.", False),
    ("POST", "/oap/memory/grant/{id}/token"): ("A token for a grant.", False),
    ("POST", "/oap/memory/import"): ("Try a file: what would come in.", False),
    ("POST", "/oap/memory/import/{id}/commit"): ("Carry an import out.", False),
    ("POST", "/oap/memory/import/{id}/undo"): ("Take back what an import brought.", False),
    ("POST", "/oap/memory/export"): ("Everything as a file, or what a grant shows.", False),
    ("GET", "/oap/memory/item/{id}/log"): ("The log of an item that was shown: hashes.", False),
    ("GET", "/oap/memory/vec/{id}.bin"): ("The vector of an item that was shown.", False),
    ("GET", "/oap/audit"): ("Receipts: yours, those that name you, or of calls that anybody made.", True),
    ("POST", "/oap/incident"): ("Report that something went wrong.", False),
    ("POST", "/oap/invoke"): ("Public facts about this host: `describe_service`.", True),
    ("POST", "/oap/data/delete"): ("Delete what is here, and what others were shown of it.", False),
}
_JSON = "application/json"
#: What answers with a file, and what takes one.
_FILE, _UPLOAD = "/oap/memory/export", "/oap/memory/import"
_ID, _TEXT = {"type": "string", "minLength": 1}, {"type": "string"}
_TOLD = {"OAP-Version": "The version that is spoken.", "OAP-Request-Id": "The id of the request."}
_ENVELOPE: dict[str, Any] = {
    "type": "object",
    "required": ["oap_version", "request_id", "response_id", "timestamp", "status", "signature"],
    "properties": {
        "oap_version": _TEXT,
        "request_id": _ID,
        "response_id": _ID,
        "timestamp": {"type": "string", "format": "date-time"},
        "status": {"enum": ["ok", "accepted", "error"]},
        "signature": {},
    },
}
_ERROR: dict[str, Any] = {
    **_ENVELOPE,
    "required": [*_ENVELOPE["required"], "error"],
    "properties": {
        **_ENVELOPE["properties"],
        "status": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {"code": _ID, "message": _TEXT, "details": {"type": "object"}},
        },
    },
}


def described(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Paths in OpenAPI's form."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, Route):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                path = route.path.replace(":path}", "}")
                paths.setdefault(path, {})[method.lower()] = _described(method, path)
    return paths


def _described(method: str, path: str) -> dict[str, Any]:
    said, is_public = _SAID.get((method, path), ("", False))
    is_bare = (is_public and path != "/oap/invoke") or path.endswith("/token")
    words = "".join(letter if letter.isalnum() else "_" for letter in path).strip("_")
    names = [part.partition("}")[0] for part in path.split("{")[1:]]
    places = [(name, "path") for name in names] + [("grant_id", "query")] * path.endswith("revocation")
    headers = {name: {"description": text, "required": True, "schema": _ID} for name, text in _TOLD.items()}
    answer = {_JSON: {"schema": {"type": "object"}}} if is_bare else {MEDIA_TYPE: {"schema": _ENVELOPE}}
    if path == _FILE or path.endswith(".bin"):
        answer = {"*/*": {"schema": _TEXT}}
    item: dict[str, Any] = {
        "operationId": f"oap_{method.lower()}_{words}",
        "tags": ["oap"],
        "summary": said,
        "parameters": [
            {"name": name, "in": place, "required": True, "schema": _ID} for name, place in places
        ],
        "responses": {
            "2XX": {"description": "Done.", "headers": headers, "content": answer},
            "default": {
                "description": "Refused.",
                "headers": headers,
                "content": {MEDIA_TYPE: {"schema": _ERROR}},
            },
        },
    }
    if method == "POST":
        sent = {"*/*": {"schema": _TEXT}} if path == _UPLOAD else {_JSON: {"schema": {"type": "object"}}}
        item["requestBody"] = {"content": sent}
    return item | {"security": []} if is_public else item
