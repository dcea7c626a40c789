"""The run of OAP's published suite that came with this version, and the receipt of it. Pure.

A test carries the suite out again, on a server that is started for it, and compares: `tests/vendors/test_oap.py`.
"""

from typing import Any

from quipu.jose import Signatory
from quipu.ledger.canonical import canonical

#: When it was carried out, and what came of it.
AT = "2026-11-19T19:15:00Z"
TOTAL, PASSED = 127, 125
#: Hashes of the suite's own files, as it reports them, and of the names of its checks and whether each holds.
FIXTURES = "sha256:890d21e92880e38e7566d418f94a352736bbce5337bd5d9a569b9057cd03e319"
RESULTS = "sha256:657c3badfa97a464d0813d716ed152b4f410dd2657c1d89f0859867370f544b3"
_SUITE = {
    "name": "oap-conformance-test-suite",
    "version": "1.0.0",
    "spec_version": "1.0",
    "suite_repo": "https://github.com/openagentprotocol-OAP/oap-spec",
    "suite_commit": "b554a8b0c0a9c2dc036fd85c10098320702eb171",
}


def receipt(url: str, version: str, by: Signatory) -> dict[str, Any]:
    """The conformance receipt of a host, signed by it."""
    body: dict[str, Any] = {
        "receipt_id": f"urn:oap:conformance:quipu-{version.replace('.', '-').replace('+', '-')}",
        "type": "conformance",
        "timestamp": AT,
        "implementation": {"did": by.did, "name": "Quipu", "version": version, "deployment_uri": url},
        "suite": _SUITE,
        "target": {"uri": url},
        "claimed_levels": ["L1-NC"],
        "profile": "non-commercial",
        "results_summary": {"total": TOTAL, "passed": PASSED, "failed": TOTAL - PASSED, "skipped": 0},
        "fixtures_hash": FIXTURES,
        "results_hash": RESULTS,
        "attestor": {"did": by.did, "method": "self"},
        "previous_receipt_hash": "genesis",
        "revenue": {"source": "self-hosted"},
    }
    return {**body, "signatures": [{"by": by.kid, "alg": "EdDSA", "value": by.sign(canonical(body))}]}
