"""Where the sentences of a text are, in English and Chinese alike, as offsets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_CHARACTERS = 400
"""No sentence is longer: tables and lists without full stops are cut at line breaks, then at spaces."""

_CLOSING = "\"'”’」』）)】》〉"
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n\s*|\n(?=\s*(?:[-*+•|>#]|\d+[.)]\s))")
_STOP = re.compile(rf"[。！？!?…]+[{_CLOSING}]*|\.+[{_CLOSING}]*(?=\s|$)|；")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z]|(?:[A-Za-z]\.)+[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|al|cf|Fig|No|Inc|Ltd|approx)$"
)
_LINE = re.compile(r"\n")
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """``text[start:end]`` without surrounding white space; ``complete``: it begins and ends like a sentence."""

    start: int
    end: int
    complete: bool


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of ``text`` in order; they do not overlap and none is empty.

    Joined with what lies between them (white space only) they are the text.
    """
    sentences = []
    for start, end in _pieces(text):
        piece = text[start:end]
        inner = piece.strip()
        if inner:
            begin = start + len(piece) - len(piece.lstrip())
            sentences.append(Sentence(start=begin, end=begin + len(inner), complete=_complete(inner)))
    return sentences


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    for paragraph in _cut(0, len(text), (match.end() for match in _PARAGRAPH.finditer(text))):
        for start, end in _cut(*paragraph, _stops(text, *paragraph)):
            yield from _bounded(text, start, end)


def _cut(start: int, end: int, ends: Iterator[int]) -> Iterator[tuple[int, int]]:
    for cut in ends:
        yield start, cut
        start = cut
    if start < end:
        yield start, end


def _stops(text: str, start: int, end: int) -> Iterator[int]:
    for match in _STOP.finditer(text, start, end):
        if match[0] == "." and _continues(text, start, match.start(), end):
            continue
        yield match.end()


def _continues(text: str, start: int, stop: int, end: int) -> bool:
    following = text[stop + 1 : min(end, stop + 40)].lstrip()
    return following[:1].islower() or _ABBREVIATION.search(text, max(start, stop - 12), stop) is not None


def _bounded(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > MAX_CHARACTERS:
        limit = start + MAX_CHARACTERS
        cut = _last(_LINE, text, start, limit) or _last(_SPACE, text, start, limit) or limit
        yield start, cut
        start = cut
    yield start, end


def _last(pattern: re.Pattern[str], text: str, start: int, limit: int) -> int | None:
    found = None
    for match in pattern.finditer(text, start + 1, limit):
        found = match.end()
    return found


def _complete(sentence: str) -> bool:
    begins = not sentence[0].islower() and sentence[0] not in ",.;:!?)，。；：！？、）】》"
    ends = sentence.rstrip(_CLOSING)[-1:] in tuple("。！？!?.…；")
    return begins and ends
