"""Everything that another product's own store holds, whoever wrote it: run as a program, by the interpreter that has its package.

Standard input: one line of JSON, {"scheme", "place", "parameters"}. Standard output: a line for each thing, [array, member]: as
the product's own dump names them, which `formats` reads. Nothing of Quipu is imported: vendors' environments have none of it.
"""

import asyncio
import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

_PAGE = 100
_TIMEOUT_S = 60
Told = Iterator[tuple[str, dict[str, Any]]]


def mem0(scheme: str, place: str, parameters: dict[str, str]) -> Told:
    """What `get_all()` answers, of every user and agent. The folder of a local Qdrant, or a database."""
    collection = parameters.get("collection", "mem0")
    rows = _qdrant(place or "/tmp/qdrant", collection) if scheme == "mem0" else _pgvector(place, collection)  # noqa: S108  mem0's own default
    for native_id, payload in rows:
        known = (
            "user_id",
            "agent_id",
            "run_id",
            "created_at",
            "updated_at",
            "data",
            "hash",
            "text_lemmatized",
        )
        memory = {"id": native_id, "memory": payload.get("data")}
        memory |= {name: payload[name] for name in known[:5] if payload.get(name) is not None}
        metadata = {name: value for name, value in payload.items() if name not in known}
        yield "results", {**memory, "metadata": metadata}


def _qdrant(folder: str, collection: str) -> Iterator[tuple[str, dict[str, Any]]]:
    _check_folder(folder)
    client: Any = import_module("qdrant_client").QdrantClient(path=folder)
    offset: Any = None
    while True:
        points, offset = client.scroll(collection, limit=_PAGE, offset=offset, with_payload=True)
        yield from ((str(point.id), point.payload or {}) for point in points)
        if offset is None:
            return


def _pgvector(address: str, collection: str) -> Iterator[tuple[str, dict[str, Any]]]:
    psycopg: Any = import_module("psycopg")
    with psycopg.connect(f"postgresql://{address}") as connection, connection.cursor("listing") as cursor:
        table = import_module("psycopg.sql").Identifier(collection)
        cursor.execute(
            import_module("psycopg.sql").SQL("SELECT id, payload FROM {} ORDER BY id").format(table)
        )
        yield from ((str(native_id), payload) for native_id, payload in cursor)


def langgraph(scheme: str, place: str, parameters: dict[str, str]) -> Told:
    """The rows of a store on SQLite or PostgreSQL."""
    columns = ("prefix", "key", "value", "created_at", "updated_at")
    statement = f"SELECT {', '.join(columns)} FROM store ORDER BY prefix, key"  # noqa: S608  names of ours
    if scheme == "langgraph+sqlite":
        _check_folder(str(Path(place).parent))
        connection: Any = import_module("sqlite3").connect(
            f"{Path(place).absolute().as_uri()}?mode=ro", uri=True
        )
        rows = connection.execute(statement)
    else:
        connection = import_module("psycopg").connect(f"postgresql://{place}")
        rows = connection.cursor("listing")
        rows.execute(statement)
    for row in rows:
        yield "items", dict(zip(columns, row, strict=True))


def graphiti(scheme: str, place: str, parameters: dict[str, str]) -> Told:
    """Nodes, edges and episodes of a Kuzu database, which is not changed."""
    _check_folder(str(Path(place).parent))
    kuzu: Any = import_module("kuzu")
    connection = kuzu.Connection(kuzu.Database(place, read_only=True))

    def rows(statement: str) -> Iterator[dict[str, Any]]:
        found = connection.execute(statement)
        while found.has_next():
            row = dict(zip(found.get_column_names(), found.get_next(), strict=True))
            body = {**row.pop("it"), **row}
            if isinstance(body.get("attributes"), str):
                body["attributes"] = json.loads(body["attributes"] or "{}")
            yield {
                name: value
                for name, value in body.items()
                if name[0] != "_" and not name.endswith("_embedding")
            }

    for kind, array in (("Entity", "nodes"), ("Episodic", "episodes")):
        yield from ((array, body) for body in rows(f"MATCH (it:{kind}) RETURN it"))
    ends = "MATCH (a:Entity)-[:RELATES_TO]->(it:RelatesToNode_)-[:RELATES_TO]->(b:Entity)"
    edges = rows(f"{ends} RETURN it, a.uuid AS source_node_uuid, b.uuid AS target_node_uuid")
    yield from (("edges", body) for body in edges)


