"""The quick no: a request is let by at a glance only where the whole search finds nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quipu.errors import SecretLeakageError
from quipu.model.operations import RememberRequest
from quipu.model.record import MemoryType
from quipu.rules.detectors import Detectors
from quipu.rules.marking import Piece, Redacted
from quipu.rules.redaction import Batch, Known, Policy, Redaction, Redactor, guarded_request
from quipu.rules.registered import Registered
from quipu.rules.secret_shapes import SHAPES
from quipu.testing.strategies import texts
from tests.corpora.lookalikes import lookalikes
from tests.corpora.secrets import DISGUISES, bearing, kinds, registered

DETECTORS = Detectors()
#: Looks for everything wherever a keyword stands.
SIGNLESS = Detectors(shapes=tuple(replace(shape, signs=()) for shape in SHAPES))
REGISTERED = Registered(registered())


class Thorough:
    """The same detectors, without the glance and without signs."""

    def __call__(self, text: str) -> Redacted:
        return SIGNLESS(text)

    def across(self, row: Sequence[str]) -> list[Piece]:
        return SIGNLESS.across(row)

    def named(self, key: str, text: str) -> Redacted:
        return SIGNLESS.named(key, text)


def outcome(request: RememberRequest, *redactors: Redactor, batch: Batch | None = None) -> object:
    """What a request becomes, or which fields were refused."""
    try:
        return guarded_request(request, Redaction(redactors, Policy.REWRITE), batch)
    except SecretLeakageError as error:
        return error.message, error.faults


def same(request: RememberRequest, batch: Batch | None = None) -> None:
    """Alone, in a batch, and when everything in it has been met before."""
    batch = {} if batch is None else batch
    thorough = outcome(request, Thorough())
    assert outcome(request, DETECTORS) == thorough
    assert outcome(request, DETECTORS, batch=batch) == thorough
    assert outcome(request, DETECTORS, batch=batch) == thorough
    assert outcome(request, REGISTERED, DETECTORS) == outcome(request, REGISTERED, Thorough())


def test_every_secret_of_the_corpus() -> None:
    batch: Batch = {}
    for case in bearing():
        same(case.request(), batch)


def test_look_alikes_are_let_by_at_a_glance_where_the_search_would() -> None:
    batch: Batch = {}
    for text in lookalikes():
        same(RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=str(text)), batch)


def test_plain_prose_is_a_quick_no() -> None:
    prose = ["Ana likes tea more than coffee, and her brother Luis plays the cello.", "ana", "main"]
    assert not DETECTORS.may_hold(prose, ["number", "speaker"])
    known = Known()
    assert not DETECTORS.may_hold(prose, ["number", "speaker"], known)
    assert known.texts == dict.fromkeys(prose, True)
    assert "coffee," in known.words


def test_a_key_that_tells_of_a_secret_is_not_taken_for_the_same_word_in_a_text() -> None:
    known = Known()
    assert not DETECTORS.may_hold(["password"], [], known)
    assert DETECTORS.may_hold(["correct horse battery"], ["password"], known)


def test_digits_alone_are_no_sign_of_a_secret() -> None:
    # A number is let by without a look at the table.
    assert not any(word.isdecimal() for shape in SHAPES for word in shape.keywords)


SECRETS = [kind.told for kind in kinds()]
FRAGMENTS = st.one_of(
    st.sampled_from(SECRETS),
    st.sampled_from(SECRETS).flatmap(
        lambda secret: st.integers(1, len(secret) - 1).map(lambda cut: secret[:cut])
    ),
    st.sampled_from(SECRETS).flatmap(
        lambda secret: st.integers(1, len(secret) - 1).map(lambda cut: secret[cut:])
    ),
    st.tuples(st.sampled_from(SECRETS), st.sampled_from(list(DISGUISES.values()))).map(
        lambda pair: pair[1](pair[0])
    ),
    st.sampled_from(
        [
            "the tea ",
            " is ",
            ": ",
            "=",
            "password",
            "api_key",
            "token",
            "an app ",
            "pass ",
            "\u200b",
            "’",
            "%41",
            "&",
            "\n",
        ]
    ),
    texts(),
)
WORDS = st.lists(FRAGMENTS, min_size=1, max_size=4).map("".join)


@given(
    content=WORDS,
    metadata=st.dictionaries(WORDS, st.one_of(WORDS, st.integers(), st.lists(WORDS, max_size=2)), max_size=3),
    tags=st.lists(WORDS, max_size=3),
    user=st.one_of(st.none(), WORDS),
)
@settings(max_examples=150, deadline=None)
def test_whatever_is_written(
    content: str, metadata: dict[str, Any], tags: list[str], user: str | None
) -> None:
    same(
        RememberRequest(
            agent_id="ana",
            type=MemoryType.SEMANTIC,
            content=content,
            metadata=metadata,
            tags=tuple(tags),
            user_id=user,
        )
    )
