"""The ways to parse a media type: full parsers in their order, one for a summary, one for a fragment, one by OCR."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import IntEnum
from importlib import import_module
from typing import Any

from rag.core.ports import Parser

Table = Mapping[str, str | Sequence[str]]
"""Media type to ``module:class``, or to several that are tried in this order.

A space and a JSON object may follow: what the class is made with.
"""


class Tier(IntEnum):
    """How good a result is meant to be: the whole text, a summary, the first raw text, or the text of pictures."""

    FULL = 1
    SUMMARY = 2
    FRAGMENT = 3
    OCR = 4


class Ways:
    """Where the parsers of each tier are. Knows their places only until they are loaded."""

    def __init__(self, places: Mapping[Tier, Table]) -> None:
        self._places = {
            tier: {media: _sequence(entry) for media, entry in table.items()} for tier, table in places.items()
        }

    def count(self, tier: Tier, media_type: str) -> int:
        """How many parsers the tier has for the type."""
        return len(self._places.get(tier, {}).get(media_type, ()))

    def to_json(self) -> dict[str, dict[str, list[str]]]:
        """All places by tier and media type."""
        return {str(int(tier)): table for tier, table in self._places.items()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Mapping[str, Sequence[str]]]) -> Ways:
        """The inverse of :meth:`to_json`."""
        return cls({Tier(int(tier)): table for tier, table in fields.items()})

    def load(self) -> dict[tuple[Tier, str], list[Parser]]:
        """Import and make every parser, each class once."""
        made: dict[str, Parser] = {}
        return {
            (tier, media): [_made(place, made) for place in places]
            for tier, table in self._places.items()
            for media, places in table.items()
        }


def _made(place: str, made: dict[str, Parser]) -> Parser:
    if place not in made:
        path, _, arguments = place.partition(" ")
        module, _, name = path.partition(":")
        kind: Any = getattr(import_module(module), name)
        made[place] = kind(**json.loads(arguments or "{}"))
    return made[place]


def _sequence(entry: str | Sequence[str]) -> list[str]:
    return [entry] if isinstance(entry, str) else list(entry)
