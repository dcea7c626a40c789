"""The command line, as its own tests have it."""

from tests.cli.conftest import cli, home, model_cache

__all__ = ["cli", "home", "model_cache"]
