"""A memory of another make: memorywire v0 in plain Python, with nothing of Quipu's in it but the errors of its client.

It finds by words without their endings. A wrong one is a subclass that breaks one clause.
"""

import itertools
import json
import re
from typing import Any

from quipu.client.transport import Call
from quipu.errors import ERRORS, NotFoundError
from quipu.testing.scenarios.subject import DAY_MS, MovedClock

KINDS = ["semantic", "episodic", "procedural", "emotional"]
_PREFIX = "/memorywire/v0/"
_HELD: dict[str, Any] = {"pending_approval": False, "approval_url": None}


def invalid(reason: str) -> Exception:
    return ERRORS["validation_error"]("That cannot be done.", reason=reason)


def words(content: object) -> set[str]:
    return {re.sub("e?s?$", "", word) for word in re.findall(r"\w+", str(content).lower())}


class OtherMake:
    """Rows in a dict."""

    def __init__(self, clock: MovedClock) -> None:
        self.clock = clock
        self.rows: dict[str, dict[str, Any]] = {}
        self._ids = itertools.count(1)

    async def send(self, call: Call) -> Any:
        name = call.path.removeprefix(_PREFIX)
        if call.method == "GET" and name in ("health", "capabilities"):
            return getattr(self, name)()
        if call.method == "POST" and name in ("remember", "recall", "forget", "merge", "expire"):
            return json.loads(json.dumps(getattr(self, name)(dict(call.body or {}))))
        raise NotFoundError(reason="route")

    def health(self) -> Any:
        return {"status": "ok"}

    def capabilities(self) -> Any:
        return {"capabilities": [*KINDS, "fts"]}

    def remember(self, body: Any) -> Any:
        if body["type"] == "procedural":
            self._check_machine(body["content"])
        if not 0 <= body.get("confidence", 1.0) <= 1:
            raise invalid("bad_value")
        with_defaults = {"user_id": None, "metadata": {}, "confidence": 1.0, "expires_at": None}
        row = {"id": f"o-{next(self._ids)}", "created_at": self.clock(), **with_defaults, **body}
        self.rows[row["id"]] = row
        return {"id": row["id"], "stored_at": self.clock(), "stores": ["other"], **_HELD}

    def _check_machine(self, content: Any) -> None:
        try:
            machine = json.loads(content) if isinstance(content, str) else content
            states = set(machine["states"])
            for step in machine["transitions"]:
                guards = [*step.get("conditions", ()), *step.get("unless", ())]
                if not {step["source"], step["dest"]} <= states or "before" in step or "." in "".join(guards):
                    raise invalid("invalid_procedure")
        except (ValueError, KeyError, TypeError):
            raise invalid("invalid_procedure") from None

    def reached(self, body: Any) -> list[dict[str, Any]]:
        since = 0 if body.get("hard_delete") else self.clock()
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
        wanted = words(body["query"])
        since = self.clock() - body.get("fresher_than_days", 1 << 20) * DAY_MS
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
            raise NotFoundError(reason="canonical")
        gone = (set(body["duplicates"]) & reached) - {body["canonical"]}
        self.drop(gone)
        used = body.get("strategy", "keep_canonical")
        told = {"canonical": body["canonical"], "merged_count": len(gone), "strategy_used": used}
        return {**told, "stores": ["other"], **_HELD}

    def expire(self, body: Any) -> Any:
        policy = {name: value for name, value in (body.get("policy") or {}).items() if value is not None}
        if not policy:
            raise invalid("empty_policy")
        oldest = self.clock() - policy.get("older_than_days", 0) * DAY_MS
        gone = [
            row["id"]
            for row in self.reached(body)
            if policy.get("type") in (None, row["type"])
            and ("older_than_days" not in policy or row["created_at"] <= oldest)
            and row["confidence"] < policy.get("confidence_below", 2)
        ]
        self.drop(gone)
        told = {"matched_count": len(gone), "action_taken": body.get("action", "forget")}
        return {**told, "stores": ["other"], **_HELD}

    def drop(self, ids: Any) -> None:
        for record_id in ids:
            self.rows.pop(record_id)
