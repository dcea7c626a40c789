"""How wide each channel of the model swings, and what to divide it by so that one scale can serve all channels.

A few channels of a layer's normed state swing ten times as wide as the others, in every text. With one scale for all
they would leave the others a handful of steps. So each channel is divided by a factor of its own, and the matrix behind
it multiplied by the same: the product stays, and both sides are easier to quantise.

The widths are those over words from all over the vocabulary, one after the other: that came as near to the exact vectors
as real texts did, and needs none. Factors are rounded to steps of a quarter of an octave, so that rounding on another processor does not
make another model of the same name.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quipu.embed import encoder, onnx_file
from quipu.embed.encoder import Product, Tensors
from quipu.embed.onnx_file import Graph
from quipu.embed.runtime import ran

#: What reads a normed state. What the others read swings evenly, or in single words instead of channels.
READERS = ("attend", "widen")

#: How much of the difficulty goes over to the matrix; 0.5 to 0.65 came out alike.
_SHARE = 0.6
_STEPS_AN_OCTAVE = 4
_TEXTS, _WORDS = 16, 62
_FIRST_WORD, _LAST_WORD = 1_996, 29_000
#: A prime, so that neighbours have nothing to do with each other.
_STRIDE = 7_919
_BEGIN, _END = 101, 102

Factors = dict[tuple[int, str], NDArray[np.float32]]


def factors(tensors: Tensors) -> Factors:
    """What to divide the channels that go into each reader by, under its layer and name."""
    graph = Graph()
    widths: dict[tuple[int, str], str] = {}
    products: list[Product] = []

    def watched(graph: Graph, product: Product, given: str) -> str:
        if product.name in READERS:
            axes = graph.constant(np.array([0, 1]))
            width = graph.add("ReduceMax", graph.add("Abs", given), axes, keepdims=0)
            widths[product.layer, product.name] = width
            products.append(product)
        exact = graph.add("MatMul", given, graph.constant(np.ascontiguousarray(product.matrix.T)))
        return graph.add("Add", exact, graph.constant(product.bias))

    encoder.encoded(graph, tensors, watched)
    outputs = [onnx_file.value(name, onnx_file.FLOAT, [encoder.WIDTH]) for name in widths.values()]
    found = ran(graph.serialized(encoder.inputs(), outputs), _texts())
    widest = np.max(np.array(found), axis=0)
    return {
        (product.layer, product.name): _factor(product, width)
        for product, width in zip(products, widest, strict=True)
    }


def _factor(product: Product, width: NDArray[np.float32]) -> NDArray[np.float32]:
    """Wide channels, and channels that meet small weights, are made smaller; on the whole nothing is."""
    weight = np.abs(product.matrix).max(axis=0)
    steps = _STEPS_AN_OCTAVE * (_SHARE * np.log2(width) - (1 - _SHARE) * np.log2(weight))
    return np.exp2(np.rint(steps - steps.mean()) / _STEPS_AN_OCTAVE).astype(np.float32)


def _texts() -> list[NDArray[np.int64]]:
    """Texts of words from all over the vocabulary, the same on every machine."""
    numbers = np.arange(_TEXTS * _WORDS, dtype=np.int64) * _STRIDE % (_LAST_WORD - _FIRST_WORD)
    words = (_FIRST_WORD + numbers).reshape(_TEXTS, _WORDS)
    return [np.pad(text, 1, constant_values=(_BEGIN, _END))[None] for text in words]
