"""Names that come from outside: of collections and of documents."""

from __future__ import annotations

import unicodedata
from uuid import UUID

from rag.core.errors import DocumentNotFoundError, InvalidRequestError
from rag.core.names import unseen

MAX_COLLECTION_NAME = 128

_UNREACHABLE = frozenset({".", ".."})


def collection_name(text: str) -> str:
    """A collection's name in NFC. Raises ``InvalidRequestError`` for one that no collection can have."""
    name = unicodedata.normalize("NFC", text)
    if not name.strip() or len(name) > MAX_COLLECTION_NAME:
        raise InvalidRequestError(f"a collection's name has 1 to {MAX_COLLECTION_NAME} characters")
    if "/" in name or name in _UNREACHABLE or any(unseen(character) for character in name):
        raise InvalidRequestError("a collection's name holds no slash and no control characters")
    return name


def document_id(text: str) -> UUID:
    """A document's id. Raises ``DocumentNotFoundError``, since no document has an id of another form."""
    try:
        return UUID(text)
    except ValueError:
        raise DocumentNotFoundError from None
