"""OAP as its authors judge it: the test suite that they publish, on a server as a person starts it.

It is in no registry: QUIPU_OAP_SUITE names a checkout of the specification, at the commit that the receipt names.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from quipu.sharing import conformance
from quipu.sharing.receipts import hashed
from tests.journeys.test_briefing import free_port, server
from tests.requirement import requirement
from tests.vendors.environments import NODE, node_modules_of

pytestmark = pytest.mark.vendor(name="oap")

#: What does not hold, and why no host can help it whose manifest is valid by OAP's own schema.
KNOWN = {
    "recovery-procedure-declared": "It asks for `accountability.recovery`, a member that the closed schema forbids.",
    "audit-fetch": "It joins the host's address and `endpoints.audit`, which the schema wants to be an address itself.",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the suite says of a server."""
    checkout = os.environ.get("QUIPU_OAP_SUITE")
    if checkout is None:
        pytest.skip("QUIPU_OAP_SUITE names no checkout of OAP's specification")
    folder = tmp_path_factory.mktemp("oap")
    for name in ("test-suite", "schemas", "reference"):
        shutil.copytree(Path(checkout) / name, folder / name, ignore=shutil.ignore_patterns("node_modules"))
    (folder / "test-suite/node_modules").symlink_to(node_modules_of("oap"))
    with server(folder / "home", free_port()) as owner:
        done = subprocess.run(
            [NODE, str(folder / "test-suite/runner.js")],
            env={**os.environ, "OAP_TARGET": owner.settings["QUIPU_SERVER"], "OAP_REPORT": "json"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    return json.loads(done.stdout)


@requirement("oap:suite.published")
def test_all_of_oaps_suite_holds_but_what_no_valid_manifest_passes(report: Any) -> None:
    failed = {one["name"]: one["reason"] for one in report["results"] if not one["passed"]}
    assert set(failed) == set(KNOWN), failed
    by_category = {
        name: sum(one["category"].startswith(name) for one in report["results"])
        for name in ("schema", "behavior", "charter")
    }
    assert by_category == {"schema": 14, "behavior": 92, "charter": 21}


@requirement("oap:suite.published")
def test_the_conformance_receipt_tells_of_this_very_run(report: Any) -> None:
    results = [{"name": one["name"], "passed": one["passed"]} for one in report["results"]]
    found = (len(results), sum(one["passed"] for one in results), report["fixtures_hash"], hashed(results))
    assert found == (conformance.TOTAL, conformance.PASSED, conformance.FIXTURES, conformance.RESULTS)
