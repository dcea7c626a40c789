"""What `import quipu` offers."""

import subprocess
import sys

import quipu


def test_every_public_name_is_there_and_no_other() -> None:
    assert all(getattr(quipu, name) is not None for name in quipu.__all__)
    assert not hasattr(quipu, "BaseModel")
    assert dir(quipu) == sorted(quipu.__all__)


def test_importing_it_loads_nothing_that_is_slow() -> None:
    code = (
        "import quipu, sys; print(sorted({'pydantic', 'numpy', 'quipu.api', 'starlette'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
