"""What is uploaded, and how its text tells of which document and version each part of it is."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

LARGE, SLOW, BROKEN, STEADY = "large.txt", "slow.html", "broken.pdf", "steady.txt"
UPDATED = (LARGE, SLOW, "first.md", "second.txt")
"""Those that every round replaces, the largest first."""

PARTS = {LARGE: 360, SLOW: 12}
_FEW_PARTS = 6
_EMPTY_TAGS = 400_000
_WORDS = [
    "harbour", "crane", "tide", "berth", "cargo", "anchor", "pilot", "vessel", "mooring", "lantern",
    "港口", "潮汐", "泊位", "船舶", "信号",
]  # fmt: skip
_PART = re.compile(r"\[([a-z0-9.-]+) version (\d+) part (\d+)\]")


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """The mark of one part of a text."""

    source: str
    version: int
    part: int


def content_of(source: str, version: int) -> bytes:
    """The bytes of a version. ``slow.html`` takes longer to parse than it may; ``broken.pdf`` cannot be parsed."""
    if source == BROKEN:
        return f"%PDF-1.7 of version {version}, cut off".encode()
    words = random.Random(f"{source} {version}")
    parts = [
        f"[{source} version {version} part {part}] {' '.join(words.choices(_WORDS, k=24))}."
        for part in range(parts_of(source))
    ]
    if source == SLOW:
        return ("".join(f"<p>{part}</p>" for part in parts) + "<i></i>" * _EMPTY_TAGS).encode()
    return "\n\n".join(parts).encode()


def parts_of(source: str) -> int:
    """How many parts a text has."""
    return PARTS.get(source, _FEW_PARTS)


def marks_in(text: str) -> list[Mark]:
    """The marks in their order."""
    return [Mark(source, int(version), int(part)) for source, version, part in _PART.findall(text)]


def is_whole(text: str, source: str, version: int) -> bool:
    """Whether the text has every part of this version once, in order, and nothing of another."""
    return marks_in(text) == [Mark(source, version, part) for part in range(parts_of(source))]


def are_of_one_version(texts: Sequence[str], source: str) -> bool:
    """Whether these pieces of a document's text are of that document and of one version of it."""
    found = Counter((mark.source, mark.version) for text in texts for mark in marks_in(text))
    return len(found) <= 1 and all(name == source for name, _ in found)
