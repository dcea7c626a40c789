"""The model of this machine that the settings ask for."""

from pathlib import Path

from quipu.config import Settings, cache_dir
from quipu.embed.description import Description, described, packaged
from quipu.embed.local import LocalEmbedder


def local_model(settings: Settings) -> tuple[Path | None, Description]:
    """Where its files are, None for the package, and its description."""
    if settings.embedder == "onnx":
        return settings.weights, described(settings.weights)
    return settings.weights or cache_dir(settings) / settings.embedder, packaged(f"{settings.embedder}.json")


def local_embedder(settings: Settings) -> LocalEmbedder:
    """Its files are looked for at the first text."""
    directory, description = local_model(settings)
    return LocalEmbedder(directory, description=description)
