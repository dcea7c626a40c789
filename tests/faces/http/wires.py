"""Bare connections and bounded waits."""

from __future__ import annotations

import select
import socket
import time

from tests.faces.serving import PATIENCE_S, Served


def wait_for(happened: object) -> None:
    """Until it has; a bounded wait, not a guess how long it takes."""
    assert callable(happened)
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        select.select([], [], [], 0.01)


def read_all(connection: socket.socket) -> bytes:
    """Until the other side closes."""
    said = b""
    while piece := connection.recv(65536):
        said += piece
    return said


def read_until(connection: socket.socket, text: bytes) -> bytes:
    """Until the other side has said something."""
    said = b""
    while text not in said:
        piece = connection.recv(65536)
        assert piece, said
        said += piece
    return said


def head(at: Served, path: str, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {at.admin_token}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()
