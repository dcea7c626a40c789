"""OAP items as they are: one on each line, a list, or the answer of a host. Nobody has signed for them together."""

from collections.abc import Iterator

from quipu.errors import QuipuError
from quipu.transfer.formats import archive, values
from quipu.transfer.formats.archive import Source
from quipu.transfer.formats.loss import Loss
from quipu.transfer.formats.reading import Look
from quipu.transfer.formats.values import Found, Item, refused

_SIGNS = ("item_id", "kind", "content")
_ARRAYS = (None, "items")
#: What a host adds to an item on its way out: it proves nothing about a copy.
_ADDED = ("integrity", "epistemic", "embedding")


def detect(look: Look) -> bool:
    """Items with an id, a kind and a content."""
    members = look.members
    return "output.items" in members or any(
        {f"{prefix}{sign}" for sign in _SIGNS} <= members for prefix in ("", ".", "items.")
    )


def items(source: Source, loss: Loss) -> Iterator[Found]:
    """Each item. One that was lent is refused: a grant lets it be read, not kept."""
    if _is_lines(source):
        for number, found in archive.objects(source.open()):
            yield number, found if isinstance(found, QuipuError) else _checked(found, loss)
        return
    number = 0
    for part in values.parts(source.open(), loss):
        if part.is_element and part.name in _ARRAYS:
            number += 1
            yield number, part.error or _checked(values.an_object(part.value), loss)
        elif part.name == "output":
            for one in values.a_list(values.an_object(part.value).get("items")):
                number += 1
                yield number, _checked(values.an_object(one), loss)
        else:
            loss.dropped(str(part.name))


def _is_lines(source: Source) -> bool:
    first = next((found for _, found in archive.objects(source.open())), None)
    return isinstance(first, dict) and "item_id" in first


def _checked(item: Item, loss: Loss) -> Item | QuipuError:
    if values.a_list(item.get("provenance_tags")):
        return refused(
            "under_grant", "The item was lent under a grant, to be read only.", "Ask its owner for an export."
        )
    for name in _ADDED:
        loss.dropped(name, name in item)
    return {name: value for name, value in item.items() if name not in _ADDED}
