"""Models that onnxruntime runs: an ONNX graph and the word pieces that it reads."""

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quipu.embed.description import Description, load_weights
from quipu.embed.pooling import normalised, well_formed, windows
from quipu.embed.wordpiece import WordPieces
from quipu.errors import BackendUnavailableError

#: About 15,000 words. A book is found by its words; its vector is that of a sample.
_MOST_WINDOWS = 64


class OnnxModel:
    """The loaded model. Safe to use from several threads."""

    def __init__(self, description: Description, directory: Path | None) -> None:
        weights = load_weights(directory, description)
        self._description = description
        self._runtime = _Runtime()
        # A graph that does the pooling is our own builder's, which has fused what there is to fuse.
        self._session = self._runtime.session(weights.graph, is_fused=description.pooling == "none")
        self._pieces = WordPieces(weights.vocabulary)
        self._begin, self._end = (weights.vocabulary.index(piece) for piece in ("[CLS]", "[SEP]"))

    def vector(self, text: str) -> bytes:
        """One vector for the whole text: the mean of its windows, each weighted by its length."""
        numbers = self._pieces.numbers(well_formed(text))
        window = self._description.window
        inputs = [
            [self._begin, *window, self._end]
            for window in windows(numbers, window - 2, self._description.overlap, _MOST_WINDOWS)
        ]
        vectors = [self._pooled(self._runtime.run(self._session, numbers)) for numbers in inputs]
        if len(vectors) == 1:
            return normalised(vectors[0])
        return normalised(np.average(vectors, axis=0, weights=[len(window) for window in inputs]))

    def _pooled(self, output: NDArray[np.float32]) -> NDArray[np.float32]:
        """The vector of one window, from the one of each piece where the graph leaves that to us."""
        match self._description.pooling:
            case "none":
                return output
            case "cls":
                return output[0]
            case "mean":
                return output.mean(axis=0)


class _Runtime:
    """onnxruntime, whose parts have no types: imported when a model is loaded, its errors wrapped."""

    def __init__(self) -> None:
        # It sends usage data to its maker unless this is set before it is imported; switching that off later does not
        # keep it from making a device id.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # noqa: TID251  written, not read: the one way to switch it off
        try:
            self._library: Any = import_module("onnxruntime")
            self._library.disable_telemetry_events()  # somebody else may have imported it first
            state = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        except ImportError as error:
            raise BackendUnavailableError(
                "onnxruntime, which runs the embedding model, cannot be imported.",
                reason="model_unloadable",
                hint="Run `pip install --force-reinstall onnxruntime`, or choose another embedder.",
            ) from error
        # Its errors have no parent in common.
        self._errors = (
            RuntimeError,
            *(
                kind
                for kind in vars(state).values()
                if isinstance(kind, type) and issubclass(kind, Exception)
            ),
        )

    def session(self, graph: bytes, *, is_fused: bool) -> Any:
        """The ONNX file, ready to run."""
        options = self._library.SessionOptions()
        options.intra_op_num_threads = 1
        # In a graph that has its fused operators already, looking for others takes a third of the loading and changes
        # no vector; a query was 3 to 5 % faster without, and without an arena, a long text no slower. Another graph
        # was twice as fast with it.
        levels = self._library.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_DISABLE_ALL if is_fused else levels.ORT_ENABLE_ALL
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        try:
            return self._library.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        except self._errors as error:
            raise BackendUnavailableError(
                "onnxruntime cannot load the embedding model.",
                reason="model_unloadable",
                hint="Run `pip install --upgrade onnxruntime`, or choose another embedder.",
            ) from error

    def run(self, session: Any, numbers: Sequence[int]) -> NDArray[np.float32]:
        """What the graph gives for one window: a vector, or one for each piece."""
        ids = np.array([numbers], np.int64)
        given = {"attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        try:
            wanted = [one.name for one in session.get_inputs()]
            return session.run(None, {name: given.get(name, ids) for name in wanted})[0][0]
        except self._errors as error:
            raise BackendUnavailableError(
                "onnxruntime could not run the embedding model.", reason="model_failed"
            ) from error
