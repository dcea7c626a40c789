"""The whole corpus: no secret comes through in any disguise, and nothing else is touched."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from quipu.errors import SecretLeakageError
from quipu.model.operations import RememberRequest
from quipu.model.record import MemoryType
from quipu.rules.detectors import Detectors
from quipu.rules.readings import folded
from quipu.rules.redaction import Policy, Redaction, guarded_request
from quipu.rules.registered import Registered
from quipu.rules.secret_shapes import NAMES
from tests.corpora.secrets import Case, bearing, lookalikes, needles, registered

REDACTION = Redaction((Registered(registered()), Detectors()))
CASES = bearing()
#: One test for all cases of one secret.
GROUPS = {name: list(cases) for name, cases in groupby(CASES, lambda case: case.name.partition(":")[0])}


def strings(value: Any) -> list[str]:
    """Every string and key."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [found for pair in value.items() for part in pair for found in strings(part)]
    return [found for part in value for found in strings(part)] if isinstance(value, list | tuple) else []


def kept(request: RememberRequest) -> list[str]:
    return strings([request.content, request.metadata, request.tags, request.source])


def test_the_corpus_is_large_and_covers_every_class() -> None:
    assert len(CASES) >= 220
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.label for case in CASES} == NAMES | {label for label, _ in registered()}
    assert len(set(lookalikes())) == len(lookalikes()) >= 220


@pytest.mark.parametrize("cases", GROUPS.values(), ids=GROUPS)
def test_no_secret_comes_through(cases: list[Case]) -> None:
    for case in cases:
        clean, found = guarded_request(case.request(), REDACTION)
        assert case.label in found, case.name
        leaves = kept(clean)
        texts = (*leaves, "".join(leaves), folded("".join(leaves)))
        assert not any(needle in text for needle in needles(case.secret) for text in texts), case.name
        assert guarded_request(clean, REDACTION) == (clean, ()), case.name


@pytest.mark.parametrize("cases", GROUPS.values(), ids=GROUPS)
def test_every_one_can_be_refused_without_telling_it(cases: list[Case]) -> None:
    for case in cases:
        with pytest.raises(SecretLeakageError) as raised:
            guarded_request(case.request(), replace(REDACTION, policy=Policy.REJECT))
        told = f"{raised.value} {raised.value.faults} {raised.value.hint}"
        assert not any(needle in told for needle in needles(case.secret)), case.name


@pytest.mark.parametrize("text", lookalikes(), ids=lambda text: text[:40])
def test_a_lookalike_is_remembered_as_it_is(text: str) -> None:
    request = RememberRequest(
        agent_id="ana",
        type=MemoryType.SEMANTIC,
        content=text,
        metadata={"note": text, "list": [text, {"text": f"({text})"}]},
        tags=(text, "other"),
        source=text,
        session_id=text,
    )
    assert guarded_request(request, REDACTION) == (request, ())
