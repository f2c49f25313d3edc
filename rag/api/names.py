"""Names that come from outside: of collections, of documents' sources, of documents themselves."""

from __future__ import annotations

import unicodedata
from uuid import UUID

from rag.core.errors import DocumentNotFoundError, InvalidRequestError

MAX_COLLECTION_NAME = 128
MAX_SOURCE = 1024

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_UNREACHABLE = frozenset({".", ".."})


def collection_name(text: str) -> str:
    """A collection's name in NFC. Raises ``InvalidRequestError`` for one that no collection can have."""
    name = unicodedata.normalize("NFC", text)
    if not name.strip() or len(name) > MAX_COLLECTION_NAME:
        raise InvalidRequestError(f"a collection's name has 1 to {MAX_COLLECTION_NAME} characters")
    if "/" in name or name in _UNREACHABLE or any(_unseen(character) for character in name):
        raise InvalidRequestError("a collection's name holds no slash and no control characters")
    return name


def source_name(text: str) -> str:
    """A document's source as it is kept: NFC, without control and direction characters.

    It is a key and a label, never part of a path on this machine. Raises ``InvalidRequestError`` when
    nothing is left or it is too long.
    """
    name = "".join(character for character in unicodedata.normalize("NFC", text) if not _unseen(character)).strip()
    if not name:
        raise InvalidRequestError("a document needs a source: a file name, or the field source")
    if len(name) > MAX_SOURCE:
        raise InvalidRequestError(f"a source has at most {MAX_SOURCE} characters")
    return name


def document_id(text: str) -> UUID:
    """A document's id. Raises ``DocumentNotFoundError``, since no document has an id of another form."""
    try:
        return UUID(text)
    except ValueError:
        raise DocumentNotFoundError from None


def _unseen(character: str) -> bool:
    return character in _BIDI or unicodedata.category(character) in _UNSEEN_CATEGORIES
