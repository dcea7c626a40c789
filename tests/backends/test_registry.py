"""Store URLs of mirrors: names, parameters, third parties, and nothing shown that should not be."""

from __future__ import annotations

import logging
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quipu import Memory, bootstrap
from quipu.backends import registry
from quipu.bootstrap import mirrors
from quipu.bootstrap.stores import ledger_and_mirrors
from quipu.config import Config
from quipu.errors import InvalidError, QuipuError, UnsupportedError
from quipu.rules import containers
from quipu.testing.embedders import WordEmbedder
from tests.requirement import requirement

SECRET = "hunter2"  # noqa: S105  a password that must not be seen


@requirement("memorywire:router.urls")
def test_names_and_parameters() -> None:
    one, two, named = registry.parsed(
        [
            "mem0://default",
            "mem0://other?weight=2.5&deadline_ms=100&collection=x&contents=own",
            f"letta://me:{SECRET}@host:8283?name=house",
        ],
        taken=("sqlite",),
    )
    assert (one.name, two.name, named.name) == ("mem0", "mem0-2", "house")
    assert (two.weight, two.deadline_ms, two.parameters, two.url) == (
        2.5,
        100,
        {"collection": "x"},
        "mem0://other?collection=x",
    )
    assert [one.has_own_contents, two.has_own_contents] == [False, True]
    assert named.shown == "letta://host:8283"
    assert SECRET not in repr(named)


@requirement("memorywire:router.urls")
@pytest.mark.parametrize(
    "url",
    [
        "nothing",
        "mem0://x?weight=-1",
        "mem0://x?contents=all",
        "mem0://x?weight=nan",
        "mem0://x?deadline_ms=1",
        "mem0://x?deadline_ms=soon",
        "mem0://x?name=../key",
        "mem0://x?name=sqlite",
    ],
)
def test_what_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(InvalidError):
        registry.parsed([url], taken=("sqlite",))


@requirement("memorywire:router.urls")
def test_the_first_ledger_is_the_ledger() -> None:
    assert ledger_and_mirrors(["mem0://a", "sqlite:///x.db", "b.db"]) == (
        "sqlite:///x.db",
        ["mem0://a", "b.db"],
    )
    assert ledger_and_mirrors(["mem0://a"]) == (None, ["mem0://a"])
    assert ledger_and_mirrors([]) == (None, [])


@requirement("memorywire:router.urls")
async def test_unknown_schemes_name_the_known_ones_and_no_credential(tmp_path: Path) -> None:
    url = f"nowhere://me:{SECRET}@host"
    memory = Memory("ana", stores=[f"sqlite://{tmp_path / 'm.db'}", url], embedder="none")
    with pytest.raises(InvalidError) as refused:
        await memory.open()
    assert "sqlite://" in refused.value.faults[0].accepted
    assert SECRET not in f"{refused.value} {refused.value.hint} {refused.value.faults}"


@requirement("memorywire:router.urls")
async def test_a_ledger_is_not_its_own_mirror(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 'm.db'}"
    with pytest.raises(InvalidError):
        await Memory("ana", stores=[url, f"{url}?name=again"], embedder="none").open()


@requirement("memorywire:router.urls")
async def test_a_wrong_address_fails_no_write_and_is_told_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = f"postgresql://me:{SECRET}@127.0.0.1:1/none?name=far&connect_timeout=1"
    async with Memory(
        "ana", stores=[f"sqlite://{tmp_path / 'm.db'}", url], embedder=WordEmbedder()
    ) as memory:
        done = await memory.remember("tea at noon")
        assert done.stores == ("sqlite",)
        assert done.extensions["stores_pending"] == ["far"]
        answer = await memory.recall("tea at noon")
        assert [hit.content for hit in answer] == ["tea at noon"]
        health = await memory.health()
        assert SECRET not in f"{done} {answer} {health} {memory!r}"
    assert SECRET not in caplog.text


@requirement("memorywire:router.urls")
def test_mirrors_are_kept_beside_the_ledger_for_their_owner_alone(tmp_path: Path) -> None:
    where = bootstrap.address(f"sqlite://{tmp_path / 'm.db'}")
    assert mirrors.kept_urls(where) == []
    mirrors.keep_urls(where, ["mem0://a"])
    mirrors.keep_urls(where, ["mem0://a", f"letta://x:{SECRET}@h"])
    assert mirrors.urls_of(where, Config(mirrors="mem0://b  mem0://a")) == [
        "mem0://b",
        "mem0://a",
        f"letta://x:{SECRET}@h",
    ]
    file = tmp_path / "m.db.mirrors"
    assert not file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    file.write_text("{}")
    with pytest.raises(InvalidError):
        mirrors.kept_urls(where)
    with pytest.raises(InvalidError):
        mirrors.keep_urls(bootstrap.address("sqlite://:memory:"), [])


@requirement("memorywire:router.urls")
async def test_somebody_elses_adapter_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site"
    info = package / "their_shelf-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-shelf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[quipu.backends]\ntheirs = their_shelf:backend\nbroken = their_missing:backend\n"
    )
    (package / "their_shelf.py").write_text(
        "from quipu.testing.backend.shelf import ShelfBackend\n\ndef backend(setup):\n    return ShelfBackend()\n"
    )
    monkeypatch.syspath_prepend(str(package))
    async with Memory(
        "ana", stores=["sqlite://:memory:", "theirs://anywhere"], embedder=WordEmbedder()
    ) as memory:
        assert (await memory.remember("tea at noon")).stores == ("sqlite", "theirs")
    with pytest.raises(UnsupportedError) as missing:
        registry.maker("broken")
    assert missing.value.reason == "missing_extra"


@requirement("memorywire:router.urls")
@pytest.mark.parametrize(
    "setting",
    [{"recall_foreign": "first"}, {"mirror_write_policy": "some"}, {"mirrors": "sqlite:///x?weight=x"}],
)
async def test_bad_settings_stop_the_start(setting: dict[str, Any], tmp_path: Path) -> None:
    known = {"store_url": "sqlite://:memory:", "mirrors": f"sqlite://{tmp_path / 'c.db'}", "embedder": "none"}
    with pytest.raises(QuipuError):
        await bootstrap.start(Config(**{**known, **setting}))


_PARTS = st.lists(st.one_of(st.none(), st.text(max_size=12)), min_size=3, max_size=3)


@given(_PARTS, _PARTS)
def test_two_containers_never_get_one_name(one: list[str | None], other: list[str | None]) -> None:
    if one != other:
        assert containers.joined(one) != containers.joined(other)
        assert [containers.label(part) for part in one] != [containers.label(part) for part in other]


@given(st.text(alphabet="ax_-h.", max_size=8), st.text(alphabet="ax_-h.", max_size=8))
def test_labels_that_look_alike_stay_apart(one: str, other: str) -> None:
    assert (containers.label(one) == containers.label(other)) == (one == other)
    assert (containers.joined([one, other]) == containers.joined([other, one])) == (one == other)


def test_legal_names_stay_readable() -> None:
    assert containers.label("alice_1") == "alice_1"
    assert containers.label(None) == "_"
    assert containers.label("_") != "_"
    assert len(containers.label("q" * 500)) <= 128
    assert len(containers.joined(["t" * 99, "a", None])) <= 63
