"""Records and responses of the model, of every form they can take."""

import json
from typing import Any

from hypothesis import strategies as st

from quipu.model.operations import ExpireAction, Fusion, MergeStrategy
from quipu.model.outcomes import (
    ExpireResponse,
    ForgetResponse,
    ForgetRow,
    Hit,
    MergeResponse,
    RecallResponse,
    RememberResponse,
)
from quipu.model.record import (
    Link,
    MemoryType,
    PrivacyIntent,
    Provenance,
    Record,
    Sensitivity,
    State,
    Tier,
    Trust,
)
from tests.faces.memorywire.shapes import OBJECTS, TEXT

WORD = TEXT.filter(bool)
WORDS = st.lists(WORD, max_size=3).map(tuple)
TIMES = st.integers(0, 2**45)
UNIT = st.floats(0, 1)
MACHINES = st.builds(
    lambda states, trigger: {
        "name": "p",
        "initial": states[0],
        "states": states,
        "transitions": [{"trigger": trigger, "source": states[0], "dest": states[-1]}],
        "current": states[0],
    },
    st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=3, unique=True),
    st.text("abc", min_size=1, max_size=3),
)
DETAILS: dict[MemoryType, st.SearchStrategy[dict[str, Any]]] = {
    MemoryType.SEMANTIC: st.just({}),
    MemoryType.PROCEDURAL: st.just({}),
    MemoryType.EPISODIC: st.fixed_dictionaries(
        {}, optional={"event_time": TIMES, "location": TEXT, "participants": st.lists(TEXT, max_size=2)}
    ),
    MemoryType.EMOTIONAL: st.fixed_dictionaries(
        {},
        optional={
            "sentiment": st.sampled_from(["positive", "negative", "neutral", "mixed"]),
            "valence": st.floats(-1, 1),
            "arousal": UNIT,
            "emotion": TEXT,
            "target": TEXT,
        },
    ),
}
PROVENANCES = st.builds(
    Provenance,
    written_by=TEXT,
    trust=st.sampled_from(Trust),
    run_id=st.none() | WORD,
    node_id=st.none() | WORD,
    subject=st.none() | WORD,
    import_id=st.none() | WORD,
    captured_at=st.none() | TIMES,
    receipt=st.none() | WORD,
)
PRIVACY = st.builds(
    PrivacyIntent,
    retain=st.none() | st.sampled_from(["P30D", "session"]),
    share_with=st.none() | WORDS,
    consent_id=st.none() | TEXT,
    sensitivity=st.none() | st.sampled_from(Sensitivity),
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """A version that can be read."""
    kind = draw(st.sampled_from(MemoryType))
    return Record(
        tenant="t",
        id=draw(WORD),
        version=draw(st.integers(1, 9)),
        store_id="sto_1",
        agent_id=draw(WORD),
        user_id=draw(st.none() | TEXT),
        session_id=draw(st.none() | TEXT),
        type=kind,
        tier=draw(st.sampled_from(Tier)),
        state=draw(st.sampled_from([State.LIVE, State.ARCHIVED, State.FORGOTTEN])),
        content=json.dumps(draw(MACHINES)) if kind is MemoryType.PROCEDURAL else draw(WORD),
        metadata=draw(OBJECTS),
        tags=draw(WORDS),
        links=draw(st.lists(st.builds(Link, WORD, WORD), max_size=2).map(tuple)),
        confidence=draw(UNIT),
        importance=draw(st.none() | UNIT),
        source=draw(st.none() | TEXT),
        provenance=draw(PROVENANCES),
        details=draw(DETAILS[kind]),
        privacy=draw(st.none() | PRIVACY),
        created_at=draw(TIMES),
        updated_at=draw(TIMES),
        expires_at=draw(st.none() | TIMES),
    )


@st.composite
def hits(draw: st.DrawFn) -> Hit:
    """A hit of any type; a procedure as text or as an object, or masked."""
    kind = draw(st.sampled_from(MemoryType))
    redacted = draw(st.booleans())
    content: Any = draw(TEXT)
    if kind is MemoryType.PROCEDURAL:
        content = draw(MACHINES | MACHINES.map(json.dumps))
    return Hit(
        id=draw(WORD),
        type=kind,
        content="[redacted]" if redacted else content,
        score=draw(st.floats(-9, 9)),
        relevance=draw(UNIT),
        rank=draw(st.integers(1, 9)),
        metadata=draw(OBJECTS),
        created_at=draw(TIMES),
        updated_at=draw(TIMES),
        supporting=draw(WORDS),
        source_store=draw(TEXT),
        provenance=draw(PROVENANCES),
        source=draw(st.none() | TEXT),
        version=draw(st.integers(1, 9)),
        agent_id=draw(TEXT),
        user_id=draw(st.none() | TEXT),
        session_id=draw(st.none() | TEXT),
        store=draw(TEXT),
        tier=draw(st.sampled_from(Tier)),
        confidence=draw(UNIT),
        importance=draw(st.none() | UNIT),
        tags=draw(WORDS),
        expires_at=draw(st.none() | TIMES),
        stores=draw(WORDS),
        details=draw(DETAILS[kind]),
        demoted=draw(st.booleans()),
        foreign=draw(st.booleans()),
        redacted=redacted,
        truncated=draw(st.booleans()),
        why=draw(st.none() | OBJECTS),
    )


#: What a response may have to say beyond v0; a position is unknown while nothing was written.
BEYOND: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "seq": st.none() | st.integers(0, 9),
        "warnings": WORDS,
        "stores_pending": WORDS,
        "similar": st.just(({"id": "m", "similarity": 0.9},)),
        "ids": WORDS,
        "receipt": st.just({"seq": 3}),
    },
)
URLS = st.none() | WORD
RESPONSES: dict[str, st.SearchStrategy[Any]] = {
    "remember": st.builds(
        RememberResponse,
        id=WORD,
        stored_at=TIMES,
        stores=WORDS,
        pending_approval=st.booleans(),
        approval_url=URLS,
        extensions=BEYOND,
    ),
    "recall": st.builds(
        RecallResponse,
        results=st.lists(hits(), max_size=3).map(tuple),
        fusion_used=st.sampled_from(Fusion),
        stores_queried=WORDS,
        latency_ms=st.integers(0, 9),
        extensions=BEYOND,
    ),
    "forget": st.builds(
        ForgetResponse,
        forgotten_ids=WORDS,
        hard_delete=st.booleans(),
        stores=st.lists(
            st.builds(ForgetRow, store=TEXT, count=st.integers(0, 9), error=URLS), max_size=2
        ).map(tuple),
        pending_approval=st.booleans(),
        approval_url=URLS,
        extensions=BEYOND,
    ),
    "merge": st.builds(
        MergeResponse,
        canonical=TEXT,
        merged_count=st.integers(0, 9),
        strategy_used=st.sampled_from(MergeStrategy),
        stores=WORDS,
        pending_approval=st.booleans(),
        approval_url=URLS,
        extensions=BEYOND,
    ),
    "expire": st.builds(
        ExpireResponse,
        matched_count=st.integers(0, 9),
        action_taken=st.sampled_from(ExpireAction),
        stores=WORDS,
        pending_approval=st.booleans(),
        approval_url=URLS,
        extensions=BEYOND,
    ),
}
