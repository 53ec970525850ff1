"""What is masked: values whose name says that they are secret, and passwords inside addresses.

By name alone, and text alone: `token` is as often a number of a vocabulary. A secret under another name stays what it is, and so does
the source text that a trace shows.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Any

MASK = "•••"

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALONE = frozenset(
    {"password", "passwords", "passwd", "passphrase", "pwd", "secret", "secrets", "token", "apikey", "authorization"}
    | {"credential", "credentials"}
)
_KEYS = frozenset({"api", "access", "private", "secret", "auth", "signing", "encryption"})
_ADDRESS = re.compile(r"(?P<user>\w[\w+.-]*://[^\s/:@]*):[^\s/@]+@")


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether a variable, key or function of this name holds a secret: `db_password`, `apiKey`, `X-Auth-Token`."""
    words = [word.lower() for word in _WORD.findall(name)]
    pairs = pairwise(words)
    return not _ALONE.isdisjoint(words) or any(a in _KEYS and b in ("key", "keys") for a, b in pairs)


def masked(description: tuple[Any, ...]) -> tuple[Any, ...]:
    """The description with its text replaced, in containers too."""
    if description[0] in ("s", "y"):
        return ("s", MASK, len(MASK))
    if description[0] == "c":
        items = tuple(masked(i) if isinstance(i[0], str) else (i[0], masked(i[1])) for i in description[3])
        return (*description[:3], items)
    return description


def pair(key: tuple[Any, ...], value: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A key and its value, which is masked if the key says so."""
    return (key, masked(value)) if key[0] == "s" and is_secret(key[1]) else (key, value)


def without_passwords(text: str) -> str:
    """`text` with the passwords of addresses replaced: `postgres://user:•••@host`."""
    return _ADDRESS.sub(rf"\g<user>:{MASK}@", text) if "://" in text else text
