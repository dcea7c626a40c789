"""The `quipu` command with every span before the validator: `watched.py FOLDER WORD...` runs `python -m quipu WORD...`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the folder of a script first, and of a module the one it was started in.
    sys.path[0] = ""
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    from tests.conventions import watch_for

    watch_for(Path(sys.argv.pop(1)))
    runpy.run_module("quipu", run_name="__main__", alter_sys=True)
