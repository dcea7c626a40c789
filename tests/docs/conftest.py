"""A place of its own for every page and example: folder, memory, settings; the built model is shared."""

from pathlib import Path

import pytest

from quipu import config


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, where the user's own memory and settings are out of reach."""
    cache = config.cache_dir(config.load({}))
    for setting in config.SETTINGS:
        for name in (setting.environment, setting.alias):
            if name is not None:
                monkeypatch.delenv(name, raising=False)
                monkeypatch.setenv(name, "")  # so that whatever a page sets is undone
    monkeypatch.setenv("QUIPU_CONFIG", "")
    monkeypatch.setenv("QUIPU_CACHE", str(cache))
    # A busy machine may be late; the pages show what is kept when it is not.
    monkeypatch.setenv("QUIPU_MIRROR_WRITE_DEADLINE_MS", "20000")
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("COLUMNS", "160")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work
