"""The numbers that Word prints before paragraphs: they stand nowhere in the text, only the rules that make them do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

BULLET = "-"
LEVELS = 9
_PLACE = re.compile(r"%([1-9])")
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
          (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip
_LARGEST_ROMAN = 3999
_LETTERS = 26
_MOST_LETTERS = 4 * _LETTERS
_CHINESE = "零一二三四五六七八九"
_CHINESE_FORMATS = ("chineseCounting", "chineseCountingThousand", "taiwaneseCountingThousand", "japaneseCounting")


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How one level of a list is numbered; ``text`` holds ``%1`` for the number of the first level, and so on."""

    text: str
    format: str = "decimal"
    start: int = 1
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """A list that paragraphs name: lists of one ``kind`` count on together, but for ``starts``."""

    kind: str
    starts: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a paragraph or a style says that it belongs; what it leaves out is ``None``."""

    number: str | None = None
    level: int | None = None


class Numbers:
    """Counts through a document, paragraph by paragraph."""

    def __init__(
        self,
        kinds: Mapping[str, Mapping[int, Level]],
        lists: Mapping[str, List],
        styles: Mapping[str, Place],
    ) -> None:
        self._kinds = kinds
        self._lists = lists
        self._styles = styles
        self._counts: dict[str, list[int | None]] = {}
        self._begun: set[tuple[str, int]] = set()

    def next(self, place: Place, style: str) -> str | None:
        """What is printed before a paragraph, ``BULLET`` for any mark that is no number; ``None`` for nothing."""
        named = self._styles.get(style, Place())
        number = place.number if place.number is not None else named.number
        if number is None or number == "0":
            return None
        found = self._lists.get(number, List(kind=""))
        levels = self._kinds.get(found.kind, {})
        linked = next((level for level, rule in levels.items() if style and rule.style == style), 0)
        level = next(each for each in (place.level, named.level, linked) if each is not None)
        if level not in levels:
            return BULLET
        self._count(number, found, levels, level)
        return self._shown(found, levels, level)

    def _count(self, number: str, found: List, levels: Mapping[int, Level], level: int) -> None:
        counts = self._counts.setdefault(found.kind, [None] * LEVELS)
        if level in found.starts and (number, level) not in self._begun:
            counts[level] = None
        self._begun.add((number, level))
        for above in range(level):
            # A level that was passed over counts as begun.
            if counts[above] is None and above in levels:
                counts[above] = levels[above].start
        last = counts[level]
        counts[level] = found.starts.get(level, levels[level].start) if last is None else last + 1
        counts[level + 1 :] = [None] * (LEVELS - level - 1)

    def _shown(self, found: List, levels: Mapping[int, Level], level: int) -> str | None:
        rule = levels[level]
        if rule.format == "bullet":
            return BULLET
        counts = self._counts[found.kind]

        def number(match: re.Match[str]) -> str:
            above = int(match[1]) - 1
            of = levels.get(above, rule)
            count = counts[above]
            return numeral(of.start if count is None else count, of.format)

        return _PLACE.sub(number, rule.text).strip() or None


def numeral(count: int, form: str) -> str:
    """A number as it is written in one of Word's formats; in digits where that is not known here."""
    write = _FORMS.get(form)
    return write(count) if write is not None and count > 0 else str(count)


def _roman(count: int) -> str:
    if count > _LARGEST_ROMAN:
        return str(count)
    parts = []
    for value, letters in _ROMAN:
        times, count = divmod(count, value)
        parts.append(letters * times)
    return "".join(parts)


def _letters(count: int) -> str:
    if count > _MOST_LETTERS:
        return str(count)
    times, letter = divmod(count - 1, _LETTERS)
    return chr(ord("a") + letter) * (times + 1)


def _chinese(count: int) -> str:
    tens, ones = divmod(count, 10)
    if tens > 9:
        return str(count)
    ten = "" if not tens else "十" if tens == 1 else _CHINESE[tens] + "十"
    return ten + (_CHINESE[ones] if ones else "")


_FORMS: Mapping[str, Callable[[int], str]] = {
    "decimalZero": lambda count: f"{count:02}",
    "lowerRoman": _roman,
    "upperRoman": lambda count: _roman(count).upper(),
    "lowerLetter": _letters,
    "upperLetter": lambda count: _letters(count).upper(),
    **dict.fromkeys(_CHINESE_FORMATS, _chinese),
    "none": lambda _: "",
}
