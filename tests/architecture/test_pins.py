"""The pins: exact versions with hashes, no addresses, and the base install is a part of the whole."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.architecture.tree import ROOT, SOURCE

PIN = re.compile(r"^([a-z0-9][a-z0-9-]*)==(\S+)(?: ; [^\\]+?)? \\$")
HASH = re.compile(r"^ {4}--hash=sha256:[0-9a-f]{64}(?: \\)?$")
#: packages that another one brings in its own exact version, and is documented together with
COMPANIONS = {
    "pydantic-core": "pydantic",
    "psycopg-pool": "psycopg",
    # What is imported under another name than it is installed by, in environments that are not this one.
    "mem0": "mem0ai",
    "langgraph": "langgraph-checkpoint",
    "pysqlite3": "pysqlite3-binary",
}
#: modules that Python 3.12 and 3.13 no longer have: to import one is to need a package that nobody declared
REMOVED = {
    *("asynchat", "asyncore", "distutils", "imp", "smtpd"),
    *("aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap", "msilib", "nis"),
    *("nntplib", "ossaudiodev", "pipes", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib"),
}
#: parts that only work with an extra: where -> which
EXTRAS = {
    "faces/http/offers.py": "server",
    "testing": "testing",
    "ledger/postgres": "postgres",
    "bootstrap/databases.py": "postgres",
    "telemetry/reading.py": "telemetry",
    "backends/mem0.py": "mem0",
    "backends/cognee.py": "cognee",
    "backends/graphiti.py": "graphiti",
    "backends/langgraph.py": "langgraph",
    "integrations": "langgraph",
}
FILES = sorted([*ROOT.glob("requirements*.txt"), *ROOT.glob("vendors/*.txt")])


def pins(file: Path) -> dict[str, str]:
    """Package -> version."""
    return dict(match.groups() for line in file.read_text("utf-8").splitlines() if (match := PIN.match(line)))


def normal(requirement: str) -> str:
    """The package name of a requirement, as indexes spell it."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name
    return re.sub(r"[-_.]+", "-", name.group()).lower()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_requirement_file_holds_pins_and_hashes_and_nothing_else(file: Path) -> None:
    lines = file.read_text("utf-8").splitlines()
    strange = [line for line in lines if not (line.startswith("# ") or PIN.match(line) or HASH.match(line))]
    assert not strange
    assert pins(file)


@cache
def requirements(extra: str | None = None) -> tuple[str, ...]:
    """What pyproject.toml asks for: always, or with an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return tuple(project["optional-dependencies"][extra] if extra else project["dependencies"])


@cache
def declared(extra: str | None = None) -> frozenset[str]:
    """The packages that pyproject.toml asks for: always, or with an extra."""
    return frozenset(normal(requirement) for requirement in requirements(extra))


def imports(file: Path) -> set[str]:
    """The top-level packages that a file imports, other than ours and what every Python has that we run on."""
    nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name.partition(".")[0] for name in names} - (sys.stdlib_module_names - REMOVED) - {"quipu"}


def test_everything_that_is_imported_is_declared() -> None:
    owners = packages_distributions()
    for file in SOURCE.rglob("*.py"):
        allowed = declared()
        for part, extra in EXTRAS.items():
            if SOURCE / part in (file, *file.parents):
                allowed |= declared(extra)
        for name in imports(file):
            owned = {normal(owner) for owner in owners.get(name, [name])}
            owned |= {COMPANIONS[owner] for owner in owned & COMPANIONS.keys()}
            assert owned & allowed, f"{file.name} imports {name}"


def test_every_declared_dependency_is_pinned() -> None:
    base, dev = declared(), declared("testing") | declared("dev")
    assert base <= pins(ROOT / "requirements-base.txt").keys(), "run `make pins`"
    assert base | dev <= pins(ROOT / "requirements.txt").keys(), "run `make pins`"


def test_a_list_names_all_that_its_packages_need() -> None:
    """It is installed without resolving anything, so whatever it left out would be missing."""
    installed = {normal(one.name): one.requires or [] for one in distributions()}
    for file in (ROOT / "requirements.txt", ROOT / "requirements-base.txt"):
        listed = pins(file)
        for package in listed.keys() & installed.keys():
            for need in map(Requirement, installed[package]):
                if need.marker is None or need.marker.evaluate({"extra": ""}):
                    told = f"{file.name}: {package}: {need}"
                    assert normal(need.name) in listed, told
                    assert need.specifier.contains(listed[normal(need.name)]), told


@pytest.mark.parametrize("script", ["venv", "size"])
def test_installing_a_list_never_looks_for_another_release(script: str) -> None:
    lines = (ROOT / "scripts" / script).read_text("utf-8").splitlines()
    installs = [line for line in lines if "--require-hashes" in line]
    assert installs
    assert all("--no-deps" in line for line in installs)


def test_a_range_before_1_0_that_has_an_end_ends_with_the_minor_version_that_is_pinned() -> None:
    """Such packages break in minor versions, and users without pins get the newest that the range lets in."""
    pinned = pins(ROOT / "requirements.txt")
    for need in map(Requirement, [*requirements(), *requirements("server"), *requirements("telemetry")]):
        version = Version(pinned.get(normal(need.name), "1"))
        if version.major == 0 and any(part.operator.startswith("<") for part in need.specifier):
            following = f"0.{version.minor + 1}"
            assert not need.specifier.contains(following), (
                f"{need} lets in {following}, which no test has seen"
            )


def test_users_and_developers_get_the_same_versions() -> None:
    assert pins(ROOT / "requirements-base.txt").items() <= pins(ROOT / "requirements.txt").items()


def test_no_pinned_package_is_a_deep_learning_framework() -> None:
    heavy = {"torch", "tensorflow", "jax", "transformers", "sentence-transformers"}
    assert not heavy & {name for file in FILES for name in pins(file)}
