"""What a setting is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name here, in the environment and in the file."""

    name: str
    environment: str
    help: str
    #: Also honoured where `environment` is unset.
    alias: str | None = None
