"""What every memory does, as scenarios that any memory can be asked to play: memorywire's sixteen first, then Quipu's own."""

from quipu.testing.scenarios.recalls import RECALLS
from quipu.testing.scenarios.reference import SIXTEEN
from quipu.testing.scenarios.removals import REMOVALS, REVIEWS
from quipu.testing.scenarios.writes import WRITES

SCENARIOS = (*SIXTEEN, *RECALLS, *WRITES, *REMOVALS, *REVIEWS)
