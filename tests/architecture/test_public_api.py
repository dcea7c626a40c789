"""`quipu.__all__` is a promise. A change to it is a decision: it begins with an ADR and ends here."""

from pathlib import Path

import quipu

PROMISED = Path(__file__).with_name("public_api.txt")
RENEW = (
    "the public names have changed; if that is decided, renew the list with\n"
    "  .venv/bin/python -c 'import quipu; print(*sorted(quipu.__all__), sep=\"\\n\")' "
    "> tests/architecture/public_api.txt"
)


def test_the_public_names_are_those_promised() -> None:
    promised = PROMISED.read_text("utf-8").split() if PROMISED.exists() else []
    assert sorted(quipu.__all__) == promised, RENEW


def test_every_public_name_is_there_and_explains_itself() -> None:
    for name in quipu.__all__:
        thing = getattr(quipu, name)
        assert name.startswith("__") or not callable(thing) or thing.__doc__, f"quipu.{name} has no docstring"
