"""What formats are called."""

from typing import Literal, TypeAlias

FormatName: TypeAlias = Literal[
    "bundle",
    "mem0",
    "letta",
    "langgraph",
    "graphiti",
    "cogx",
    "memorywire",
    "records",
    "oap",
    "chatgpt",
    "claude",
    "text",
]
WrittenName: TypeAlias = Literal["bundle", "mem0", "letta"]