def cognee(scheme: str, place: str, parameters: dict[str, str]) -> Told:
    """The records of Cognee's own export, dataset by dataset. Its environment says where its folders are."""
    _check_folder(place)
    package: Any = import_module("cognee")
    check: Any = import_module("cognee.context_global_variables")

    async def matches(_: Any) -> None:
        """Which model made the vectors does not matter: none is read."""

    check.ensure_embedding_model_matches = matches

    async def exported(target: Path) -> None:
        await import_module("cognee.modules.engine.operations.setup").setup()
        for dataset in await package.datasets.list_datasets():
            if parameters.get("dataset") in (None, dataset.name):
                await package.export(dataset.name, format="cogx", destination=target / str(dataset.id))

    with tempfile.TemporaryDirectory() as folder_:
        asyncio.run(exported(Path(folder_)))
        for file in sorted(Path(folder_).rglob("*.jsonl")):
            with file.open(encoding="utf-8") as lines:
                yield from ((file.stem, json.loads(line)) for line in lines)


def letta(scheme: str, place: str, parameters: dict[str, str]) -> Told:
    """Agents with their blocks and passages, and the passages of archives, of a server."""
    password, _, host = place.rpartition("@")
    is_near = host.partition(":")[0] in ("", "default", "localhost", "127.0.0.1")
    host = "127.0.0.1:8283" if host in ("", "default") else host
    base = f"{'http' if is_near or scheme == 'letta+http' else 'https'}://{host}/v1"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def asked(path: str, body: Any = None, **query: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{base}{path}?{urlencode(query)}", data)  # noqa: S310  the address that was asked for
        request.add_header("Content-Type", "application/json")
        if password:
            request.add_header("Authorization", f"Bearer {password.rpartition(':')[2]}")
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            return json.load(answer)

    def pages(path: str) -> Iterator[dict[str, Any]]:
        after: dict[str, str] = {}
        while page := asked(path, limit=_PAGE, **after):
            yield from page
            after = {"after": page[-1]["id"]}

    seen: set[str] = set()
    for agent in pages("/agents/"):
        at = f"/agents/{quote(agent['id'])}"
        passages = list(pages(f"{at}/archival-memory"))
        seen |= {passage["id"] for passage in passages}
        blocks = asked(f"{at}/core-memory/blocks", limit=_PAGE)
        yield "agents", {"name": agent.get("name"), "blocks": blocks, "passages": passages}
    for archive in pages("/archives/"):
        start: dict[str, Any] = {}
        while True:
            body = {"archive_id": archive["id"], "limit": _PAGE, **start}
            found = [one["passage"] for one in asked("/passages/search", body)]
            fresh = [passage for passage in found if passage["id"] not in seen]
            yield from (("passages", passage) for passage in fresh)
            seen |= {passage["id"] for passage in fresh}
            if not fresh or len(found) < _PAGE:  # it answers a hundred at most, the oldest first
                break
            start = {"start_date": found[-1]["created_at"]}


def _check_folder(folder: str) -> None:
    """Vendors make what is not there, and then it is empty."""
    if not Path(folder).is_dir():
        raise FileNotFoundError(folder)


def _plain(value: Any) -> str:
    """Times, ids, and text that a database keeps as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


READERS: dict[str, Callable[[str, str, dict[str, str]], Told]] = {
    **dict.fromkeys(("mem0", "mem0+postgresql"), mem0),
    **dict.fromkeys(("langgraph+sqlite", "langgraph+postgresql"), langgraph),
    **dict.fromkeys(("letta", "letta+http"), letta),
    "cognee": cognee,
    "graphiti": graphiti,
}
#: How the program ends where the package is missing, and where there is nothing at the place.
NO_PACKAGE, NO_PLACE = 3, 4


def main() -> None:
    """Vendors print: they are given standard error for that."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asked = json.loads(sys.stdin.readline())
    try:
        for told in READERS[asked["scheme"]](asked["scheme"], asked["place"], asked["parameters"]):
            out.write(json.dumps(told, default=_plain) + "\n")
    except ImportError:
        sys.exit(NO_PACKAGE)
    except FileNotFoundError:
        sys.exit(NO_PLACE)
    out.close()


if __name__ == "__main__":
    main()
