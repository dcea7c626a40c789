"""The ONNX graph of all-MiniLM-L6-v2 in int8, built from the weights with our own hands.

Six BERT layers, mean pooling, L2 norm. One text at a time goes through it, so there is no padding and no
mask. Weights of matrix products are int8 in blocks of 128, activations are quantised block by block while
running (`MatMulNBits` at accuracy level 4), the table of word vectors is int8 with one scale per word.

Chosen by measuring; one thread, time for a query and for 64 texts of mixed length, cosine against float32
as mean over 295 texts of LoCoMo and as minimum over texts of one or two words:

- float32: 4.4 ms, 0.87 s; four times the size.
- one scale for all activations (`DynamicQuantizeMatMul`, what `quantize_dynamic` makes): 1.3 ms, 0.34 s;
  0.992 and 0.953. A single word is where a name or a tag suffers.
- that for the attention, blocks for the two wide products: 1.9 ms, 0.48 s; 0.998 and 0.988.
- blocks of 128 throughout, this graph: 1.9 ms, 0.55 s; 0.999 and 0.992. Blocks of 64: 2.2 ms, 0.60 s.

The tokenizer travels in the graph's metadata: one file is all that a start needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from quipu.embed import onnx_file
from quipu.embed.artifact import Progress, silent

if TYPE_CHECKING:
    from quipu.embed.weights import Weights

LAYERS, HEADS, WIDTH, POSITIONS, EPSILON = 6, 12, 384, 256, 1e-12
BLOCK = 128
#: The runtime's own operators: fused, and older than the standard's equivalents.
RUNTIME = "com.microsoft"

Array = NDArray[Any]


def build_graph(weights: Weights, progress: Progress = silent) -> bytes:
    """The serialized graph: `ids` of one text, shaped (1, n) with n up to 256, in; one unit `vector` out."""
    tensors: dict[str, Array] = load(weights.tensors)
    graph = _Graph()
    hidden = _embeddings(graph, tensors)
    for number in range(LAYERS):
        progress("building the model", number / LAYERS)
        prefix = f"encoder.layer.{number}."
        layer = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
        hidden = _layer(graph, layer, hidden)
    pooled = graph.add("ReduceMean", hidden, graph.constant(np.array([1])), keepdims=0)
    graph.add("LpNormalization", pooled, output="vector", axis=-1, p=2)
    payload = graph.serialized(tokenizer=weights.tokenizer.decode("utf-8"))
    progress("building the model", 1.0)
    return payload


def _embeddings(graph: _Graph, tensors: dict[str, Array]) -> str:
    table, scale = _quantised(tensors["embeddings.word_embeddings.weight"])
    codes = graph.add("Cast", graph.add("Gather", graph.constant(table), "ids"), to=onnx_file.FLOAT)
    words = graph.add("Mul", codes, graph.add("Gather", graph.constant(scale), "ids"))
    # A single text is all segment 0, so its segment vector is part of every position.
    segment = tensors["embeddings.token_type_embeddings.weight"][0]
    positions = graph.constant(tensors["embeddings.position_embeddings.weight"][:POSITIONS] + segment)
    zero, length = graph.constant(np.array([0])), graph.add("Shape", "ids", start=1, end=2)
    summed = graph.add("Add", words, graph.add("Slice", positions, zero, length, zero))
    return graph.add(
        "LayerNormalization",
        summed,
        graph.constant(tensors["embeddings.LayerNorm.weight"]),
        graph.constant(tensors["embeddings.LayerNorm.bias"]),
        axis=-1,
        epsilon=EPSILON,
    )


def _layer(graph: _Graph, layer: dict[str, Array], hidden: str) -> str:
    attended = _attention(graph, layer, hidden)
    projected = _linear(graph, layer, ["attention.output.dense"], attended)
    hidden = _add_and_norm(graph, layer, "attention.output.LayerNorm", projected, hidden)
    widened = graph.add("Gelu", _linear(graph, layer, ["intermediate.dense"], hidden))
    narrowed = _linear(graph, layer, ["output.dense"], widened)
    return _add_and_norm(graph, layer, "output.LayerNorm", narrowed, hidden)


def _attention(graph: _Graph, layer: dict[str, Array], hidden: str) -> str:
    parts = [f"attention.self.{name}" for name in ("query", "key", "value")]
    together = _linear(graph, layer, parts, hidden)
    separate = graph.add_many("Split", len(parts), together, axis=2, num_outputs=len(parts))
    return graph.add("MultiHeadAttention", *separate, domain=RUNTIME, num_heads=HEADS)


def _linear(graph: _Graph, layer: dict[str, Array], names: list[str], hidden: str) -> str:
    """The product with one matrix, or with several of them side by side."""
    matrix = np.concatenate([layer[f"{name}.weight"] for name in names])
    bias = np.concatenate([layer[f"{name}.bias"] for name in names])
    rows, columns = matrix.shape
    codes, scale = _quantised(matrix.reshape(rows, columns // BLOCK, BLOCK))
    unsigned = (codes.astype(np.int16) + 128).astype(np.uint8)  # 128 is the operator's own zero
    inputs = [graph.constant(unsigned), graph.constant(scale[..., 0]), "", "", graph.constant(bias)]
    sizes = {"K": columns, "N": rows, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
    return graph.add_with("MatMulNBits", [hidden, *inputs], RUNTIME, sizes)


def _add_and_norm(graph: _Graph, layer: dict[str, Array], name: str, hidden: str, residual: str) -> str:
    gain, shift = graph.constant(layer[f"{name}.weight"]), graph.constant(layer[f"{name}.bias"])
    return graph.add("SkipLayerNormalization", hidden, residual, gain, shift, domain=RUNTIME, epsilon=EPSILON)


def _quantised(values: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Symmetric int8 codes, and one scale for each stretch of the last axis."""
    scale = np.maximum(np.abs(values).max(axis=-1, keepdims=True) / 127, np.finfo(np.float32).tiny)
    return np.rint(values / scale).astype(np.int8), scale.astype(np.float32)


class _Graph:
    """Nodes and constants in the order they are added, each under a number."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, values: Array) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants.append(onnx_file.tensor(name, values))
        return name

    def add(
        self,
        operator: str,
        *inputs: str,
        output: str = "",
        domain: str = "",
        **attributes: onnx_file.Attribute,
    ) -> str:
        return self.add_with(operator, inputs, domain, attributes, output)

    def add_with(
        self,
        operator: str,
        inputs: Sequence[str],
        domain: str,
        attributes: Mapping[str, onnx_file.Attribute],
        output: str = "",
    ) -> str:
        name = output or f"{operator}_{len(self._nodes)}"
        self._nodes.append(onnx_file.node(operator, inputs, [name], domain, attributes))
        return name

    def add_many(
        self, operator: str, count: int, *inputs: str, **attributes: onnx_file.Attribute
    ) -> list[str]:
        names = [f"{operator}_{len(self._nodes)}_{number}" for number in range(count)]
        self._nodes.append(onnx_file.node(operator, inputs, names, "", attributes))
        return names

    def serialized(self, **metadata: str) -> bytes:
        return onnx_file.model(
            self._nodes,
            self._constants,
            [onnx_file.value("ids", onnx_file.INT64, [1, "length"])],
            [onnx_file.value("vector", onnx_file.FLOAT, [1, WIDTH])],
            # The runtime reads files of its own age or older, so the versions are named, not the newest.
            version=9,
            operators={"": 20, RUNTIME: 1},
            metadata=metadata,
        )
