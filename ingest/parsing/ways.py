"""The ways to parse a media type: full parsers in the order they are tried, one for a summary, one for a fragment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from importlib import import_module
from typing import Any

from rag.core.ports import Parser

Table = Mapping[str, str | Sequence[str]]
"""Media type to ``module:class``, or to several that are tried in this order."""


class Tier(IntEnum):
    """How good a result is meant to be: the whole text, a summary, or the first raw text."""

    FULL = 1
    SUMMARY = 2
    FRAGMENT = 3


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
        module, _, name = place.partition(":")
        kind: Any = getattr(import_module(module), name)
        made[place] = kind()
    return made[place]


def _sequence(entry: str | Sequence[str]) -> list[str]:
    return [entry] if isinstance(entry, str) else list(entry)
