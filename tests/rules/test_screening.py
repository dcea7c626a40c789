"""The quick no: a request is let by at a glance only where the whole search finds nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
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
from quipu.rules.shape_groups import any_of, holds_any
from quipu.rules.shapes import LONG
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


def written(content: str) -> RememberRequest:
    return RememberRequest(agent_id="ana", type=MemoryType.SEMANTIC, content=content)


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


@pytest.mark.parametrize("gap", [" ", "\t", "\n", "\r\n", "  "])
@pytest.mark.parametrize("around", ["{}", "tea {} tea", "{} 00", "00 {}"])
def test_bytes_apart_are_searched_whatever_stands_between_them(gap: str, around: str) -> None:
    key = "ghp_" + "0123456789abcdefABCDEFGHIJKLMNOPQRST"
    same(written(around.format(key.encode().hex(" ").replace(" ", gap))))


@pytest.mark.parametrize("length", [LONG - 1, LONG, LONG + 1, 3 * LONG])
def test_a_secret_that_goes_on_in_the_next_text_is_found_after_a_word_of_any_length(length: int) -> None:
    key = "ghp_" + "a1B2c3D4e5" * 10
    for cut in (4, length):
        request = written(f"it begins with {key[:cut]}")
        same(replace(request, metadata={"rest": key[cut:40]}))
        same(replace(request, metadata={key[cut:40]: "rest"}))
        same(replace(request, tags=(key[cut:40],)))


def test_what_begins_in_a_name_goes_on_nowhere() -> None:
    assert DETECTORS.may_hold(["ghp_a1B2", "c3D4"], [])
    assert not DETECTORS.may_hold(["c3D4"], [], names=["ghp_a1B2"])
    assert not DETECTORS.may_hold(["ghp_a1B2"], [])
    same(replace(written("c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9"), user_id="ghp_a1B2"))


def test_a_secret_in_a_name_is_found_beside_the_plainest_text() -> None:
    for kind in kinds():
        same(replace(written("tea"), user_id=kind.told))
        same(replace(written("tea"), metadata={"number": 1}, session_id=kind.told))


TABLE = [word for shape in SHAPES for word in (*shape.keywords, *shape.signs)]


@given(
    words=st.lists(st.one_of(st.sampled_from(TABLE), st.text("aekz-_.", min_size=1, max_size=4)), max_size=9)
)
@settings(max_examples=150, deadline=None)
def test_any_of_some_words_is_found_where_one_of_them_stands(words: list[str]) -> None:
    pattern = any_of(words)
    for word in TABLE:
        for text in (word, f"x{word}y", word[1:], word[:-1], word.lower()):
            assert (pattern.search(text) is not None) == holds_any(text, words)


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
            "\t",
            "\r\n",
            "\x0b",
            "\x1c",
            "internationalisations",
            "0f8fad5b-d9cb-469f-a165-70867728950e",
        ]
    ),
    st.sampled_from(SECRETS).map(lambda secret: secret.encode().hex(" ")),
    st.sampled_from(SECRETS).map(lambda secret: secret.encode().hex("-")),
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
