"""The embedder that settings name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from quipu import config as settings
from quipu.config import Config
from quipu.errors import BackendUnavailableError, InvalidError
from quipu.ports.embedder import Embedder
from quipu.ports.ledger import Space

#: What the embedder tells while it is being built: what it does, and how far it is from 0 to 1.
BuildProgress: TypeAlias = Callable[[str, float], None]
IsMeant: TypeAlias = Callable[[Space], bool]
#: Finds a space that a memory has vectors of.
Before: TypeAlias = Callable[[IsMeant], Awaitable[Space | None]]

_EMBEDDERS = ("onnx", "fast", "openai", "none")


async def open_embedder(
    config: Config,
    progress: BuildProgress | None = None,
    shown: Callable[[Embedder], Embedder] = lambda embedder: embedder,
    before: Before | None = None,
) -> Embedder | None:
    """The configured embedder, behind a cache. A model of ours is loaded when it is first needed.

    `shown` watches the calls that the cache lets through; `before` knows which vectors there are already.
    """
    from quipu.embed.cache import CachedEmbedder

    match config.embedder:
        case "none":
            return None
        case "onnx":
            from quipu.embed.onnx import OnnxEmbedder

            inner: Embedder = OnnxEmbedder(
                settings.cache_dir(config),
                weights_dir=_weights_dir(config),
                download=config.allow_download,
                threads=config.threads,
                progress=progress,
            )
        case "fast":
            from quipu.embed.fast import FastEmbedder

            inner = FastEmbedder(
                settings.cache_dir(config),
                weights_dir=_weights_dir(config),
                download=config.allow_download,
                progress=progress,
            )
        case "openai":
            inner = await _endpoint(config, before)
        case other:
            raise InvalidError(
                f"There is no embedder {other!r}.",
                reason="bad_setting",
                hint=f"Choose from {', '.join(_EMBEDDERS)}.",
            )
    return CachedEmbedder(shown(inner))


async def _endpoint(config: Config, before: Before | None) -> Embedder:
    """An endpoint's embedder. A memory that knows its vectors opens also while the endpoint is away."""
    from quipu.embed.answers import UNREACHED
    from quipu.embed.openai import OpenAIEmbedder, named

    if not config.embedder_url or not config.embedder_model:
        raise InvalidError(
            "An openai embedder needs an address and a model.",
            reason="bad_setting",
            hint="Set QUIPU_EMBEDDER_URL and QUIPU_EMBEDDER_MODEL.",
        )
    opening = partial(
        OpenAIEmbedder.open,
        base_url=config.embedder_url,
        model=config.embedder_model,
        api_key=config.embedder_key or None,
        dimensions=config.embedder_dimensions or None,
        timeout_ms=max(1, config.embedder_timeout_s) * 1_000,
    )
    try:
        return await opening()
    except BackendUnavailableError as error:
        if before is None or error.reason not in UNREACHED:
            raise
        known = await before(lambda space: space.model == named(config.embedder_model, space.dimensions))
        if known is None:
            raise
        return await opening(expected=known.dimensions)


def _weights_dir(config: Config) -> Path | None:
    return Path(config.weights_dir).expanduser() if config.weights_dir else None
