"""What is told where an erasure does not reach every word."""

from __future__ import annotations

from tests.cli.conftest import Cli


def test_who_erases_a_duplicate_is_told_where_a_merge_took_its_words(cli: Cli) -> None:
    one = cli.json("remember", "tea")["id"]
    two = cli.json("remember", "cake with a candle")["id"]
    cli.json("merge", one, two, "--strategy", "merge_content")
    for more in ("--dry-run", "--yes"):
        done = cli("forget", two, "--hard", more)
        assert f"erase {one} too" in done.stderr.replace("\n", " ")
    assert "erase" not in cli("forget", one, "--hard", "--yes").stderr
