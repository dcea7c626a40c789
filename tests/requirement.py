"""`@requirement("memorywire:recall.k")`: this test claims a line of tests/requirements/memorywire.toml."""

import pytest


def requirement(name: str) -> pytest.MarkDecorator:
    """Mark a test as the proof of one requirement, named `file:requirement`. May be given several times."""
    return pytest.mark.requirement(name)
