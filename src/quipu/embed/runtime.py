"""The loaded model: a vocabulary and an onnxruntime session, ready to turn windows of tokens into vectors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from quipu.embed.text import well_formed, windows
from quipu.embed.vectors import packed
from quipu.embed.wordpiece import WordPieces
from quipu.errors import BackendUnavailableError

WINDOW, OVERLAP = 256, 32
#: About 15,000 words. A book is found by its words; its vector is that of a sample.
MOST_WINDOWS = 64
_CLS, _SEP = 101, 102

Vector = NDArray[np.float32]

# The runtime sends usage data to its maker unless told not to before it is loaded; being told later does not stop it
# from making a device id.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # noqa: TID251  not a setting of ours: the one way to switch it off
# The runtime has no types, so it stands here as Any and leaves this module only behind `_Session`.
_onnxruntime: Any = import_module("onnxruntime")
_onnxruntime.disable_telemetry_events()  # in case somebody else loaded it first
_state: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
# Its errors have no common parent of their own.
_FAILURES: tuple[type[Exception], ...] = (
    _state.Fail,
    _state.EPFail,
    _state.InvalidArgument,
    _state.InvalidGraph,
    _state.InvalidProtobuf,
    _state.NoModel,
    _state.NotImplemented,
    _state.RuntimeException,
    RuntimeError,
)


class _Session(Protocol):
    def run(self, output_names: None, input_feed: dict[str, NDArray[np.int64]]) -> list[Vector]: ...


class Runtime:
    """One graph in memory. `embedded` may be called by several threads at once."""

    def __init__(self, graph: bytes) -> None:
        session = _session(graph)
        self._session: _Session = session
        #: The tokenizer's file, as JSON text.
        self.tokenizer: Final[str] = session.get_modelmeta().custom_metadata_map["tokenizer"]
        self._pieces = WordPieces(self.tokenizer)

    def embedded(self, text: str) -> bytes:
        """One vector for the whole text: the mean of its windows, each counted by its tokens."""
        tokens = self._pieces.numbers(well_formed(text))
        stretches = [[_CLS, *stretch, _SEP] for stretch in windows(tokens, WINDOW - 2, OVERLAP, MOST_WINDOWS)]
        vectors = [self._vector(stretch) for stretch in stretches]
        if len(vectors) == 1:
            return packed(vectors[0])
        return packed(np.average(vectors, axis=0, weights=[len(stretch) for stretch in stretches]))

    def words(self, ids: Sequence[int]) -> list[Vector]:
        """The vector of each word piece, as a text of its own."""
        return [self._vector([_CLS, id, _SEP]) for id in ids]

    def _vector(self, stretch: Sequence[int]) -> Vector:
        return _outputs(self._session, np.array([stretch], np.int64))[0][0]


def ran(graph: bytes, texts: Sequence[NDArray[np.int64]]) -> list[list[Vector]]:
    """Everything that a graph gives for each text, for the building of another."""
    session = _session(graph)
    return [_outputs(session, text) for text in texts]


def _outputs(session: _Session, ids: NDArray[np.int64]) -> list[Vector]:
    try:
        return session.run(None, {"ids": ids})
    except _FAILURES as error:
        raise BackendUnavailableError(
            "onnxruntime could not run the embedding model.", reason="model_failed"
        ) from error


def _session(graph: bytes) -> Any:
    options = _onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # The graph has its fused operators already. Looking for others takes a third of the loading and changes no
    # vector; a query was 3 to 5 % faster without, and without an arena, a long text no slower.
    options.graph_optimization_level = _onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    try:
        return _onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except _FAILURES as error:
        raise BackendUnavailableError(
            "onnxruntime cannot load the embedding model.",
            reason="model_unloadable",
            hint="Upgrade onnxruntime, or choose another embedder.",
        ) from error
