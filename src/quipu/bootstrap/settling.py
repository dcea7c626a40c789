"""From settings to consolidation: its measures, and the language model that proposes facts, if there is one."""

from __future__ import annotations

from quipu.config import Config
from quipu.errors import InvalidError
from quipu.model.settling import Settling
from quipu.ports.extractor import Extractor


def settling_of(config: Config) -> Settling:
    """How short-term memory settles."""
    try:
        threshold = float(config.consolidation_threshold)
    except ValueError:
        threshold = -1.0
    if not 0 <= threshold <= 1:
        raise InvalidError(
            "consolidation_threshold is a number from 0 to 1.",
            reason="bad_setting",
            hint="Set QUIPU_CONSOLIDATION_THRESHOLD, such as 0.6.",
        )
    if config.consolidation_window < 1 or config.consolidation_evict_after_s < 0:
        raise InvalidError(
            "consolidation_window is at least 1, and consolidation_evict_after_s not negative.",
            reason="bad_setting",
        )
    return Settling(
        window=config.consolidation_window,
        threshold=threshold,
        evict_after_ms=config.consolidation_evict_after_s * 1000,
        store=config.consolidation_store,
        is_at_once=config.consolidation_every_s > 0,
    )


def open_extractor(config: Config) -> Extractor | None:
    """The configured language model; None without an address. Nobody is asked before there is a text to read."""
    if not config.extractor_url:
        return None
    if not config.extractor_model:
        raise InvalidError(
            "An extractor needs an address and a model.",
            reason="bad_setting",
            hint="Set QUIPU_EXTRACTOR_URL and QUIPU_EXTRACTOR_MODEL.",
        )
    from quipu.embed.extractor import OpenAIExtractor

    return OpenAIExtractor(
        base_url=config.extractor_url,
        model=config.extractor_model,
        api_key=config.extractor_key or None,
    )
