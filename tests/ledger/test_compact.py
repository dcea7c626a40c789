"""What a file keeps short: in the same words for whoever reads it, and beside what was written before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from quipu.ledger import rows
from quipu.ledger.sqlite.ledger import SqliteLedger
from quipu.model.journal import Entry, Mention, Op
from quipu.model.record import Provenance, Trust
from quipu.model.search import Scope
from quipu.testing.builders import CountedIds, FixedClock, Scribe, adding, canonical

#: The last schema that kept names and hexadecimal digits.
WORDY = 8
DIGEST = "0f" * 32


#: What the steps since then have brought, taken back.
TAKEN_BACK = """
DROP INDEX receipt_grant; DROP INDEX receipt_kill_switch; DROP INDEX receipt_agent;
ALTER TABLE tenant DROP COLUMN terms;
"""


def opened(path: Path) -> SqliteLedger:
    return SqliteLedger(path, clock=FixedClock(), mint_id=CountedIds(), canonical=canonical)


def entry(*mentions: Mention) -> Entry:
    return Entry(
        tenant="t",
        seq=1,
        at=2,
        actor="a",
        op=Op.REMEMBER,
        store=None,
        agent="ana",
        run=None,
        node=None,
        records=mentions,
        detail={},
        prev="00" * 32,
        hash="11" * 32,
    )


@pytest.mark.parametrize("is_terse", [True, False])
@pytest.mark.parametrize(
    "mention",
    [
        Mention("mem_1", 1, DIGEST),
        Mention('an id with "blanks" and \u00e9', 12, "00" * 32),
        Mention("mem_2", 3, "ff" * 32),
        Mention("without a digest", 1, ""),
    ],
)
def test_an_entry_says_the_same_in_either_form(mention: Mention, is_terse: bool) -> None:
    told = entry(mention, mention)
    assert rows.entry_of(rows.entry_values(told, is_terse=is_terse)) == told


def test_a_mention_is_a_quarter_shorter() -> None:
    told = entry(Mention("mem_01M7GMZHKQDQDWKGMAE2AXZV4E", 1, DIGEST))
    terse, wordy = (rows.entry_values(told, is_terse=is_terse)[9] for is_terse in (True, False))
    assert isinstance(terse, str)
    assert isinstance(wordy, str)
    assert len(terse) <= 0.77 * len(wordy)


@pytest.mark.parametrize("is_terse", [True, False])
@pytest.mark.parametrize("more", [{}, {"run_id": "r"}, {"subject": "Ana"}, {"captured_at": 7}])
async def test_a_record_says_the_same_in_either_form(
    tmp_path: Path, more: dict[str, object], is_terse: bool
) -> None:
    ledger = opened(tmp_path / "memory.db")
    provenance = replace(Provenance(written_by='"b" [o', trust=Trust.AGENT), **more)
    record = replace((await Scribe.at(ledger, FixedClock())).drafted("tea"), provenance=provenance)
    await ledger.close()
    values = rows.record_values(record, 5, None, is_terse=is_terse)
    row = (1, *values[:4], None, None, None, None, *values[4:])
    assert rows.record_of(row) == replace(record, born=5)


async def test_a_file_from_before_is_read_and_written_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.db"
    with monkeypatch.context() as before:
        terse = rows.record_values, rows.entry_values
        before.setattr(rows, "record_values", lambda *given, **_: terse[0](*given))
        before.setattr(rows, "entry_values", lambda *given, **_: terse[1](*given))
        ledger = opened(path)
        old = await (await Scribe.at(ledger, FixedClock())).put("tea at noon")
        await ledger.close()
    with apsw.Connection(str(path)) as connection:
        connection.execute(TAKEN_BACK)
        connection.pragma("user_version", WORDY)
    ledger = opened(path)
    scribe = await Scribe.at(ledger, FixedClock(), CountedIds("n"))
    new = await scribe.put("cake")
    read = await ledger.read(scribe.tenant, [old.id, new.id])
    mentioned = [mention.id for told in await scribe.entries() for mention in told.records]
    faults = await scribe.audit()
    await ledger.close()
    assert (read, faults) == ({old.id: old, new.id: new}, [])
    assert mentioned == [old.id, new.id]
    with apsw.Connection(str(path)) as connection:
        kept = connection.execute("SELECT substr(provenance, 1, 1) FROM record ORDER BY row").fetchall()
    assert kept == [("{",), ("[",)]


async def test_what_one_commit_wrote_is_listed_by_id(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "memory.db")
    scribe = await Scribe.at(ledger, FixedClock())
    drafts = [scribe.drafted(f"record {number}") for number in range(20)]
    await scribe.commit(*(adding(draft) for draft in (*drafts[10:], *drafts[:10])))
    scope = Scope(tenant=scribe.tenant, agent_id=drafts[0].agent_id)
    newest = [record.id for record in await ledger.newest_entries(scope, scribe.snapshot(), limit=7)]
    await ledger.close()
    assert newest == sorted((draft.id for draft in drafts), reverse=True)[:7]
