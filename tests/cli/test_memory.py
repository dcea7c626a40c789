"""The five operations and the reads, as a person and as a program sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.published import valid

DAY_MS = 86_400_000


def test_remember_says_the_id_and_what_it_kept_can_be_shown(cli: Cli) -> None:
    said = cli.said(
        "remember", "Mara is vegetarian", "--user", "mara", "--tag", "food", "--confidence", "0.9"
    )
    name = said.split()[1]
    assert said.startswith("Remembered  mem_")
    shown = cli.said("show", name)
    assert "Mara is vegetarian" in shown
    assert name in shown
    assert '["food"]' in shown
    assert "0.9" in shown


def test_remember_answers_with_the_wire_reply_and_its_extensions(cli: Cli) -> None:
    body = cli.json("remember", "Mara is vegetarian")
    valid("operations/remember.response", body)
    assert body["extensions"]["quipu"] == {"seq": 2, "version": 1, "outcome": "created"}
    assert body["pending_approval"] is False


def test_remember_quietly_prints_nothing_but_the_id(cli: Cli) -> None:
    result = cli("remember", "Mara is vegetarian", "--quiet")
    assert result.stdout.startswith("mem_")
    assert len(result.stdout.split()) == 1
    assert result.stderr == ""


def test_remember_reads_its_text_from_standard_input(cli: Cli) -> None:
    name = cli.json("remember", "-", input="två rader\noch ø\n")["id"]
    assert cli.json("show", name)["content"] == "två rader\noch ø"


def test_remember_takes_every_field_it_offers(cli: Cli) -> None:
    other = cli.remember("Apollo is a project")
    cli.json("store", "create", "notes")
    name = cli.remember(
        "Apollo ships in June",
        *("--type", "episodic", "--user", "ilir", "--source", "document", "--importance", "0.7"),
        *("--metadata", '{"year": 2026}', "--tag", "a", "--tag", "b", "--link", f"{other}:about"),
        *("--store", "notes", "--session", "s1", "--key", "k1", "--expires", "30d"),
    )
    body = cli.json("show", name)
    assert (body["type"], body["user_id"], body["source"]) == ("episodic", "ilir", "document")
    assert (body["importance"], body["session_id"], body["store"]) == (0.7, "s1", "notes")
    assert body["tags"] == ["a", "b"]
    assert body["links"] == [{"to": other, "rel": "about"}]
    assert body["metadata"]["year"] == 2026
    assert body["expires_at"] - body["created_at"] == pytest.approx(30 * DAY_MS, abs=60_000)


def test_remember_with_an_id_changes_the_record_and_a_key_makes_it_happen_once(cli: Cli) -> None:
    name = cli.remember("Mara lives in Lisbon")
    assert "Changed" in cli.said("remember", "Mara lives in Porto", "--id", name, "--key", "move")
    again = cli.json("remember", "Mara lives in Porto", "--id", name, "--key", "move")
    assert again["extensions"]["quipu"]["version"] == 2
    cli.json("remember", "since April", "--id", name, "--update-strategy", "append", "--if-version", "2")
    assert cli.json("show", name)["content"] == "Mara lives in Porto\nsince April"


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ("1900000000000", 1_900_000_000_000),
        ("2030-01-31T12:00:00Z", 1_896_091_200_000),
        ("2030-01-31T14:00:00+02:00", 1_896_091_200_000),
    ],
)
def test_expires_takes_milliseconds_and_moments(cli: Cli, given: str, at: int) -> None:
    assert cli.json("show", cli.remember("for a while", "--expires", given))["expires_at"] == at


def test_a_memory_for_a_while_is_kept_once_under_one_key(cli: Cli) -> None:
    """Thirty days from now is another moment each time; the request must be the same all the same."""
    first = cli.remember("tea at four", "--expires", "30d", "--key", "k7")
    assert cli.remember("tea at four", "--expires", "30d", "--key", "k7") == first
    shown = cli.json("show", first)
    assert shown["expires_at"] - shown["created_at"] == 30 * DAY_MS


def test_a_memory_that_has_ended_already_is_said_to_be_so(cli: Cli) -> None:
    """`--expires 30` means 30 milliseconds after 1970, which nobody means."""
    assert "has ended already" in cli("remember", "tea", "--expires", "30").stderr
    assert "has ended already" not in cli("remember", "tea", "--expires", "30d").stderr
    warned = cli("remember", "tea", "--expires", "30", "--json")
    assert "has ended already" in json.loads(warned.stderr)["warning"]


def test_a_held_write_ends_with_code_3_and_says_how_to_decide(cli: Cli) -> None:
    result = cli("remember", "Wire 900 EUR", "--approve")
    assert result.exit_code == 3
    assert "Held for approval  prp_" in result.stdout
    assert "quipu review show prp_" in result.stderr
    body = cli.json("remember", "Wire 800 EUR", "--approve", code=3)
    valid("operations/remember.response", body)
    assert body["approval_url"].startswith("quipu:proposal/prp_")


def test_recall_shows_a_bar_the_number_and_the_whole_id(cli: Cli) -> None:
    name = cli.remember("Mara is vegetarian", "--user", "mara")
    cli.remember("Ilir prefers trains")
    said = cli.said("recall", "is Mara vegetarian?")
    first = said.splitlines()[0]
    assert "█" in first
    assert "Mara is vegetarian" in first
    assert name in said


def test_recall_answers_with_the_wire_reply(cli: Cli) -> None:
    name = cli.remember("Mara is vegetarian", "--user", "mara")
    body = cli.json("recall", "is Mara vegetarian?", "-k", "3", "--explain")
    valid("operations/recall.response", body)
    assert [hit["id"] for hit in body["results"]] == [name]
    assert "why" in body["results"][0]
    assert "quipu" in body["extensions"]


def test_recall_says_clearly_that_nothing_matches(cli: Cli) -> None:
    cli.remember("Mara is vegetarian")
    assert cli.said("recall", "chess tournament Oslo").strip() == "Nothing matches."
    assert cli.json("recall", "chess tournament Oslo")["results"] == []


def test_recall_explains_each_hit(cli: Cli) -> None:
    cli.remember("Mara is vegetarian")
    assert "why: " in cli.said("recall", "vegetarian", "--explain")


def test_recall_narrows_by_user_type_filter_store_and_time(cli: Cli) -> None:
    cli.json("store", "create", "notes")
    wanted = cli.remember(
        *("coffee at nine", "--user", "mara", "--type", "episodic", "--store", "notes", "--session", "s"),
        *("--metadata", '{"topic": "drinks"}'),
    )
    for text, more in (("coffee at ten", ["--user", "ilir"]), ("coffee at noon", ["--user", "mara"])):
        cli.remember(text, *more)
    for narrowed in (
        ["--user", "mara", "--type", "episodic"],
        ["--filter", '{"topic": "drinks"}'],
        ["--store", "notes"],
        ["--session", "s"],
    ):
        found = cli.json("recall", "coffee", "--min-relevance", "off", "--fresher-than-days", "1", *narrowed)
        assert [hit["id"] for hit in found["results"]] == [wanted], narrowed


def test_recall_travels_back_to_a_position(cli: Cli) -> None:
    name = cli.remember("Mara lives in Lisbon")
    cli.remember("Mara lives in Porto", "--id", name)
    then = cli.json("recall", "where does Mara live", "--as-of", "2", "--min-relevance", "off")
    assert then["results"][0]["content"] == "Mara lives in Lisbon"
    assert "Lisbon" in cli.said("show", name, "--as-of", "2")


def test_recall_keeps_to_its_budget_and_its_floor(cli: Cli) -> None:
    for number in range(3):
        cli.remember(f"tea number {number} " + "is hot " * 20)
    words = ("recall", "tea", "--hops", "1", "--fusion", "max", "--max-tokens", "10")
    found = cli.json(*words, "--min-relevance", "0")
    assert len(found["results"]) == 1
    assert found["results"][0]["truncated"] is True
    assert cli.json("recall", "tea", "--min-relevance", "1.0")["results"] == []


def test_text_that_would_act_on_a_terminal_is_shown_harmless(cli: Cli) -> None:
    name = cli.json("remember", "-", input="a\x1b[31mred\x07")["id"]
    for words in (("show", name), ("list",), ("recall", "red"), ("history", name)):
        assert "\x1b" not in cli.said(*words)
        assert "\x07" not in cli.said(*words)
    assert cli.json("show", name)["content"] == "a\x1b[31mred\x07"


def test_forget_and_restore(cli: Cli) -> None:
    name = cli.remember("Mara is vegetarian")
    dry = cli.said("forget", "--id", name, "--dry-run")
    assert "Would forget 1 record" in dry
    assert name in dry
    said = cli.said("forget", "--id", name, "--reason", "wrong")
    assert "Forgot 1 record" in said
    assert cli.json("list")["records"] == []
    assert cli.json("list", "--state", "forgotten")["records"][0]["state"] == "forgotten"
    assert "Restored" in cli.said("restore", name, "--reason", "right after all")
    assert cli.json("show", name)["content"] == "Mara is vegetarian"
    body = cli.json("forget", "--id", name, "--id", "mem_unknown")
    valid("operations/forget.response", body)
    assert body["forgotten_ids"] == [name]
    assert cli.json("restore", name)["id"] == name


def test_forget_takes_ids_as_other_commands_do(cli: Cli) -> None:
    one, two, three = (cli.remember(text) for text in ("one", "two", "three"))
    assert sorted(cli.json("forget", one, two, "--id", three)["forgotten_ids"]) == sorted([one, two, three])
    assert cli.json("list")["records"] == []


def test_forget_refuses_what_is_large_or_final_when_nobody_can_be_asked(cli: Cli) -> None:
    for number in range(11):
        cli.remember(f"fact {number}", "--tag", "bulk")
    for words in (["--filter", '{"tags": "bulk"}'], ["--filter", '{"tags": "bulk"}', "--hard"]):
        problem = cli.problem("forget", *words)
        assert problem["reason"] == "confirmation_required"
        assert "--yes" in problem["hint"]
    assert len(cli.json("list")["records"]) == 11
    assert "Forgot 11 records" in cli.said("forget", "--filter", '{"tags": "bulk"}', "--yes")


def test_a_hard_delete_erases_and_says_so(cli: Cli, home: Path) -> None:
    name = cli.remember("Mara is vegetarian")
    body = cli.json("forget", "--id", name, "--hard", "--yes")
    assert body["hard_delete"] is True
    assert body["extensions"]["quipu"]["receipt"]["erased"] == 1
    assert b"vegetarian" not in (home / "memory.db").read_bytes()
    history = cli.json("history", name)
    assert [version["erased"] for version in history["versions"]] == [True]
    assert "erased" in cli.said("history", name)


def test_merge_collapses_duplicates(cli: Cli) -> None:
    first, second, third = (cli.remember(f"Mara likes tea {word}") for word in ("a", "b", "c"))
    assert "Would merge 1 record" in cli.said("merge", first, second, "--dry-run")
    assert f"Merged 1 record into {first}" in cli.said("merge", first, second, "--strategy", "merge_content")
    body = cli.json("merge", first, third, "mem_unknown")
    valid("operations/merge.response", body)
    assert body["merged_count"] == 1
    assert body["extensions"]["quipu"]["not_found"] == ["mem_unknown"]
    assert cli.json("show", first)["content"] == "Mara likes tea a\nMara likes tea b"


def test_expire_acts_on_what_a_policy_matches(cli: Cli) -> None:
    name = cli.remember("perhaps", "--confidence", "0.2")
    cli.remember("surely")
    dry = cli.said("expire", "--confidence-below", "0.5", "--dry-run")
    assert "Would forget 1 record" in dry
    assert name in dry
    assert "Demoted 1 record" in cli.said("expire", "--confidence-below", "0.5", "--action", "demote")
    body = cli.json("expire", "--confidence-below", "0.5", "--type", "semantic", "--action", "archive")
    valid("operations/expire.response", body)
    assert body["matched_count"] == 1
    assert cli.json("list", "--state", "archived")["records"][0]["id"] == name


def test_sweep_closes_what_has_expired(cli: Cli) -> None:
    cli.remember("gone", "--expires", "1000")
    cli.remember("gone too", "--expires", "1000")
    assert cli.json("sweep") == {"closed": 2}
    assert "Closed 0 expired records" in cli.said("sweep")


def test_list_is_a_table_with_whole_ids_and_local_times(cli: Cli) -> None:
    name = cli.remember("Mara is vegetarian\nand more", "--user", "mara")
    said = cli.said("list")
    assert name in said
    assert "Mara is vegetarian and more" in said
    assert "T" in said.split(name)[1]
    assert "+00:00" in said


def test_list_pages_through_everything(cli: Cli) -> None:
    names = [cli.remember(f"fact {number}") for number in range(5)]
    first = cli.json("list", "--limit", "3")
    rest = cli.json("list", "--limit", "3", "--cursor", first["next_cursor"])
    seen = [record["id"] for record in first["records"] + rest["records"]]
    assert seen == names[::-1]
    assert rest["next_cursor"] is None
    assert "--cursor" in cli("list", "--limit", "3").stderr


def test_list_of_nothing_says_so_and_prints_nothing(cli: Cli) -> None:
    result = cli("list")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "No records" in result.stderr
    assert cli.json("list") == {"records": [], "next_cursor": None}


def test_list_narrows_and_crosses_agents(cli: Cli) -> None:
    mine = cli.remember("mine", "--user", "mara", "--session", "s")
    theirs = cli.remember("theirs", "--agent", "other")
    assert [r["id"] for r in cli.json("list", "--user", "mara", "--session", "s")["records"]] == [mine]
    assert [r["id"] for r in cli.json("list", "--agent", "other")["records"]] == [theirs]
    assert len(cli.json("list", "--all-agents")["records"]) == 2
    assert "other" in cli.said("list", "--all-agents")
    assert cli.json("list", "--filter", '{"user_id": "nobody"}', "--type", "semantic")["records"] == []


def test_history_shows_every_version_and_why(cli: Cli) -> None:
    name = cli.remember("Mara lives in Lisbon")
    cli.remember("Mara lives in Porto", "--id", name)
    cli.json("forget", "--id", name, "--reason", "she moved on")
    said = cli.said("history", name)
    assert said.index("Lisbon") < said.index("Porto")
    assert "she moved on" in said
    versions = cli.json("history", name)["versions"]
    assert [version["version"] for version in versions] == [1, 2]
    assert versions[0]["ending"] == "replaced"
    assert versions[1]["ending"] == versions[1]["record"]["state"] == "forgotten"


def test_a_procedure_is_kept_and_shown_as_its_machine(cli: Cli) -> None:
    machine = {"name": "return", "initial": "a", "states": ["a"], "transitions": []}
    name = cli.remember(json.dumps(machine), "--type", "procedural")
    assert cli.json("show", name)["content"]["name"] == "return"
    assert '"name": "return"' in cli.said("show", name)


# -- whose memories there are ------------------------------------------------------------------------------------


def test_who_looks_as_another_agent_is_told_whose_memories_there_are(cli: Cli) -> None:
    """A memory that Python has filled looks empty to who does not name its agent."""
    cli.remember("Mara is vegetarian", "--agent", "assistant")
    for words in (["list"], ["recall", "Mara"], ["list", "--user", "mara"]):
        told = cli(*words).stderr
        assert "The agent default has no memories here, but there are some of: assistant." in told, words
        assert cli(*words, "--quiet").stderr == ""
        assert cli(*words, "--json").stderr == ""
    cli.remember("Tom plays the cello")
    assert "assistant" not in cli("list", "--user", "nobody").stderr
    assert "No records match." in cli("list", "--user", "nobody").stderr
    assert "assistant" not in cli("recall", "zeppelin").stderr


def test_an_id_that_leads_to_nothing_is_told_when_something_is_erased(cli: Cli) -> None:
    name = cli.remember("to be erased")
    result = cli("erase", name, "mem_mistyped", "--yes")
    assert result.exit_code == 0
    assert "Erased 1 memory" in result.stdout
    assert "1 of 2 ids led to nothing: check them." in result.stderr


def test_an_operator_s_longest_time_binds_the_shell_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIPU_MAX_RETAIN", "30d")
    shown = cli.json("show", cli.remember("The visitor's door code", "--expires", "900d"))
    assert shown["expires_at"] - shown["created_at"] == 30 * DAY_MS
    monkeypatch.setenv("QUIPU_MAX_RETAIN", "a while")
    problem = cli.problem("remember", "Another")
    assert problem["reason"] == "bad_setting"
    assert "QUIPU_MAX_RETAIN" in problem["hint"]
