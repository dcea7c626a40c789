"""The file we write is an ONNX file: read back with the real package, which only the tests need."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from quipu.embed import onnx_file


def _written() -> onnx.ModelProto:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    payload = onnx_file.model(
        [onnx_file.node("Add", ["x", "c"], ["y"], "", {})],
        [onnx_file.tensor("c", values)],
        [onnx_file.value("x", onnx_file.FLOAT, [2, "n"])],
        [onnx_file.value("y", onnx_file.FLOAT, [2, 3])],
        version=9,
        operators={"": 20, "com.microsoft": 1},
        metadata={"tokenizer": "{}"},
    )
    return onnx.load_from_string(payload)


def test_the_real_package_reads_and_accepts_what_we_write() -> None:
    model = _written()
    onnx.checker.check_model(model)
    assert [node.op_type for node in model.graph.node] == ["Add"]
    assert np.array_equal(
        numpy_helper.to_array(model.graph.initializer[0]), np.arange(6, dtype=np.float32).reshape(2, 3)
    )
    assert {prop.key: prop.value for prop in model.metadata_props} == {"tokenizer": "{}"}


def test_attributes_keep_their_kind_and_sign() -> None:
    payload = onnx_file.node("Op", ["a"], ["b"], "com.microsoft", {"axis": -1, "epsilon": 1e-12, "size": 300})
    node = onnx.NodeProto.FromString(payload)
    values = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    assert values["axis"] == -1
    assert values["size"] == 300
    assert abs(values["epsilon"] - 1e-12) < 1e-18


def test_small_integers_are_written_as_bytes() -> None:
    for dtype in (np.uint8, np.int8, np.int64):
        values = np.array([1, 2, 3], dtype)
        tensor = onnx.TensorProto.FromString(onnx_file.tensor("t", values))
        assert np.array_equal(numpy_helper.to_array(tensor), values)
