"""Arabic ligatures in PDF: pdfium turns the letters of a line around, and with them the two that one glyph stands for.

Lam and alef of one glyph have one box; two letters of their own never have.
"""

from __future__ import annotations

import re
from ctypes import c_double
from typing import Any

from pypdfium2 import raw

_TURNED = re.compile("[\u0622\u0623\u0625\u0627\u0671]\u0644")
"""An alef before a lam, as in the article or in a lam-alef that was turned around."""


def mend_ligatures(textpage: Any, text: str) -> str:
    """The text of the page with lam before alef where one glyph shows both."""
    if not _TURNED.search(text):
        return text
    letters = list(text)
    for found in _TURNED.finditer(text):
        first, second = found.start(), found.start() + 1
        if _box(textpage, first) == _box(textpage, second):
            letters[first], letters[second] = letters[second], letters[first]
    return "".join(letters)


def _box(textpage: Any, place: int) -> tuple[float, ...]:
    """Left, right, bottom and top of the character at a place in the text."""
    sides = tuple(c_double() for _ in range(4))
    raw.FPDFText_GetCharBox(textpage.raw, raw.FPDFText_GetCharIndexFromTextIndex(textpage.raw, place), *sides)
    return tuple(side.value for side in sides)
