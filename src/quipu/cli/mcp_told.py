"""What a host's process is told, so that it opens the memory which this shell uses.

A host starts it in a folder of its own and without the variables of this shell, so:

- what the options say becomes options, and what the environment says becomes the entry's environment;
- files are named by their whole path;
- what may hold a secret is not written out, but named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from quipu.cli import settings
from quipu.cli.session import Session

#: Settings that are files or folders; a store URL may be one too.
_FILES = frozenset({"weights_dir", "cache_dir", "governance_rules", "openwop_agents"})
#: Variables beside the settings that say where a memory is found.
_PLACES = ("QUIPU_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
#: Settings of who serves, or is served by, another process.
_OF_SERVERS = frozenset(
    {
        *("host", "port", "public_url", "tls_cert", "tls_key"),
        *("behind_proxy", "trusted_proxies", "allowed_hosts", "cors_origins"),
    }
)


def words(run: Session, profile: str | None) -> list[str]:
    """The command's own words behind `quipu mcp`: what this run was told is what the host's will be told."""
    said: list[str] = []
    for name, value in (("--profile", profile), ("--agent", run.agent), ("--embedder", run.embedder)):
        said += [] if value is None else [name, value]
    for store in run.store_urls:
        said += ["--store-url", _from_anywhere(store)]
    return said


def surroundings(run: Session, profile: str | None) -> tuple[dict[str, str], list[str]]:
    """What the environment of this shell says of the memory, and the names of what is kept back as it may be secret."""
    told: dict[str, str] = {}
    kept_back: list[str] = []
    for variable, name, value in _set(settings.environment(), _said_already(run, profile)):
        if settings.masked(name, value) != value:
            kept_back.append(variable)
        elif name == "store_url":
            told[variable] = _from_anywhere(value)
        else:
            told[variable] = _whole(value) if name in _FILES or variable in _PLACES else value
    return told, kept_back


def _said_already(run: Session, profile: str | None) -> frozenset[str]:
    """Settings that an option has overruled."""
    options = {
        "agent": run.agent,
        "embedder": run.embedder,
        "mcp_profile": profile,
        "store_url": run.store_urls or None,
    }
    return frozenset(name for name, value in options.items() if value is not None)


def _set(given: Mapping[str, str], overruled: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """Variables that are set, the setting of each, and its value."""
    from quipu.config import SETTINGS

    for variable in _PLACES:
        if given.get(variable):
            yield variable, variable.lower(), given[variable]
    for setting in SETTINGS:
        if setting.name in overruled | _OF_SERVERS or setting.name.startswith("server_"):
            continue
        variable = setting.environment
        if not given.get(variable):
            variable = setting.alias or variable
        if given.get(variable):
            yield variable, setting.name, given[variable]


def _from_anywhere(store: str) -> str:
    """A store URL that means the same in every folder."""
    from quipu.bootstrap.addresses import SQLITE_SCHEMES

    scheme, mark, place = store.partition("://") if "://" in store else ("", "", store)
    place, query, rest = place.partition("?") if mark else (place, "", "")
    if place in ("", ":memory:") or (mark and scheme.lower() not in SQLITE_SCHEMES):
        return store
    return f"{scheme}{mark}{_whole(place)}{query}{rest}"


def _whole(path: str) -> str:
    return str(Path(path).expanduser().absolute())
