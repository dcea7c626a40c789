"""What happens to a text before a model sees it."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer


def tokenizer(text: str) -> Tokenizer:
    """The tokenizer of a file: whole texts, and nothing of them is a command."""
    made = Tokenizer.from_str(text)
    made.no_padding()
    made.no_truncation()
    # "[SEP]" in somebody's text is five characters, not the end of the text.
    made.encode_special_tokens = True
    return made


def well_formed(text: str) -> str:
    """The text with lone surrogates replaced: JSON can smuggle them in, and no tokenizer takes them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def windows(tokens: Sequence[int], size: int, overlap: int, most: int) -> list[Sequence[int]]:
    """Stretches of at most `size` tokens that overlap and cover them all; one empty stretch for no tokens.

    A text that would need more than `most` is sampled evenly, its beginning and its end included.
    """
    if len(tokens) <= size:
        return [tokens]
    starts = range(0, len(tokens) - overlap, size - overlap)
    if len(starts) > most:
        last = len(starts) - 1
        starts = [starts[place * last // (most - 1)] for place in range(most)]
    return [tokens[start : start + size] for start in starts]
