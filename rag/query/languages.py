"""Whether a model reads the texts at hand, as far as their script tells."""

from __future__ import annotations

from collections.abc import Collection

from rag.core.types import EVERY_LANGUAGE
from rag.lexical import script_language

_UNDETERMINED = "und"


def unread_language(languages: Collection[str], *texts: str) -> str | None:
    """The language of the first text that is none of ``languages``; ``None`` when all can be read."""
    if EVERY_LANGUAGE in languages:
        return None
    found = (script_language(text) for text in texts)
    return next((language for language in found if language != _UNDETERMINED and language not in languages), None)
