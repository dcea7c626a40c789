"""What every test has: steady property tests, and no settings from the machine it runs on."""

import os

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.fixtures.ledgers", "tests.fixtures.offices", "tests.fixtures.spans"]

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile(
    "steady", max_examples=25, derandomize=True, deadline=None, suppress_health_check=_QUIET
)
settings.register_profile("thorough", max_examples=100, deadline=None, suppress_health_check=_QUIET)
settings.load_profile("steady")

_OURS = ("QUIPU_", "MEMORYWIRE_", "OTEL_", "DATABASE_URL")


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A test that wants a setting sets it; the home directory is empty."""
    for name in list(os.environ):
        if name.startswith(_OURS) and name != "QUIPU_TEST_DATABASE":
            monkeypatch.delenv(name)
    home = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
