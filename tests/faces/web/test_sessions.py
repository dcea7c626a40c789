"""Sessions end when they should, and their table gives nothing away."""

import pytest

from quipu.bootstrap.surroundings import Randomness
from quipu.faces.web import sessions
from quipu.faces.web.sessions import IDLE_MS, LIFE_MS, Sessions
from quipu.testing.builders import FixedClock

TOKEN = "qp_default_" + "x" * 43


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def table(clock: FixedClock) -> Sessions:
    return Sessions(clock, Randomness())


def test_a_session_gives_back_what_was_signed_in_with(table: Sessions) -> None:
    found = table.find(table.open(TOKEN))
    assert found is not None
    assert found.credential == TOKEN


def test_names_and_form_secrets_have_256_random_bits_and_are_never_the_same(table: Sessions) -> None:
    names = [table.open(TOKEN) for _ in range(50)]
    secrets = [table.get(name).csrf for name in names]
    assert len({*names, *secrets}) == 100
    assert {len(text) for text in (*names, *secrets)} == {43}


def test_the_table_holds_neither_name_nor_credential(table: Sessions) -> None:
    name = table.open(TOKEN)
    kept = repr(vars(table)) + repr([session.sealed for session in vars(table)["_sessions"].values()])
    assert name not in kept
    assert TOKEN not in kept


def test_an_unknown_name_is_nobody(table: Sessions) -> None:
    table.open(TOKEN)
    assert table.find("x" * 43) is None
    assert table.find("") is None
    assert table.find(None) is None


def test_a_session_ends_after_eight_idle_hours(table: Sessions, clock: FixedClock) -> None:
    name = table.open(TOKEN)
    clock.move(IDLE_MS - 1)
    assert table.find(name) is not None
    clock.move(IDLE_MS)
    assert table.find(name) is None
    assert len(table) == 0


def test_a_session_ends_after_a_day_however_busy(table: Sessions, clock: FixedClock) -> None:
    name = table.open(TOKEN)
    for _ in range(LIFE_MS // (IDLE_MS // 2) - 1):
        clock.move(IDLE_MS // 2)
        assert table.find(name) is not None
    clock.move(IDLE_MS // 2)
    assert table.find(name) is None


def test_a_closed_session_is_gone_and_closing_again_does_no_harm(table: Sessions) -> None:
    name = table.open(TOKEN)
    table.close(name)
    table.close(name)
    table.close(None)
    assert table.find(name) is None


def test_ended_sessions_are_dropped_when_somebody_signs_in(table: Sessions, clock: FixedClock) -> None:
    table.open(TOKEN)
    clock.move(IDLE_MS)
    table.open(TOKEN)
    assert len(table) == 1


def test_beyond_the_bound_the_one_away_longest_is_signed_out(
    table: Sessions, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST", 3)
    names = []
    for _ in range(4):
        names.append(table.open(TOKEN))
        clock.move(1)
    assert [table.find(name) is not None for name in names] == [False, True, True, True]


def test_beyond_the_bound_nobody_who_signed_in_makes_room_for_who_did_not(
    table: Sessions, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST", 2)
    signed_in = table.open(TOKEN)
    for _ in range(5):
        clock.move(1)
        table.open(None)
    assert table.find(signed_in) is not None
    assert len(table) == 2
