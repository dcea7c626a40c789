"""all-MiniLM-L6-v2 drawn into a graph: six BERT layers, mean pooling, L2 norm.

One text at a time goes through it, so there is no padding and no mask. How a product with a matrix is done is for
the caller to say: the same layers serve exact and quantised products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quipu.embed import onnx_file
from quipu.embed.onnx_file import RUNTIME, Graph

LAYERS, HEADS, WIDTH, POSITIONS, EPSILON = 6, 12, 384, 256, 1e-12

Array = NDArray[Any]
Tensors = Mapping[str, Array]


class Product(NamedTuple):
    """A matrix of one layer, or several that are applied side by side, with the bias."""

    layer: int
    #: `attend`, `attended`, `widen` or `narrow`.
    name: str
    #: One row for each number that comes out.
    matrix: Array
    bias: Array


#: Draws one product; given the graph, the product and the name of what goes in, gives the name of what comes out.
Drawn = Callable[[Graph, Product, str], str]

_PARTS = {
    "attend": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attended": ("attention.output.dense",),
    "widen": ("intermediate.dense",),
    "narrow": ("output.dense",),
}


def encoded(graph: Graph, tensors: Tensors, drawn: Drawn) -> str:
    """Draws everything from `ids`, shaped (1, n) with n up to 256, to one unit `vector`. Its name."""
    hidden = _embeddings(graph, tensors)
    for number in range(LAYERS):
        hidden = _layer(graph, tensors, number, hidden, drawn)
    pooled = graph.add("ReduceMean", hidden, graph.constant(np.array([1])), keepdims=0)
    return graph.add("LpNormalization", pooled, output="vector", axis=-1, p=2)


def inputs() -> list[bytes]:
    """What the graph takes."""
    return [onnx_file.value("ids", onnx_file.INT64, [1, "length"])]


def in_codes(values: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Symmetric int8 codes, and one scale for each stretch of the last axis."""
    scale = np.maximum(np.abs(values).max(axis=-1, keepdims=True) / 127, np.finfo(np.float32).tiny)
    return np.rint(values / scale).astype(np.int8), scale.astype(np.float32)


def _embeddings(graph: Graph, tensors: Tensors) -> str:
    # The table of word vectors is int8 with one scale per word.
    table, scale = in_codes(tensors["embeddings.word_embeddings.weight"])
    codes = graph.add("Cast", graph.add("Gather", graph.constant(table), "ids"), to=onnx_file.FLOAT)
    words = graph.add("Mul", codes, graph.add("Gather", graph.constant(scale), "ids"))
    # A single text is all segment 0, so its segment vector is part of every position.
    segment = tensors["embeddings.token_type_embeddings.weight"][0]
    positions = graph.constant(tensors["embeddings.position_embeddings.weight"][:POSITIONS] + segment)
    zero, length = graph.constant(np.array([0])), graph.add("Shape", "ids", start=1, end=2)
    placed = graph.add("Slice", positions, zero, length, zero)
    return _normed(graph, tensors, "embeddings.LayerNorm", words, placed)


def _layer(graph: Graph, tensors: Tensors, number: int, hidden: str, drawn: Drawn) -> str:
    prefix = f"encoder.layer.{number}."

    def product(name: str, given: str) -> str:
        matrix, bias = (
            np.concatenate([tensors[f"{prefix}{part}.{kind}"] for part in _PARTS[name]])
            for kind in ("weight", "bias")
        )
        return drawn(graph, Product(number, name, matrix, bias), given)

    separate = graph.add_many("Split", 3, product("attend", hidden), axis=2, num_outputs=3)
    attended = graph.add("MultiHeadAttention", *separate, domain=RUNTIME, num_heads=HEADS)
    projected = product("attended", attended)
    hidden = _normed(graph, tensors, f"{prefix}attention.output.LayerNorm", projected, hidden)
    narrowed = product("narrow", graph.add("Gelu", product("widen", hidden)))
    return _normed(graph, tensors, f"{prefix}output.LayerNorm", narrowed, hidden)


def _normed(graph: Graph, tensors: Tensors, name: str, left: str, right: str) -> str:
    """The sum of both, normed. Two operators: the fused one took more than twice as long."""
    gain, shift = graph.constant(tensors[f"{name}.weight"]), graph.constant(tensors[f"{name}.bias"])
    return graph.add(
        "LayerNormalization", graph.add("Add", left, right), gain, shift, axis=-1, epsilon=EPSILON
    )
