"""Names of documents: what a source becomes when it is kept."""

from __future__ import annotations

import unicodedata

from rag.core.errors import InvalidRequestError

MAX_SOURCE = 1024

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


def source_name(text: str) -> str:
    """A document's source as it is kept: NFC, without control and direction characters.

    It is a key and a label, never part of a path on this machine. Raises ``InvalidRequestError`` when it holds
    a NUL character, nothing is left or it is too long.
    """
    if "\0" in text:
        raise InvalidRequestError("a source holds no NUL character")
    name = visible(text)
    if not name:
        raise InvalidRequestError("a document needs a source: a file name, or the field source")
    if len(name) > MAX_SOURCE:
        raise InvalidRequestError(f"a source has at most {MAX_SOURCE} characters")
    return name


def visible(text: str) -> str:
    """``text`` in NFC, without control and direction characters and surrounding white space."""
    normal = unicodedata.normalize("NFC", text)
    return "".join(character for character in normal if not unseen(character)).strip()


def unseen(character: str) -> bool:
    """Whether it is a control, direction or line-breaking character, or half of a surrogate pair."""
    return character in _BIDI or unicodedata.category(character) in _UNSEEN_CATEGORIES
