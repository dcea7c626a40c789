"""What several tellers agree on, where none of them can be asked for the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def agreed(versions: Sequence[str]) -> int:
    """The place of the version that most tell; of equally many, the one that stands first."""
    counts = Counter(versions)
    most = max(counts.values())
    return next(place for place, version in enumerate(versions) if counts[version] == most)
