"""The whole corpus: no secret comes through in any disguise, and nothing else is touched."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quipu.errors import SecretLeakageError
from quipu.secrets.decoded import Decoded, folded
from quipu.secrets.detectors import Detectors
from quipu.secrets.redaction import Guard
from quipu.secrets.registered import Registered, compiled
from quipu.secrets.shapes import NAMES
from tests.secrets.corpus import DISGUISES, Case, Note, cases, kinds, needles, registered
from tests.secrets.lookalikes import lookalikes

GUARD = Guard(registered=compiled(registered()))
CASES = cases()


def strings(value: Any) -> list[str]:
    """Every string and key."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [found for pair in value.items() for part in pair for found in strings(part)]
    return [found for part in value for found in strings(part)] if isinstance(value, list | tuple) else []


def comes_through(case: Case, note: Note) -> bool:
    """Whether the secret can still be read, in one field or over several."""
    texts = strings([note.content, note.metadata, note.tags, note.source])
    joined = "".join(texts)
    return any(needle in text for needle in needles(case.secret) for text in (*texts, joined, folded(joined)))


def test_the_corpus_is_large_and_covers_every_label() -> None:
    assert len(CASES) >= 2_000
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.label for case in CASES} == NAMES | {one.label for one in registered()}
    assert len(set(lookalikes())) == len(lookalikes()) >= 220


def test_no_secret_comes_through() -> None:
    clean = {case.name: GUARD.clean(case.note) for case in CASES}
    assert [case.name for case in CASES if comes_through(case, clean[case.name])] == []
    assert [case.name for case in CASES if f"<REDACTED:{case.label}>" not in repr(clean[case.name])] == []
    assert [name for name, note in clean.items() if GUARD.clean(note) is not note] == []


def test_every_one_can_be_refused_without_showing_it() -> None:
    reject = replace(GUARD, policy="reject")
    accepted: list[str] = []
    shown: list[str] = []
    for case in CASES:
        try:
            reject.clean(case.note)
            accepted.append(case.name)
        except SecretLeakageError as error:
            text = f"{error} {error.faults} {error.hint}"
            shown.extend(case.name for needle in needles(case.secret) if needle in text)
    assert accepted == []
    assert shown == []


def test_no_lookalike_is_touched() -> None:
    touched: list[str] = []
    for text in lookalikes():
        note = Note(
            content=text,
            metadata={"note": text, "list": [text, {"text": f"({text})"}]},
            tags=(text, "other"),
            source=text,
            session_id=text,
        )
        try:
            touched.extend([text] if GUARD.clean(note) is not note else [])
        except SecretLeakageError:
            touched.append(text)
    assert touched == []


class Everywhere(Registered):
    """Values are looked for in every text."""

    def may_find(self, texts: Iterable[str]) -> bool:
        return True


class Thorough(Detectors):
    """The same detectors, without the quick no."""

    def is_clear(self, decoded: Decoded) -> bool:
        return False

    def may_begin(self, texts: Sequence[str]) -> bool:
        return True


THOROUGH = Guard(registered=Everywhere({one.value: one.label for one in registered()}), detectors=Thorough())


def outcome(guard: Guard, note: Note) -> object:
    try:
        return guard.clean(note)
    except SecretLeakageError as error:
        return error.faults


def test_the_quick_no_is_right_for_the_whole_corpus() -> None:
    notes = [case.note for case in CASES]
    notes += [Note(content=text, metadata={text: text}) for text in lookalikes()]
    notes += [Note(session_id=kind.text) for kind in kinds()]
    assert [note for note in notes if outcome(GUARD, note) != outcome(THOROUGH, note)] == []


SECRETS = [*(kind.text for kind in kinds()), *(one.value for one in registered())]
FRAGMENTS = st.one_of(
    st.sampled_from(SECRETS),
    st.tuples(st.sampled_from(SECRETS), st.integers(1, 40)).map(lambda pair: pair[0][: pair[1]]),
    st.tuples(st.sampled_from(SECRETS), st.integers(1, 40)).map(lambda pair: pair[0][pair[1] :]),
    st.tuples(st.sampled_from(SECRETS), st.sampled_from(list(DISGUISES.values()))).map(
        lambda pair: pair[1](pair[0])
    ),
    st.sampled_from(
        ("the tea ", " is ", ": ", "=", "password", "api_key", "token", "\u200b", "%41", "&", "\n")
    ),
    st.sampled_from(("%", "41", "\\", "u0041", "\u2019", "internationalisations", "\r\n", "\t", "=\n")),
    st.text(max_size=10),
)
WRITTEN = st.lists(FRAGMENTS, min_size=1, max_size=4).map("".join)


@given(
    content=WRITTEN,
    metadata=st.dictionaries(WRITTEN, WRITTEN | st.integers() | st.lists(WRITTEN, max_size=2), max_size=3),
    tags=st.lists(WRITTEN, max_size=3),
    session=st.none() | WRITTEN,
)
def test_the_quick_no_is_right_whatever_is_written(
    content: str, metadata: dict[str, Any], tags: list[str], session: str | None
) -> None:
    note = Note(content=content, metadata=metadata, tags=tuple(tags), session_id=session)
    assert outcome(GUARD, note) == outcome(THOROUGH, note)
