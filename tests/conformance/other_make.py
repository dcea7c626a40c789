"""A memory server of another make: memorywire v0 over HTTP in plain Python, with nothing of Quipu's in it.

It finds by words without their endings. A wrong one is a subclass that breaks one clause.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DAY_MS = 86_400_000
KINDS = ["semantic", "episodic", "procedural", "emotional"]
PATH = "/memorywire/v0/"
_HELD: dict[str, Any] = {"pending_approval": False, "approval_url": None}


class Refused(Exception):
    """The answer is a problem."""

    def __init__(self, status: int, code: str, reason: str) -> None:
        self.status = status
        self.body = {
            "type": f"urn:other:{code}",
            "title": "Refused",
            "status": status,
            "code": code,
            "reason": reason,
            "detail": "That cannot be done.",
            "retryable": False,
            "request_id": "req_1",
        }


def invalid(reason: str) -> Refused:
    return Refused(400, "validation_error", reason)


def now() -> int:
    return int(time.time() * 1000)


def words(content: object) -> set[str]:
    return {re.sub("e?s?$", "", word) for word in re.findall(r"\w+", str(content).lower())}


class OtherMake:
    """Rows in a dict."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def answered(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        name = path.partition("?")[0].removeprefix(PATH)
        try:
            if method == "GET" and name in ("health", "capabilities"):
                return 200, getattr(self, name)()
            if method == "POST" and name in ("remember", "recall", "forget", "merge", "expire", "import"):
                with self._lock:
                    return 200, getattr(self, f"{name}_one" if name == "import" else name)(body)
        except Refused as refused:
            return refused.status, refused.body
        return 404, Refused(404, "not_found", "route").body

    def health(self) -> Any:
        rows = [{"backend": "other", "role": "ledger", "status": "ok"}]
        return {"status": "ok", "backend": "other", "stores": rows}

    def capabilities(self) -> Any:
        return {"capabilities": [*KINDS, "fts"], "types": KINDS, "wire": "memorywire/v0"}

    def remember(self, body: Any) -> Any:
        if body["type"] == "procedural" and "initial" not in str(body["content"]):
            raise invalid("invalid_procedure")
        if not 0 <= body.get("confidence", 1.0) <= 1:
            raise invalid("bad_value")
        with_defaults = {"user_id": None, "metadata": {}, "confidence": 1.0, "expires_at": None}
        row = {"id": f"o-{next(self._ids)}", "created_at": now(), **with_defaults, **body}
        self.rows[row["id"]] = row
        return {"id": row["id"], "stored_at": now(), "stores": ["other"], **_HELD}

    def import_one(self, body: Any) -> Any:
        return {"line": 1, "id": self.remember(body)["id"]}

    def reached(self, body: Any) -> list[dict[str, Any]]:
        since = 0 if body.get("hard_delete") else now()
        return [
            row
            for row in self.rows.values()
            if row["agent_id"] == body["agent_id"]
            and body.get("user_id") in (None, row["user_id"])
            and (row["expires_at"] is None or row["expires_at"] > since)
        ]

    def holds(self, row: dict[str, Any], wanted: Any) -> bool:
        for name, value in (wanted or {}).items():
            if name.startswith("$") or (isinstance(value, dict) and any(key[:1] == "$" for key in value)):
                raise invalid("unknown_operator")
            has = row["metadata"].get(name)
            if name == "tags" and not set([value] if isinstance(value, str) else value) <= set(has or ()):
                return False
            if name != "tags" and json.dumps(has) != json.dumps(value):
                return False
        return True

    def ranked(self, body: Any) -> list[tuple[float, dict[str, Any]]]:
        self.holds({"metadata": {}}, body.get("filter"))
        wanted, since = words(body["query"]), now() - body.get("fresher_than_days", 1 << 20) * DAY_MS
        scored = [
            (len(wanted & words(row["content"])) / len(wanted | words(row["content"])), row)
            for row in self.reached(body)
            if (not body.get("types") or row["type"] in body["types"])
            and row["created_at"] >= since
            and self.holds(row, body.get("filter"))
        ]
        found = [(score, row) for score, row in scored if score]
        return sorted(found, key=lambda one: (-one[0], -one[1]["confidence"], one[1]["id"]))

    def hit(self, row: dict[str, Any], score: float) -> dict[str, Any]:
        is_text = row["type"] != "procedural" or not isinstance(row["content"], str)
        return {
            "id": row["id"],
            "type": row["type"],
            "content": row["content"] if is_text else json.loads(row["content"]),
            "score": score,
            "metadata": row["metadata"],
            "created_at": row["created_at"],
            "supporting": [],
            "source_store": "other",
        }

    def recall(self, body: Any) -> Any:
        if not 1 <= body.get("k", 5) <= 1000:
            raise invalid("bad_value")
        fusion = body.get("fusion", "rrf")
        best = self.ranked(body)[: body.get("k", 5)]
        hits = [
            self.hit(row, 1 / (60 + place) if fusion == "rrf" else score)
            for place, (score, row) in enumerate(best)
        ]
        return {"results": hits, "fusion_used": fusion, "stores_queried": ["other"], "latency_ms": 0}

    def forget(self, body: Any) -> Any:
        ids, wanted = body.get("ids") or [], body.get("filter")
        if not ids and not wanted:
            raise invalid("no_scope")
        self.holds({"metadata": {}}, wanted)
        gone = [
            row["id"]
            for row in self.reached(body)
            if row["id"] in ids or (wanted and self.holds(row, wanted))
        ]
        self.drop(gone)
        rows = [{"store": "other", "count": len(gone), "error": None}]
        return {
            "forgotten_ids": gone,
            "hard_delete": body.get("hard_delete", False),
            "stores": rows,
            **_HELD,
        }

    def merge(self, body: Any) -> Any:
        reached = {row["id"] for row in self.reached(body)}
        if body["canonical"] not in reached:
            raise Refused(404, "not_found", "canonical")
        gone = (set(body["duplicates"]) & reached) - {body["canonical"]}
        self.drop(gone)
        used = body.get("strategy", "keep_canonical")
        told = {"canonical": body["canonical"], "merged_count": len(gone), "strategy_used": used}
        return {**told, "stores": ["other"], **_HELD}

    def expire(self, body: Any) -> Any:
        policy = body.get("policy")
        if not policy:
            raise invalid("empty_policy")
        oldest = now() - policy.get("older_than_days", 0) * DAY_MS
        gone = [
            row["id"]
            for row in self.reached(body)
            if policy.get("type") in (None, row["type"])
            and ("older_than_days" not in policy or row["created_at"] < oldest)
            and row["confidence"] < policy.get("confidence_below", 2)
        ]
        self.drop(gone)
        told = {"matched_count": len(gone), "action_taken": body.get("action", "forget")}
        return {**told, "stores": ["other"], **_HELD}

    def drop(self, ids: Any) -> None:
        for record_id in ids:
            self.rows.pop(record_id)


@contextmanager
def served(memory: OtherMake) -> Iterator[str]:
    """The address under which it answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None: ...

        def _answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, told = memory.answered(self.command, self.path, json.loads(sent) if sent else None)
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header(
                "Content-Type", "application/json" if status < 400 else "application/problem+json"
            )
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
