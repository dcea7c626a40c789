"""Sets are read from small files of the same forms."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.recall.sets import Part, digests, sets
from tests.bench.files import BEAM, CONFLICTS, FRIENDSQA, LOCOMO, LONGMEMEVAL


def _read(folder: Path, name: str, content: Any, **given: Any) -> list[Part]:
    (folder / f"{name}.json").write_text(json.dumps(content), "utf-8")
    if name == "longmemeval":
        given["long_file"] = folder / "longmemeval.json"
    return list(sets(folder, [name], **given)[name]())


def _day(*numbers: int) -> int:
    return int(datetime(*numbers, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type]  year, month, day …


def test_turns_of_locomo_have_speaker_session_and_time(tmp_path: Path) -> None:
    (part,) = _read(tmp_path, "locomo-dev", LOCOMO)
    assert part.name == "conv-1"
    first, second, third = part.texts
    assert first.name == "D1:1"
    assert first.item == {
        "content": "Ada: I keep bees",
        "type": "episodic",
        "session_id": "session 1",
        "metadata": {"speaker": "Ada"},
        "event_time": _day(2023, 5, 8, 13, 56),
    }
    assert second.content == "Bo: Look [shares a photo of a cat]"
    assert third.item["session_id"] == "session 2"


def test_evidence_of_locomo_that_names_no_turn_is_dropped_and_adversarial_questions_have_none(
    tmp_path: Path,
) -> None:
    (part,) = _read(tmp_path, "locomo-dev", LOCOMO)
    assert [(one.kind, one.gold) for one in part.questions] == [
        ("single-hop", frozenset({"D1:1"})),
        ("adversarial", frozenset()),
    ]


def test_a_time_of_beam_holds_until_the_next_one_and_updates_are_known(tmp_path: Path) -> None:
    (part,) = _read(tmp_path, "beam-100k-dev", BEAM)
    assert [one.item["event_time"] for one in part.texts] == [
        _day(2024, 3, 15),
        _day(2024, 3, 15),
        _day(2024, 4, 5),
    ]
    assert part.texts[1].item["metadata"] == {"role": "assistant"}
    update, abstention = part.questions
    assert (update.gold, update.older, update.newer) == ({"0", "2"}, {"0"}, {"2"})
    assert not abstention.is_answerable


def test_conflicts_have_answers_instead_of_names(tmp_path: Path) -> None:
    (part,) = _read(tmp_path, "conflicts-dev", CONFLICTS)
    assert [one.content for one in part.texts] == CONFLICTS[0]["facts"]
    assert part.questions[0].answers == ("Oslo",)
    assert part.questions[0].is_answerable


def test_scenes_are_sessions_of_one_memory(tmp_path: Path) -> None:
    (part,) = _read(tmp_path, "friendsqa-dev", FRIENDSQA)
    assert [one.session for one in part.texts] == ["scene 1", "scene 1", "scene 2"]
    assert part.texts[1].content == "Monica and Ross: No !"
    assert part.questions[0].gold == {"scene 1:1"}


def test_each_question_of_longmemeval_has_its_own_history_with_turn_and_session_evidence(
    tmp_path: Path,
) -> None:
    first, second = _read(tmp_path, "longmemeval", LONGMEMEVAL)
    assert first.name == "q1"
    assert [one.name for one in first.texts] == ["s1:0", "s1:1", "s2:0"]
    assert first.texts[2].item["event_time"] == _day(2023, 5, 20, 2, 21)
    assert first.texts[0].item["metadata"] == {"role": "user"}
    (question,) = first.questions
    assert (question.kind, question.gold, question.sessions) == ("single-session-user", {"s1:0"}, {"s1"})
    (abstention,) = second.questions
    assert abstention.kind == "abstention"
    assert not abstention.sessions
    assert not abstention.is_answerable


def test_a_cut_takes_some_of_each_kind_and_leaves_memories_whole(tmp_path: Path) -> None:
    more = [*LOCOMO, {**LOCOMO[0], "sample_id": "conv-2"}]
    parts = _read(tmp_path, "locomo-dev", more, most=2)
    assert [one.name for one in parts] == ["conv-1"]
    parts = _read(tmp_path, "locomo-dev", more, most=3)
    assert [len(one.questions) for one in parts] == [2, 1]
    assert len(parts[1].texts) == 3


def test_our_own_test_questions_are_asked_only_where_they_are_named() -> None:
    assert set(sets()) == {"own-development", "own-calibration"}
    (part,) = sets(chosen=["own-test"])["own-test"]()
    assert part.texts
    assert all(one.user_id for one in part.questions)


def test_a_set_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(SystemExit, match="no such set: locomo-dev; there are own-development"):
        sets(chosen=["locomo-dev"])


def test_the_data_of_a_result_is_known_by_its_hash(tmp_path: Path) -> None:
    (tmp_path / "conflicts-dev.json").write_text("[]", "utf-8")
    assert digests(tmp_path, ["conflicts-dev"]) == {"conflicts-dev": "4f53cda18c2b"}
