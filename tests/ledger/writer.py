"""A process that writes until it is killed: prints each id once its write was acknowledged."""

import asyncio
import sys

from quipu.errors import QuipuError
from quipu.ledger.commit import Close
from quipu.ledger.ledger import Ledger
from quipu.ledger.postgres.driver import PostgresDriver
from quipu.ledger.sqlite.driver import SqliteDriver
from quipu.memory.scope import STORES
from tests.ledger.builders import commit, put


async def main(address: str, name: str) -> None:
    driver = PostgresDriver(address, size=8) if "://" in address else SqliteDriver(address)
    ledger = Ledger(driver, (STORES,))

    async def write(writer: int) -> None:
        for number in range(100_000):
            record_id = f"mem_{name}_{writer}_{number}"
            try:
                await ledger.commit(commit(put(record_id)))
                print("kept", record_id, flush=True)
                if number % 3 == 0:
                    await ledger.commit(commit(Close(id=record_id, expects=1, ending="forgotten")))
                    print("gone", record_id, flush=True)
            except QuipuError as error:
                print("refused", error.reason, flush=True)

    await asyncio.gather(*(write(writer) for writer in range(8)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
