"""The rules file: read at the start, and again whenever it has changed."""

from __future__ import annotations

import json
import logging
import tomllib
from pathlib import Path

from quipu.errors import InvalidError
from quipu.model.governance import Rule
from quipu.ports.surroundings import Clock
from quipu.rules import policy_parsing

_log = logging.getLogger("quipu.governance")
#: Which file it is, how long, and when it was written: tells a change without reading it.
_Stamp = tuple[int, int, int] | None


def rules_document(path: str) -> object:
    """What a file of rules says, TOML or JSON."""
    file = Path(path).expanduser()
    try:
        text = file.read_text("utf-8")
        return json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InvalidError(
            f"The rules file {file} cannot be read: {error.strerror}.",
            reason="no_file",
            hint="Check the path; QUIPU_RULES names the file that is read at the start.",
        ) from error
    # The latter where it is nested without end.
    except (ValueError, RecursionError) as error:
        raise InvalidError(
            f"The rules file {file} is neither TOML nor JSON: {error}",
            reason="bad_setting",
            hint="A name that ends in .json is read as JSON, any other as TOML.",
        ) from error


class RulesOnDisk:
    """A file that does not load stops the start; later it leaves the last good rules, so it never opens the gate."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._stamp = self._stamped()
        self._rules: tuple[Rule, ...] = policy_parsing.rules_of(rules_document(path))
        self.edition: int = 0
        self.broken_since: int | None = None

    def rules(self) -> tuple[Rule, ...]:
        """What it says now, or said last when it could be understood."""
        stamp = self._stamped()
        if stamp != self._stamp:
            self._stamp = stamp
            self._read()
        return self._rules

    def _read(self) -> None:
        try:
            rules = policy_parsing.rules_of(rules_document(self._path))
        except InvalidError as error:
            self.broken_since = self._clock() if self.broken_since is None else self.broken_since
            _log.error("The rules file does not load, the last good rules stay in force: %s", error.message)
            return
        self.broken_since = None
        if rules != self._rules:
            self._rules = rules
            self.edition += 1
            _log.info("The rules file has changed: %d rules are in force.", len(rules))

    def _stamped(self) -> _Stamp:
        try:
            found = Path(self._path).expanduser().stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns
