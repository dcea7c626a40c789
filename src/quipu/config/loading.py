"""Settings are read once, here and nowhere else: defaults, the settings file, the environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from quipu.config.described import SETTINGS
from quipu.config.values import Config
from quipu.errors import InvalidError

if TYPE_CHECKING:
    from quipu.config.misspellings import Misspelt

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_TELEMETRY = "telemetry"
#: What the names end with that a cluster sets for a Service, beside `<service>_PORT_8321_TCP` and the like.
_SERVICE = "_SERVICE_HOST"
_NAMED = "QUIPU_CONFIG names it: correct the path, or unset the variable."
_log = logging.getLogger("quipu.telemetry")
_warned: set[tuple[str, str]] = set()


def load(environment: Mapping[str, str] | None = None) -> Config:
    """Defaults, then the settings file, then the environment."""
    given = dict(os.environ if environment is None else environment)
    values = _from_file(given)
    for name in of_the_cluster(given):
        del given[name]
    for setting in SETTINGS:
        text = given.get(setting.environment) or given.get(setting.alias or "")
        if text:
            values[setting.name] = _parsed(setting.name, text, setting.environment)
    return Config(**cast("Any", values))


def misspelt(environment: Mapping[str, str] | None = None) -> list[Misspelt]:
    """Variables of the environment that look like settings and are none."""
    from quipu.config.misspellings import misspelt_in

    given = os.environ if environment is None else environment
    return misspelt_in(given.keys() - of_the_cluster(given))


def of_the_cluster(given: Mapping[str, str]) -> frozenset[str]:
    """Variables that Kubernetes sets in every container beside a Service called `quipu…`; nobody chose them.

    One of them may be QUIPU_PORT, with an address in it.
    """
    services = [
        name.removesuffix(_SERVICE) for name in given if name.startswith("QUIPU") and name.endswith(_SERVICE)
    ]
    return frozenset(
        name
        for service in services
        for name in given
        if name.startswith((f"{service}_SERVICE_", f"{service}_PORT_"))
        or (name == f"{service}_PORT" and "://" in given[name])
    )


def settings_file(given: Mapping[str, str]) -> Path | None:
    """Where the settings file would be; nowhere for who has no home and names none."""
    named = given.get("QUIPU_CONFIG")
    if named:
        return _expanded(named)
    try:
        return _home(given, "XDG_CONFIG_HOME", ".config") / "quipu" / "config.toml"
    except InvalidError:
        return None


def _from_file(given: Mapping[str, str]) -> dict[str, object]:
    named = given.get("QUIPU_CONFIG")
    path = settings_file(given)
    try:
        text = None if path is None else path.read_text("utf-8")
        if text is None:
            return {}
        import tomllib  # most people have no settings file

        found = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        if not named:
            return {}
        raise InvalidError(
            f"The settings file {path} does not exist.", reason="bad_setting", hint=_NAMED
        ) from None
    except OSError as error:
        raise InvalidError(
            f"The settings file {path} cannot be read: {error.strerror}.",
            reason="bad_setting",
            hint=_NAMED if named else "Check its permissions.",
        ) from error
    except ValueError as error:
        raise InvalidError(
            f"The settings file {path} cannot be read: {error}",
            reason="bad_setting",
            hint='It is TOML: one setting on a line, text between quotes, such as agent = "planner".',
        ) from error
    known = {setting.name for setting in SETTINGS}
    for name in found:
        if name not in known:
            raise InvalidError(
                f"There is no setting {name} ({path}).",
                reason="bad_setting",
                hint=_meant(name, known),
            )
        if isinstance(found[name], list | dict) and not name.startswith(_TELEMETRY):
            raise InvalidError(
                f"{name} in {path} is neither a text nor a number.",
                reason="bad_setting",
                hint='Write one value, such as agent = "planner"; where several are meant, all in one text.',
            )
    return {name: _parsed(name, str(value), str(path)) for name, value in found.items()}


def _meant(name: str, known: set[str]) -> str:
    """What somebody may have meant who named a setting that is none."""
    from difflib import get_close_matches

    close = get_close_matches(name, sorted(known), 3)
    return f"Did you mean {' or '.join(close)}?" if close else f"Known: {', '.join(sorted(known))}."


def _parsed(name: str, text: str, where: str) -> object:
    field = next(field for field in fields(Config) if field.name == name)
    kind = field.type
    try:
        return _understood(name, kind, text, where)
    except InvalidError:
        if not name.startswith(_TELEMETRY):
            raise
        # What memory does never hangs on how it is watched.
        if (name, text) not in _warned:
            _warned.add((name, text))
            _log.warning("There is no %s %r; the default is used.", name, text)
        return field.default


def _understood(name: str, kind: object, text: str, where: str) -> object:
    if kind == "bool":
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise InvalidError(
            f"{name} in {where} is neither true nor false.", reason="bad_setting", hint="Write true or false."
        )
    if kind == "int":
        try:
            number = int(text)
        except ValueError:
            number = -1
        if number < 0:  # none of them means anything: they are lengths, counts and times
            raise InvalidError(
                f"{name} in {where} is not a whole number of at least 0.",
                reason="bad_setting",
                hint=f"Write digits only, such as {_default(name)}.",
            )
        return number
    return text


def _default(name: str) -> object:
    return next(field.default for field in fields(Config) if field.name == name)


def _home(given: Mapping[str, str], variable: str, fallback: str) -> Path:
    named = given.get(variable)
    if named:
        return Path(named)
    try:
        return Path.home() / fallback
    except RuntimeError:
        raise InvalidError(
            "There is no home directory to keep things in.",
            reason="bad_setting",
            hint=f"Set HOME or {variable}, or say where: QUIPU_STORE, QUIPU_CACHE.",
        ) from None


def _expanded(named: str) -> Path:
    try:
        return Path(named).expanduser()
    except RuntimeError:  # `~somebody` whom nobody knows: a name like any other
        return Path(named)


def data_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Where the default memory lives."""
    return (
        _home(os.environ if environment is None else environment, "XDG_DATA_HOME", ".local/share") / "quipu"
    )


def database_url(environment: Mapping[str, str] | None = None) -> str:
    """Where `pgvector://default` leads."""
    return (os.environ if environment is None else environment).get("DATABASE_URL", "")


def cache_dir(config: Config, environment: Mapping[str, str] | None = None) -> Path:
    """Where built models are kept."""
    if config.cache_dir:
        return _expanded(config.cache_dir)
    return _home(os.environ if environment is None else environment, "XDG_CACHE_HOME", ".cache") / "quipu"
