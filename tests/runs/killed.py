"""Drives runs until it is killed: `python -m tests.runs.killed FILE`. Says each step that was acknowledged."""

import asyncio
import sys

from quipu.memory.operations import REMEMBER, REMEMBER_MANY
from quipu.runs import operations as ops
from tests.governance.office import open_office


async def main(place: str) -> None:
    office = await open_office(place)

    async def run(number: int) -> None:
        run = (await office(ops.OPEN_RUN, workflow_id=f"w{number}")).id
        print(f"open {run}", flush=True)
        for step in range(1_000_000):
            kept = await office(REMEMBER, content=f"{number} {step}", run_id=run, node_id="n")
            print(f"kept {run} {kept.id}", flush=True)
            items = [{"content": f"{number} {step} {name}", "run_id": run} for name in "ab"]
            await office(REMEMBER_MANY, items=items, atomic=True)
            variables = {"step": step}
            await office(ops.RECORD_NODE, run_id=run, node_id="n", status="completed", variables=variables)
            if step == 2 * number:
                await office(ops.END_RUN, run_id=run)
                print(f"ended {run}", flush=True)
                return

    for number in range(1_000_000):
        await asyncio.gather(run(3 * number), run(3 * number + 1), run(3 * number + 2))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
