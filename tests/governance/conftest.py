"""An office: an administrator, an agent and two reviewers over one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.governance.office import Office
from tests.service.conftest import clock, opened

__all__ = ["clock", "opened"]


@pytest.fixture
def office(opened: Any, tmp_path: Path) -> Office:
    return Office(opened, tmp_path / "memory.db")
