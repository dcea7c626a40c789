"""Writes the given names that embedding leaves out: those that Faker knows of its countries, without ordinary words.

    python scripts/build_names.py

Run when the environment or the wheel is built; does nothing when the file is there and whole. The list ships in the
wheel, Faker does not.
"""

import importlib
import pkgutil

import faker.providers.person as person
from faker.providers.lorem.en_US import Provider as Lorem

from quipu.search.people import NAMES_FILE, folded_name

#: Names that are far more often something else: months, countries, cities, words.
ELSEWHERE = frozenset(
    """africa alabama alexa alexandria angel april arizona armenia asia atlanta august austin
    austria autumn bali basel bergen berlin boston brooklyn carolina chad chelsea china cleveland
    crystal cuba dakota dallas denver easter egypt ford forest geneva georgia god houston india iran
    israel italy java jersey june kent kenya king lane london lourdes major may medina mercedes
    milan miles montana nim ocean orlando paris pascal phoenix prince queen river roma rome ruby
    russia sage santiago savannah siena siri sky spain spirit star summer sunday sydney tea texas
    troy valencia verona virginia visa washington will winter world york""".split()  # noqa: SIM905  words read better as a text than as a hundred literals
)


def names() -> set[str]:
    found: set[str] = set()
    for locale in pkgutil.iter_modules(person.__path__):
        provider = importlib.import_module(f"{person.__name__}.{locale.name}").Provider
        for attribute in dir(provider):
            listed = getattr(provider, attribute) if attribute.startswith("first_") else ()
            if isinstance(listed, list | tuple | dict):
                found.update(name.strip() for name in listed if isinstance(name, str))
    return found


def main() -> None:
    ordinary = ELSEWHERE | {word.lower() for word in Lorem.word_list}
    kept = {
        folded_name(name)
        for name in names()
        if len(name) > 2 and name.replace("-", "").isalpha() and name[0].isupper() and not name.isupper()
    }
    lines = sorted(kept - ordinary)
    NAMES_FILE.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"names: wrote {NAMES_FILE} ({len(lines):,} names)")


if __name__ == "__main__":
    if not NAMES_FILE.exists():
        main()
