"""What things take in memory besides their data: about so many bytes each, so that what is kept is counted as it is kept."""

from __future__ import annotations

#: An array, and a view of one.
ARRAY = 112
#: A place in a dictionary together with the number it is found by.
ENTRY = 88
#: A string besides its characters.
TEXT = 50
#: A small object: a tuple, a list, a number of its own.
OBJECT = 48
