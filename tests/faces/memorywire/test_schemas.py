"""The published schemas: valid, connected, found, and true to the contract's examples."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from quipu.errors import NotFoundError
from quipu.faces.memorywire.schemas import DIALECT, URN, folder, names, schema
from tests.faces.memorywire.shapes import problems, registry
from tests.requirement import requirement

PUBLISHED = {
    "operations/remember", "operations/remember.response", "operations/recall", "operations/recall.response",
    "operations/forget", "operations/forget.response", "operations/merge", "operations/merge.response",
    "operations/expire", "operations/expire.response", "operations/remember_batch",
    "operations/remember_batch.response", "types/semantic", "types/episodic", "types/procedural",
    "types/emotional", "governance/review", "governance/decision", "governance/decision.response", "filter",
    "procedure", "problem", "change", "health", "capabilities",
    # what the REST binding answers with beyond the contract's list
    "operations/import.response", "history", "governance/reviews", "governance/rules", "audit",
}  # fmt: skip

MACHINE = {
    "name": "return-parcel",
    "initial": "asked",
    "states": ["asked", "labelled", "shipped", "refunded", "dropped"],
    "transitions": [
        {"trigger": "label", "source": "asked", "dest": "labelled"},
        {"trigger": "ship", "source": "labelled", "dest": "shipped"},
        {"trigger": "refund", "source": "shipped", "dest": "refunded", "conditions": "goods_intact"},
        {"trigger": "drop", "source": "*", "dest": "dropped"},
    ],
    "current": "asked",
    "metadata": {"version": "1.0.0"},
}
PROBLEM = {
    "type": "urn:quipu:error:validation_error",
    "title": "The request is not valid",
    "status": 400,
    "code": "validation_error",
    "reason": "unknown_field",
    "detail": "Unknown field. Did you mean approval_required?",
    "errors": [
        {"pointer": "/approval_requird", "reason": "unknown_field", "accepted": ["approval_required"]}
    ],
    "retryable": False,
    "request_id": "req_1",
}
STORED = {
    "id": "mem_1",
    "stored_at": 1780000000000,
    "stores": ["sqlite", "mem0"],
    "pending_approval": False,
    "approval_url": None,
    "extensions": {"quipu": {"seq": 4182, "version": 1, "outcome": "created", "stores_pending": ["letta"]}},
}
REMEMBER = {"agent_id": "a", "type": "semantic", "content": "x"}
REVIEW = {
    "operation": "remember",
    "agent_id": "a",
    "request": REMEMBER,
    "diff": {"added": [REMEMBER], "removed": [], "modified": []},
    "id": "prp_1",
    "status": "pending",
    "held_by": ["caller"],
    "writer": "w",
    "created_at": 1,
    "lapses_at": 2,
    "etag": "e",
}
EVENT = {
    "seq": 3,
    "at": 4,
    "op": "remembered",
    "agent_id": "a",
    "store": "main",
    "records": [{"id": "mem_1", "version": 1, "type": "semantic"}],
    "cause": None,
}
LEDGER_STATE = {
    "backend": "sqlite",
    "role": "ledger",
    "status": "ok",
    "lag": 0,
    "breaker": "closed",
    "latency_ms": 0.4,
}
HEALTH = {"status": "ok", "backend": "quipu", "stores": [LEDGER_STATE], "version": "0.1", "seq": 3, "time": 5}
CAPABILITIES = {
    "capabilities": ["semantic", "fts", "vector"],
    "types": ["semantic", "episodic", "procedural", "emotional"],
    "operations": ["remember", "recall"],
    "wire": "memorywire/v0",
    "stores": {"sqlite": {"role": "ledger", "capabilities": ["semantic"]}},
    "limits": {"content": 1048576},
    "embedder": {"model": "m", "dimensions": 384},
    "extensions": {"quipu": 1},
}

HOLDS: dict[str, tuple[str, object]] = {
    "a procedure": ("procedure", MACHINE),
    "a problem": ("problem", PROBLEM),
    "a remember response with the opt-in": ("operations/remember.response", STORED),
    "a batch with one answer and one error": (
        "operations/remember_batch.response",
        {"results": [{"index": 0, "response": STORED}, {"index": 1, "error": PROBLEM}]},
    ),
    "a review": ("governance/review", REVIEW),
    "a plain yes": ("governance/decision", {"approved": True}),
    "a yes with an edit": (
        "governance/decision",
        {"approved": True, "etag": "e", "edit": {"content": "better"}},
    ),
    "a yes that merges": ("governance/decision", {"approved": True, "merge_into": {"canonical": "mem_1"}}),
    "a yes that supersedes": ("governance/decision", {"approved": True, "supersedes": ["mem_1"]}),
    "a no": ("governance/decision", {"approved": False, "reason": "wrong", "edit": None}),
    "a decision response": (
        "governance/decision.response",
        {"approved": True, "reviewer": "p", "reviewed_at": 1, "reason": None},
    ),
    "a change": ("change", EVENT),
    "health": ("health", HEALTH),
    "health for strangers": ("health", {"status": "degraded", "backend": "quipu"}),
    "capabilities": ("capabilities", CAPABILITIES),
    "a filter of equalities": ("filter", {"type": "semantic", "topic": None, "nested": {"a": 1}}),
    "a filter with tags": ("filter", {"tags": ["a", "b"]}),
    "a filter with operators": ("filter", {"n": {"$gt": 1, "$lte": "z"}, "$not": {"m": {"$exists": True}}}),
    "a filter of filters": ("filter", {"$or": [{"a": 1}, {"$and": [{"b": {"$in": [1, None]}}]}]}),
}

FAILS: dict[str, tuple[str, object]] = {
    "a procedure with a callback": ("procedure", MACHINE | {"before": "os.system"}),
    "a transition with a callback": (
        "procedure",
        MACHINE | {"transitions": [{"trigger": "t", "source": "asked", "dest": "asked", "after": "f"}]},
    ),
    "a procedure without states": ("procedure", MACHINE | {"states": []}),
    "a state twice": ("procedure", MACHINE | {"states": ["asked", "asked"]}),
    "a state named by a wildcard": ("procedure", MACHINE | {"states": ["*"]}),
    "a state with a control character": ("procedure", MACHINE | {"states": ["a\nb"]}),
    "a state that ends in a newline": ("procedure", MACHINE | {"initial": "asked\n"}),
    "a guard with dots": (
        "procedure",
        MACHINE | {"transitions": [{"trigger": "t", "source": "*", "dest": "asked", "unless": ["os.x"]}]},
    ),
    "a guard with two underscores": (
        "procedure",
        MACHINE | {"transitions": [{"trigger": "t", "source": "*", "dest": "asked", "unless": "__x"}]},
    ),
    "a list of sources": (
        "procedure",
        MACHINE | {"transitions": [{"trigger": "t", "source": ["asked"], "dest": "asked"}]},
    ),
    "an unknown operator": ("filter", {"a": {"$regex": "x"}}),
    "an unknown connective": ("filter", {"$nor": [{"a": 1}]}),
    "operators mixed with keys": ("filter", {"a": {"$gt": 1, "b": 2}}),
    "an empty $and": ("filter", {"$and": []}),
    "an empty $in": ("filter", {"a": {"$in": []}}),
    "a comparison with a list": ("filter", {"a": {"$gt": [1]}}),
    "an unknown operator deep inside": ("filter", {"$or": [{"$not": {"a": {"$like": 1}}}]}),
    "a recall with a bad filter": ("operations/recall", {"agent_id": "a", "query": "q", "filter": {"$x": 1}}),
    "a no with an edit": ("governance/decision", {"approved": False, "edit": {"content": "better"}}),
    "a review of a bad request": ("governance/review", REVIEW | {"request": {"agent_id": "a"}}),
    "a problem with memory text in it": ("problem", PROBLEM | {"content": "secret"}),
    "a problem with an unknown code": ("problem", PROBLEM | {"code": "oops"}),
    "a batch answer with neither": ("operations/remember_batch.response", {"results": [{"index": 0}]}),
    "a change with content": ("change", EVENT | {"content": "secret"}),
    "a response with another member": ("operations/remember.response", STORED | {"seq": 1}),
}


def references(node: object) -> Iterator[str]:
    """Every reference inside a schema."""
    if isinstance(node, dict):
        yield from (node["$ref"] for _ in [1] if isinstance(node.get("$ref"), str))
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from references(item)


@requirement("memorywire:schema.2020-12")
def test_the_published_names_are_those_of_the_contract_and_of_the_rest_binding() -> None:
    assert set(names()) == PUBLISHED


@requirement("memorywire:schema.2020-12")
@pytest.mark.parametrize("name", names())
def test_a_schema_is_valid_2020_12_under_its_own_urn(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))
    assert (schema(name)["$schema"], schema(name)["$id"]) == (DIALECT, URN + name)


@requirement("memorywire:schema.2020-12")
@pytest.mark.parametrize("name", names())
def test_every_reference_leads_to_a_schema(name: str) -> None:
    resolver = registry().resolver(schema(name)["$id"])
    for reference in references(schema(name)):
        assert isinstance(resolver.lookup(reference).contents, dict)


@requirement("memorywire:schema.2020-12")
def test_records_of_all_types_share_their_common_fields() -> None:
    semantic = schema("types/semantic")["properties"]
    for kind in ("episodic", "emotional", "procedural"):
        own = schema(f"types/{kind}")
        shared = {name: own["properties"][name] for name in semantic if name not in ("type", "content")}
        assert shared == {name: field for name, field in semantic.items() if name in shared}
        assert own["required"] == schema("types/semantic")["required"]


@requirement("memorywire:schema.examples")
@pytest.mark.parametrize("case", HOLDS.values(), ids=HOLDS)
def test_an_example_of_the_contract_is_valid(case: tuple[str, object]) -> None:
    assert problems(*case) == []


@requirement("memorywire:schema.examples")
@pytest.mark.parametrize("case", FAILS.values(), ids=FAILS)
def test_a_planted_mistake_is_not_valid(case: tuple[str, object]) -> None:
    assert problems(*case)


@requirement("memorywire:schema.examples")
def test_the_examples_inside_the_schemas_are_valid() -> None:
    for example in schema("filter")["examples"]:
        assert problems("filter", example) == []


@requirement("memorywire:schema.found")
def test_an_unknown_schema_is_not_found() -> None:
    for name in ("operations/remind", "", "../pyproject", "operations/remember.json"):
        with pytest.raises(NotFoundError) as refusal:
            schema(name)
        assert refusal.value.reason == "schema"


@requirement("memorywire:schema.found")
def test_an_installed_package_brings_its_schemas_along(tmp_path: Path) -> None:
    here = Path(str(folder()))
    shutil.copytree(here.parent / "src" / "quipu", tmp_path / "quipu")
    shutil.copytree(here, tmp_path / "quipu" / "schemas")
    program = "from quipu.faces.memorywire import schemas; print(schemas.folder(), len(schemas.names()))"
    answer = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert answer.stdout.split() == [str(tmp_path / "quipu" / "schemas"), str(len(PUBLISHED))]


@requirement("memorywire:schema.found")
def test_the_wheel_is_told_to_take_the_schemas() -> None:
    text = (Path(str(folder())).parent / "pyproject.toml").read_text("utf-8")
    assert '"schemas" = "quipu/schemas"' in text


@requirement("memorywire:schema.2020-12")
def test_a_schema_file_is_utf_8_json_without_duplicate_names() -> None:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    for file in Path(str(folder())).rglob("*.json"):
        json.loads(file.read_text("utf-8"), object_pairs_hook=once)
