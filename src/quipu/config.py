"""Every setting, read once. The environment and the settings file are read here and nowhere else."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from quipu.errors import InvalidError
from quipu.model.limits import Limits


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its name here, in the environment and in the file."""

    name: str
    environment: str
    help: str
    #: Also honoured where `environment` is unset.
    alias: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What can be set. Frozen: nothing changes a setting after it was read."""

    store_url: str = ""
    agent: str = "default"
    embedder: str = "onnx"
    embedder_url: str = ""
    embedder_model: str = ""
    embedder_key: str = ""
    weights_dir: str = ""
    cache_dir: str = ""
    allow_download: bool = True
    threads: int = 0
    cache_mb: int = 1024
    checkpoint_every_s: int = 60
    checkpoint_every_entries: int = 1000
    limit_content_bytes: int = Limits().content_bytes
    limit_metadata_bytes: int = Limits().metadata_bytes
    limit_metadata_depth: int = Limits().metadata_depth
    limit_query_bytes: int = Limits().query_bytes
    limit_ids_per_call: int = Limits().ids_per_call
    limit_tags: int = Limits().tags
    limit_tag_length: int = Limits().tag_length
    limit_links: int = Limits().links
    limit_name_length: int = Limits().name_length
    limit_reason_length: int = Limits().reason_length
    limit_key_length: int = Limits().key_length
    limit_batch: int = Limits().batch
    limit_k: int = Limits().k
    limit_page: int = Limits().page

    @property
    def limits(self) -> Limits:
        """How large things may be."""
        return Limits(**{field.name: getattr(self, f"limit_{field.name}") for field in fields(Limits)})

    def with_values(self, **values: object) -> Config:
        """The same with some settings given by the caller; None leaves one as it is."""
        return replace(
            self, **cast("Any", {key: value for key, value in values.items() if value is not None})
        )


_LIMITS = {
    "content_bytes": "Bytes of one memory's content.",
    "metadata_bytes": "Bytes of one memory's metadata.",
    "metadata_depth": "How deep metadata may be nested.",
    "query_bytes": "Bytes of a query.",
    "ids_per_call": "Ids or duplicates in one call.",
    "tags": "Tags of one memory.",
    "tag_length": "Characters of a tag.",
    "links": "Links of one memory.",
    "name_length": "Characters of an agent, user, session or source.",
    "reason_length": "Characters kept of a reason; the rest is cut.",
    "key_length": "Characters of an idempotency key.",
    "batch": "Memories in one batch.",
    "k": "Hits one recall may ask for.",
    "page": "Records on one page.",
}

SETTINGS = (
    Setting(
        "store_url",
        "QUIPU_STORE",
        "Where memory is kept: sqlite:///path, or sqlite://:memory:.",
        "MEMORYWIRE_STORE",
    ),
    Setting("agent", "QUIPU_AGENT", "The agent that commands act for.", "MEMORYWIRE_AGENT"),
    Setting(
        "embedder",
        "QUIPU_EMBEDDER",
        "onnx (default, on this machine), openai (any compatible endpoint), or none.",
    ),
    Setting("embedder_url", "QUIPU_EMBEDDER_URL", "Base address of an OpenAI-compatible endpoint."),
    Setting("embedder_model", "QUIPU_EMBEDDER_MODEL", "The model to ask the endpoint for."),
    Setting("embedder_key", "QUIPU_EMBEDDER_KEY", "The endpoint's key. Never logged."),
    Setting(
        "weights_dir",
        "QUIPU_WEIGHTS",
        "A directory with model.safetensors and tokenizer.json of all-MiniLM-L6-v2.",
    ),
    Setting("cache_dir", "QUIPU_CACHE", "Where built models are kept."),
    Setting(
        "allow_download", "QUIPU_DOWNLOAD", "Whether weights may be downloaded when they are nowhere else."
    ),
    Setting("threads", "QUIPU_THREADS", "Threads of the embedder; 0 lets it choose."),
    Setting(
        "cache_mb",
        "QUIPU_CACHE_MB",
        "Memory for search, in MiB; what was used longest ago is dropped beyond it.",
    ),
    Setting(
        "checkpoint_every_s", "QUIPU_CHECKPOINT_S", "Sign the journal's head at least this often, in seconds."
    ),
    Setting("checkpoint_every_entries", "QUIPU_CHECKPOINT_ENTRIES", "Or after this many entries."),
    *(Setting(f"limit_{name}", f"QUIPU_LIMIT_{name.upper()}", help) for name, help in _LIMITS.items()),
)

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def load(environment: Mapping[str, str] | None = None) -> Config:
    """Defaults, then the settings file, then the environment."""
    given = dict(os.environ if environment is None else environment)
    values = _from_file(given)
    for setting in SETTINGS:
        text = given.get(setting.environment) or given.get(setting.alias or "")
        if text:
            values[setting.name] = _parsed(setting.name, text, setting.environment)
    return Config(**cast("Any", values))


def _from_file(given: Mapping[str, str]) -> dict[str, object]:
    named = given.get("QUIPU_CONFIG")
    path = (
        Path(named).expanduser()
        if named
        else _home(given, "XDG_CONFIG_HOME", ".config") / "quipu" / "config.toml"
    )
    if not path.exists():
        if named:
            raise InvalidError(f"The settings file {path} does not exist.", reason="bad_setting")
        return {}
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidError(
            f"The settings file {path} cannot be read: {error}", reason="bad_setting"
        ) from error
    known = {setting.name for setting in SETTINGS}
    for name in found:
        if name not in known:
            raise InvalidError(
                f"There is no setting {name} ({path}).",
                reason="bad_setting",
                hint=f"Known: {', '.join(sorted(known))}.",
            )
    return {name: _parsed(name, str(value), str(path)) for name, value in found.items()}


def _parsed(name: str, text: str, where: str) -> object:
    kind = next(field.type for field in fields(Config) if field.name == name)
    if kind == "bool":
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise InvalidError(f"{name} in {where} is neither true nor false.", reason="bad_setting")
    if kind == "int":
        try:
            return int(text)
        except ValueError:
            raise InvalidError(f"{name} in {where} is not a whole number.", reason="bad_setting") from None
    return text


def _home(given: Mapping[str, str], variable: str, fallback: str) -> Path:
    named = given.get(variable)
    return Path(named) if named else Path.home() / fallback


def data_dir(environment: Mapping[str, str] | None = None) -> Path:
    """Where the default memory lives."""
    return (
        _home(os.environ if environment is None else environment, "XDG_DATA_HOME", ".local/share") / "quipu"
    )


def cache_dir(config: Config, environment: Mapping[str, str] | None = None) -> Path:
    """Where built models are kept."""
    if config.cache_dir:
        return Path(config.cache_dir).expanduser()
    return _home(os.environ if environment is None else environment, "XDG_CACHE_HOME", ".cache") / "quipu"
