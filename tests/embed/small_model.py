"""A model small enough to work its vectors out by hand, in a directory as a user would name it."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

PIECES = ("[UNK]", "[CLS]", "[SEP]", "find", ":", "tea", "coffee", "sea")
TABLE = np.random.default_rng(3).standard_normal((len(PIECES), 4)).astype(np.float32)


def hidden(*words: str) -> NDArray[np.float32]:
    """What the graph gives for these pieces: a vector for each, and in every one something of the others."""
    rows = TABLE[[PIECES.index(word) for word in ("[CLS]", *words, "[SEP]")]]
    return rows + rows.mean(axis=0)


def graph() -> bytes:
    """An encoder with the inputs and the output that published ones have."""
    table = numpy_helper.from_array(TABLE, "table")
    axes = numpy_helper.from_array(np.array([1]), "axes")
    last = numpy_helper.from_array(np.array([2]), "last")
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, [1, "n"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("ReduceMean", ["words", "axes"], ["mean"], keepdims=1),
        helper.make_node("Add", ["words", "mean"], ["mixed"]),
        # A mask of ones and types of zeros leave everything as it is.
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["mask_wide"]),
        helper.make_node("Mul", ["mixed", "mask_wide"], ["masked"]),
        helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["types", "last"], ["types_wide"]),
        helper.make_node("Add", ["masked", "types_wide"], ["last_hidden_state"]),
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [1, "n", 4])
    drawn = helper.make_graph(nodes, "small", inputs, [output], [table, axes, last])
    model = helper.make_model(drawn, ir_version=9, opset_imports=[helper.make_opsetid("", 20)])
    return model.SerializeToString()


def written(folder: Path, **entries: Any) -> Path:
    """The folder, with the model's files and its description; `entries` stand in the description, None leaves one out."""
    folder.mkdir(exist_ok=True)
    files = {
        "graph": ("model.onnx", graph()),
        "vocabulary": ("vocab.txt", "\r\n".join([*PIECES, ""]).encode()),
    }
    description: dict[str, Any] = {
        "name": "small",
        "dimensions": 4,
        "window": 8,
        "overlap": 0,
        "pooling": "cls",
    }
    for part, (name, content) in files.items():
        (folder / name).write_bytes(content)
        description[part] = {"name": name, "sha256": sha256(content).hexdigest()}
    description |= entries
    kept = {key: value for key, value in description.items() if value is not None}
    (folder / "model.json").write_text(json.dumps(kept), "utf-8")
    return folder
