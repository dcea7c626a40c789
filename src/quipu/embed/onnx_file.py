"""An ONNX file written without the `onnx` package (29 MB): the few protobuf messages that a graph is made of.

Field numbers are those of onnx.proto, which never change. A test reads the result with the real package.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOAT, UINT8, INT8, INT64 = 1, 2, 3, 7
_ELEMENTS = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int64": INT64}

#: The runtime's own operators: fused, and older than the standard's equivalents.
RUNTIME = "com.microsoft"

Attribute = float | int


def node(
    operator: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    domain: str,
    attributes: Mapping[str, Attribute],
) -> bytes:
    """One operation (NodeProto)."""
    ends = [_block(1, name) for name in inputs] + [_block(2, name) for name in outputs]
    named = [_block(5, _attribute(name, value)) for name, value in sorted(attributes.items())]
    return b"".join([*ends, _block(4, operator), *named, _block(7, domain)])


def tensor(name: str, values: NDArray[Any]) -> bytes:
    """One constant (TensorProto)."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    shape = b"".join(_number(1, size) for size in values.shape)
    return shape + _number(2, _ELEMENTS[values.dtype.name]) + _block(8, name) + _block(9, little.tobytes())


def value(name: str, element: int, shape: Iterable[int | str]) -> bytes:
    """ValueInfoProto of a tensor; a size given as text is free."""
    sizes = b"".join(
        _block(1, _block(2, size) if isinstance(size, str) else _number(1, size)) for size in shape
    )
    return _block(1, name) + _block(2, _block(1, _number(1, element) + _block(2, sizes)))


def model(
    nodes: Iterable[bytes],
    constants: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    *,
    version: int,
    operators: Mapping[str, int],
    metadata: Mapping[str, str],
) -> bytes:
    """The whole file (ModelProto)."""
    parts = ((1, nodes), (5, constants), (11, inputs), (12, outputs))
    graph = _block(2, "quipu") + b"".join(_block(field, part) for field, many in parts for part in many)
    opsets = [_block(8, _block(1, domain) + _number(2, number)) for domain, number in operators.items()]
    told = [_block(14, _block(1, key) + _block(2, text)) for key, text in metadata.items()]
    return b"".join([_number(1, version), _block(7, graph), *opsets, *told])


class Graph:
    """Nodes and constants in the order they are added, each under a number."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, values: NDArray[Any]) -> str:
        """The name under which these values can be used."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(tensor(name, values))
        return name

    def add(
        self, operator: str, *inputs: str, output: str = "", domain: str = "", **attributes: Attribute
    ) -> str:
        """One operation. The name of what it gives."""
        name = output or f"{operator}_{len(self._nodes)}"
        self._nodes.append(node(operator, inputs, [name], domain, attributes))
        return name

    def add_many(self, operator: str, count: int, *inputs: str, **attributes: Attribute) -> list[str]:
        """One operation that gives several things. Their names."""
        names = [f"{operator}_{len(self._nodes)}_{number}" for number in range(count)]
        self._nodes.append(node(operator, inputs, names, "", attributes))
        return names

    def serialized(self, inputs: Iterable[bytes], outputs: Iterable[bytes], **metadata: str) -> bytes:
        """The whole file."""
        # The runtime reads files of its own age or older, so the versions are named, not the newest.
        return model(
            self._nodes,
            self._constants,
            inputs,
            outputs,
            version=9,
            operators={"": 20, RUNTIME: 1},
            metadata=metadata,
        )


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _block(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
    return _block(1, name) + _number(3, value) + _number(20, 2)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _block(field: int, value: bytes | str) -> bytes:
    data = value.encode("utf-8") if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative number is its two's complement
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)
