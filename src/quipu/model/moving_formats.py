"""The formats that whole memories come and go in."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Files that memories come and go in. The first six are written too; the others are only read."""

    BUNDLE = "quipu-bundle-v1"
    PAM = "pam-1.0"
    OMI = "omi-l1"
    MARKDOWN = "markdown"
    MEM0 = "mem0"
    LETTA = "letta-blocks"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    GEMINI = "gemini"
    TEXT = "text"


WRITTEN = (Format.BUNDLE, Format.PAM, Format.OMI, Format.MARKDOWN, Format.MEM0, Format.LETTA)
