"""Sentences that look like memories, the same for a seed; and questions about them."""

import random

_PEOPLE = [
    "Ana",
    "Bo",
    "Carla",
    "Dev",
    "Elif",
    "Femi",
    "Gus",
    "Hana",
    "Ivo",
    "Jun",
    "Kofi",
    "Lena",
    "Mara",
    "Noor",
    "Otto",
    "Pia",
    "Quinn",
    "Rosa",
    "Sam",
    "Tom",
]
_ACTS = [
    "likes",
    "dislikes",
    "bought",
    "sold",
    "lost",
    "found",
    "repaired",
    "painted",
    "planned",
    "cancelled",
    "studies",
    "teaches",
]
_THINGS = [
    "a blue bicycle",
    "green tea",
    "the old piano",
    "a house in Lisbon",
    "two cats",
    "the Thursday meeting",
    "a sailing course",
    "Portuguese grammar",
    "the garden wall",
    "a signed book",
    "rye bread",
    "the night train",
    "an electric kettle",
    "a chess club",
    "the quarterly report",
    "a red umbrella",
    "mountain honey",
    "the spare key",
    "a broken lamp",
    "the winter coat",
]
_WHY = [
    "since spring",
    "for her sister",
    "on Monday",
    "after work",
    "because of the rain",
    "with great care",
    "for the third time",
]


def facts(count: int, seed: int) -> list[str]:
    """So many sentences, hardly two alike."""
    draw = random.Random(seed)
    return [
        f"{draw.choice(_PEOPLE)} {draw.choice(_ACTS)} {draw.choice(_THINGS)} {draw.choice(_WHY)}, number {n}."
        for n in range(count)
    ]


def questions(count: int, seed: int) -> list[str]:
    """So many questions, none asked twice, so that none is in a cache."""
    draw = random.Random(seed + 1)
    return [f"what does {draw.choice(_PEOPLE)} say about {draw.choice(_THINGS)} ({n})?" for n in range(count)]
