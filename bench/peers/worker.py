"""Fills one store and searches it; prints what it saw as JSON.

`python -m bench.peers.worker --store chroma --records 10000 --folder <empty> [--url postgresql://…] [--budget SECONDS]`
runs in the store's own environment. A store that is not full when its budget is used up is measured as far as it got.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.stores import STORES, Store
from bench.peers.work import K, batches, chosen, exact_share, summary
from bench.synthetic import Source


def filled(store: Store, source: Source, records: int, budget: float) -> tuple[int, float]:
    """How many records went in, and the seconds the store took."""
    seconds, count = 0.0, 0
    for batch in batches(source, records):
        began = time.perf_counter()
        store.add(batch)
        seconds += time.perf_counter() - began
        count += len(batch)
        if seconds > budget:
            break
    return count, seconds


def measured(store: Store, source: Source, records: int, queries: int, budget: float) -> dict[str, Any]:
    """Ingest, then recalls in a middle and in the largest agent, alone and for one user."""
    count, seconds = filled(store, source, records, budget)
    result: dict[str, Any] = {"records": count, "wanted": records, "ingest_per_second": count / seconds}
    if count < records:
        return result
    probes = source.queries(queries)
    for name, (agent, start, size) in chosen(records).items():
        rows = list(source.records(size, start))
        vectors = np.stack([row.vector for row in rows])
        times: dict[str, list[float]] = {"all": [], "one_user": []}
        shares: dict[str, list[float]] = {"all": [], "one_user": []}
        for probe in [probes[0], *probes]:  # the first is asked twice, and counted once
            for kind, user in (("all", None), ("one_user", probe.user_id)):
                began = time.perf_counter()
                found = store.search(agent, probe, K, user)
                times[kind].append((time.perf_counter() - began) * 1000)
                shares[kind].append(exact_share(found, rows, vectors, probe, user))
        result[name] = {
            kind: {**summary(times[kind][1:]), "exact_share": float(np.mean(shares[kind][1:]))}
            for kind in times
        }
    return result


def main() -> None:
    """Reads the options, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=sorted(STORES), required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--seed", type=int, default=2025)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--url", default="")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--budget", type=float, default=300)
    given = parser.parse_args()
    store = STORES[given.store](given.folder, given.url)
    found = measured(store, Source(given.seed), given.records, given.queries, given.budget)
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
