"""Values to PostgreSQL and back: JSON as its text, vectors as the ledger's bytes (little-endian float32)."""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING

import psycopg
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.pq import Format
from psycopg.types import TypeInfo

if TYPE_CHECKING:
    from psycopg.abc import Buffer

_HEADER = struct.Struct(">HH")


class Vector:
    """A vector on its way into the database."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def _swapped(data: bytes) -> bytes:
    """Between little-endian and the network's order."""
    numbers = array("I", data)
    numbers.byteswap()
    return numbers.tobytes()


class _VectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Vector) -> Buffer:
        return _HEADER.pack(len(obj.data) // 4, 0) + _swapped(obj.data)


class _VectorLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return _swapped(bytes(data)[_HEADER.size :])


class _TextLoader(Loader):
    format = Format.TEXT

    def load(self, data: Buffer) -> str:
        return str(bytes(data), "utf-8")


class _BinaryLoader(_TextLoader):
    format = Format.BINARY


def adapted(vector: TypeInfo) -> AdaptersMap:
    """How values are passed once the database has said what it calls a vector."""
    adapters = AdaptersMap(psycopg.adapters)
    vector.register(adapters)
    adapters.register_dumper(Vector, type("_Dumper", (_VectorDumper,), {"oid": vector.oid}))
    adapters.register_loader(vector.oid, _VectorLoader)
    adapters.register_loader("json", _TextLoader)
    adapters.register_loader("json", _BinaryLoader)
    return adapters
