"""What the commands of upkeep do and say."""

from pathlib import Path

from tests.cli.conftest import Cli, cli, home

__all__ = ["cli", "home"]


def test_the_command_copies_what_it_is_told_to(cli: Cli, home: Path) -> None:
    assert cli("remember", "Ana likes tea").code == 0
    done = cli("db", "copy", f"sqlite:///{home}/copy.db")
    assert done.code == 0, done.err
    assert "default" in done.out
    shown = cli("recall", "tea", "--store-url", f"sqlite:///{home}/copy.db")
    assert "Ana likes tea" in shown.out
    again = cli("db", "copy", f"sqlite:///{home}/copy.db")
    assert again.code == 1, again.err
    assert "already" in again.err
    missing = cli("db", "copy", f"sqlite:///{home}/other.db", "--store-url", f"sqlite:///{home}/nothing.db")
    assert missing.code != 0
    assert not (home / "other.db").exists()


def test_the_commands_of_upkeep_answer_people_and_programs(cli: Cli, home: Path) -> None:
    assert cli("remember", "Ana likes tea").code == 0
    made = cli("backup", str(home / "backup.db"))
    assert made.code == 0, made.err
    assert (home / "backup.db").exists()
    again = cli("backup", str(home / "backup.db"), "--json")
    assert again.code == 2
    assert "target_exists" in again.err
    for words in (["vacuum"], ["vacuum", "--keep-history-days", "365"], ["reindex"]):
        done = cli(*words)
        assert done.code == 0, (words, done.err)
    assert "default" in cli("reindex").out
