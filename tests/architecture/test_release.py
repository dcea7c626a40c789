"""What a release says about itself agrees: version, changelog, documentation, front door."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from quipu._version import __version__
from tests.architecture.tree import ROOT, SOURCE, tracked

HEADING = re.compile(r"^## \[(.+?)\](?: - (?:\d{4}-\d{2}-\d{2}|unreleased))$", re.M)


def test_the_top_of_the_changelog_is_this_version() -> None:
    versions = HEADING.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert versions[0] == __version__
    assert len(versions) == len(set(versions))


def test_the_readme_names_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "make run" in readme
    assert "make test" in readme
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project.get("readme") == "README.md"


def test_the_pages_name_the_versions_of_python_that_the_package_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert project["requires-python"] == f">={declared[0]}"
    named = f"Python {', '.join(declared[:-1])} or {declared[-1]}"
    for page in ("README.md", "CONTRIBUTING.md", "docs/tutorial/first-memory.md"):
        assert named in (ROOT / page).read_text("utf-8"), page


def test_ci_calls_the_command_of_the_readme() -> None:
    assert (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1] == "make test"


def test_the_wheel_carries_all_that_the_package_reads(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    carried = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("quipu/")}
    package = {f"quipu/{file.relative_to(SOURCE).as_posix()}" for file in tracked() if SOURCE in file.parents}
    schemas = {
        f"quipu/{file.relative_to(ROOT).as_posix()}" for file in tracked() if ROOT / "schemas" in file.parents
    }
    assert carried == package | schemas
    assert "quipu/py.typed" in carried
