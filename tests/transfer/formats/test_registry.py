"""A file is told by what is in it, and what nobody knows is refused with what would be accepted."""

import typing
from pathlib import Path

import pytest

from quipu.errors import InvalidError
from quipu.transfer.formats import registry
from quipu.transfer.formats.names import FormatName, WrittenName
from tests.transfer.formats.shelf import packed, read

PASTED = """# What I know about you

```
- [2025-03-04] Mara prefers green tea
- Mara lives in Utrecht
  near the station
1. Works at the harbour
```
"""


def test_what_nobody_knows_is_refused_with_a_stable_word() -> None:
    for data, reason in {
        b"": "empty_file",
        b" \n": "empty_file",
        b"{}": "unknown_format",
        b"[]": "unknown_format",
        b"\x00\x01\x02": "unknown_format",
        b'[{"x": 1}]': "unknown_format",
        packed({"a.bin": b"x"}): "unknown_format",
        "- tea".encode("utf-16"): "bad_encoding",
        b"age-encryption.org/v1\n-> X25519": "encrypted_file",
    }.items():
        with pytest.raises(InvalidError) as refused:
            read(data)
        assert refused.value.reason == reason, data[:20]
    with pytest.raises(InvalidError) as refused:
        read(b"{}")
    assert "text" in str(refused.value.hint)


def test_the_list_of_formats_is_what_requests_and_pages_show() -> None:
    names = [format_.name for format_ in registry.FORMATS]
    assert sorted(names) == sorted(typing.get_args(FormatName))
    written = {format_.name for format_ in registry.FORMATS if format_.write}
    assert written == set(typing.get_args(WrittenName))
    howto = (Path(__file__).parents[3] / "docs/howto/import-from-other-systems.md").read_text("utf-8")
    assert all(f"| `{name}` |" in howto for name in names)
    with pytest.raises(InvalidError) as refused:
        registry.named("tar")
    assert refused.value.reason == "unknown_format"


def test_pasted_bullets_are_one_item_each() -> None:
    found = read(PASTED, name="memory.txt")
    assert (found.format, found.belief, found.source) == ("text", 0.6, "text")
    items = [item for _, item in found.items() if isinstance(item, dict)]
    assert [(item["kind"], item["content"]["text"]) for item in items] == [
        ("preference", "Mara prefers green tea"),
        ("fact", "Mara lives in Utrecht\nnear the station"),
        ("fact", "Works at the harbour"),
    ]
    assert items[0]["provenance"]["captured_at"] == "2025-03-04T00:00:00Z"
    assert read("one\n\xa0\ntwo é".encode("latin-1") + b"\nthree", "text").format == "text"
