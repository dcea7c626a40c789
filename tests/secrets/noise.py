"""Characters that look random and are the same every time."""

import string
from hashlib import sha256

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
URLSAFE = ALNUM + "-_"
HEX = "0123456789abcdef"
BASE64 = ALNUM + "+/"
DIGITS = string.digits


def drawn(seed: str, length: int, alphabet: str = ALNUM) -> str:
    """Characters that look random and are the same every time."""
    chars: list[str] = []
    block = 0
    while len(chars) < length:
        chars.extend(alphabet[byte % len(alphabet)] for byte in sha256(f"{seed}:{block}".encode()).digest())
        block += 1
    return "".join(chars[:length])
