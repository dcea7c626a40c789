"""Settings of the OpenWOP host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from quipu.config import Config
from quipu.errors import InvalidError
from quipu.model.runs import HostOptions
from quipu.model.value import JsonObject
from quipu.rules.runs_manifests import checked_manifest
from quipu.rules.runs_refs import is_wellformed

_BACKENDS = ("scratchpad", "conversation", "longTerm")
_DAY_MS = 24 * 3600 * 1000


def host_options(config: Config) -> HostOptions:
    """What the host is set to; a setting that makes no sense stops the start."""
    backends = frozenset(part.strip() for part in config.openwop_backends.split(",") if part.strip())
    if unknown := sorted(backends - set(_BACKENDS)):
        raise InvalidError(
            f"There is no memory backend {unknown[0]!r}.",
            reason="bad_setting",
            hint=f"Set QUIPU_OPENWOP_BACKENDS to some of {', '.join(_BACKENDS)}.",
        )
    if config.openwop_entry_bytes < 1:
        raise InvalidError("openwop_entry_bytes is at least 1.", reason="bad_setting")
    if config.openwop_lease_s < 1:
        raise InvalidError("openwop_lease_s is at least 1.", reason="bad_setting")
    return HostOptions(
        has_seams=config.openwop_seams,
        tells_writes=config.openwop_attribution,
        backends=backends,
        entry_bytes=min(config.openwop_entry_bytes, config.limit_content_bytes),
        manifests=_manifests(config.openwop_agents),
        history_ms=config.openwop_history_days * _DAY_MS or None,
        lease_ms=config.openwop_lease_s * 1000,
        keeps=_kept_refs(config.openwop_keeps) if config.openwop_keep_every_s else (),
        compact_above=config.openwop_compact_above,
    )


def _kept_refs(text: str) -> tuple[str, ...]:
    refs = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not all(is_wellformed(ref) for ref in refs):
        raise InvalidError("openwop_keeps names something that is no ref.", reason="bad_setting")
    return refs


def _manifests(path: str) -> tuple[JsonObject, ...]:
    if not path:
        return ()
    file = Path(path).expanduser()
    try:
        given: Any = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise InvalidError(f"The agents file {file} cannot be read.", reason="no_file") from error
    except ValueError as error:
        raise InvalidError(f"The agents file {file} is not JSON.", reason="bad_setting") from error
    if not isinstance(given, list):
        raise InvalidError(f"The agents file {file} is not a list of manifests.", reason="bad_setting")
    manifests = cast("list[object]", given)
    return tuple(checked_manifest(manifest, f"/{place}") for place, manifest in enumerate(manifests))
