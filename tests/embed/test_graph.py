"""The graph of the default model: what keeps its whole numbers right on every processor, and near the exact ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors.numpy import load_file

from quipu.embed import encoder
from quipu.embed.onnx import OnnxEmbedder
from quipu.embed.smoothing import READERS, Factors, factors


@pytest.fixture(scope="module")
def smoothed(weights_dir: Path) -> Factors:
    return factors(load_file(weights_dir / "model.safetensors"))


async def test_no_sum_of_two_products_leaves_sixteen_bits(embedder: OnnxEmbedder, cache_dir: Path) -> None:
    # Processors without VNNI add two products of a byte and a weight in 16 bits, and stop at their end.
    await embedder.embed(["the graph is there"])
    graph = _kept(cache_dir)
    constants = {constant.name: constant for constant in graph.initializer}
    products = [node for node in graph.node if node.op_type == "DynamicQuantizeMatMul"]
    assert len(products) == 3 * encoder.LAYERS
    for product in products:
        codes = numpy_helper.to_array(constants[product.input[1]]).astype(np.int64)
        assert codes.min() < -60, "the whole room is used"
        assert 2 * 255 * np.abs(codes).max() <= np.iinfo(np.int16).max


def _kept(cache_dir: Path) -> onnx.GraphProto:
    (path,) = cache_dir.glob("*int8*.onnx")
    return onnx.load(path).graph


def test_factors_are_whole_quarters_of_an_octave_so_that_processors_agree(smoothed: Factors) -> None:
    assert set(smoothed) == {(layer, name) for layer in range(encoder.LAYERS) for name in READERS}
    for factor in smoothed.values():
        quarters = 4 * np.log2(factor.astype(np.float64))
        assert np.abs(quarters - np.rint(quarters)).max() < 1e-5
        assert factor.dtype == np.float32
        assert factor.shape == (encoder.WIDTH,)


def test_a_few_channels_are_made_smaller_and_nothing_on_the_whole(smoothed: Factors) -> None:
    for factor in smoothed.values():
        assert abs(float(np.log2(factor).mean())) < 0.1
    for layer in range(encoder.LAYERS):
        factor = smoothed[layer, "widen"]
        assert 1 <= np.count_nonzero(factor > 2 * np.median(factor)) < encoder.WIDTH / 10


def test_the_same_weights_give_the_same_factors(smoothed: Factors, weights_dir: Path) -> None:
    again = factors(load_file(weights_dir / "model.safetensors"))
    assert all(np.array_equal(again[key], factor) for key, factor in smoothed.items())
