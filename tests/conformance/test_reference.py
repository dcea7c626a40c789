"""memorywire's reference package judges us: its sixteen scenarios as they are, its examples, its schemas, its router."""

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from quipu.client.transport import Call
from quipu.errors import NotFoundError
from tests.conformance.conftest import Open
from tests.vendors.environments import ROOT, python_of

pytestmark = pytest.mark.vendor(name="memorywire")

_HERE = Path(__file__).parent
#: Files of its suite that are run, unmodified; its adapters and their fakes are not.
_THEIRS = (
    "tests/__init__.py",
    "tests/conftest.py",
    *(f"tests/conformance/{name}.py" for name in ("__init__", "scenarios", "test_conformance")),
)
#: A write that must wait never goes to a store that does not promise `governance`; its own one lets it wait unpromised.
_REFUSED = "test_conformance[our router over its stores-approval_required_pending]"


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's source archive, as it was published: its hash is pinned."""
    place = tmp_path_factory.mktemp("reference")
    pins = (ROOT / "vendors/memorywire.txt").read_text("utf-8")
    (pin,) = re.findall(r"^memorywire==.*?(?=^\S)", pins, re.M | re.S)
    (place / "pin.txt").write_text(pin, "utf-8")
    found = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"),
            *("--no-build-isolation", "--require-hashes", "--requirement", str(place / "pin.txt")),
            *("--dest", str(place)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    (packed,) = place.glob("*.tar.gz")
    with tarfile.open(packed) as files:
        files.extractall(place, filter="data")
    (folder,) = (entry for entry in place.iterdir() if entry.is_dir())
    return folder


def test_its_own_suite_passes_unmodified_on_our_memories_and_our_router(
    archive: Path, tmp_path: Path
) -> None:
    for name in _THEIRS:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((archive / name).read_bytes())
    # Where its suite makes its own stores.
    theirs = archive / "tests/conformance/conftest.py"
    (tmp_path / "tests/conformance/its_stores.py").write_bytes(theirs.read_bytes())
    (tmp_path / "tests/conformance/conftest.py").write_bytes((_HERE / "reference_store.py").read_bytes())
    (tmp_path / "tests_of_quipu").symlink_to(ROOT / "tests")
    report = tmp_path / "report.xml"
    ran = subprocess.run(
        [
            *(python_of("memorywire"), "-m", "pytest", "-q", "-o", "asyncio_mode=auto"),
            *("-p", "no:cacheprovider"),
            *("--rootdir", str(tmp_path), "-c", os.devnull, "--junitxml", str(report)),
            str(tmp_path / "tests/conformance"),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), ran.stdout + ran.stderr
    outcomes = dict(_outcomes(report))
    wrong = {name: said for name, said in outcomes.items() if said}
    refused = wrong.pop(_REFUSED)
    assert "does not promise governance" in refused
    assert wrong == {}
    assert len(outcomes) == 8 * (16 + 2)


def _outcomes(report: Path) -> Iterator[tuple[str, str]]:
    """Each case, and what was wrong with it; a skipped one is wrong."""
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  our own pytest wrote it
        said = [f"{part.tag}: {part.get('message', '')[:3000]}" for part in case if part.tag != "properties"]
        yield case.get("name", ""), "; ".join(said)


def _examples(archive: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in sorted((archive / "docs/spec/examples").glob("*/*.json")):
        example = json.loads(path.read_text("utf-8"))
        yield path.parent.name, example["request"]


async def test_its_examples_and_schemas_hold_on_our_wire(archive: Path, at_file: Open) -> None:
    schemas = archive / "src/memorywire/schemas/operations"
    wire = at_file.transport()
    seen: list[str] = []
    for operation, request in _examples(archive):
        jsonschema.validate(request, json.loads((schemas / f"{operation}.json").read_text("utf-8")))
        call = Call(method="POST", path=f"/memorywire/v0/{operation}", body=request)
        try:
            answer = await wire.send(call)
        except NotFoundError:  # its merges name memories of its own
            if operation != "merge":
                raise
        else:
            closed = schemas / f"{operation}.response.json"
            if closed.exists():
                jsonschema.validate(answer, json.loads(closed.read_text("utf-8")))
        seen.append(operation)
    assert sorted(seen) == sorted(["expire", "forget", "merge", "recall", "remember"] * 3)
    await wire.close()
