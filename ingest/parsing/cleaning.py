"""What every parser does to text before it is kept: one normal form, one line break, no control characters.

Most text needs little of it, so every pass asks first, by the quickest means there is, whether it has work to do.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

MAX_TITLE = 200
_FIRST_LINE_TITLE = 120

_BREAKS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Controls, surrogates, non-characters, what has no width and no meaning outside layout, and what turns the reading
# direction of more than itself; the single marks of direction and the joiners belong to their scripts.
_UNKEPT = (
    "\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    "\u00ad\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff"
)
_DROPPED = re.compile(f"[{_UNKEPT}]")
_ODD = re.compile(f"[{_UNKEPT}\r\x0b\x0c\u2028\u2029]")
_BLANK_LINES = re.compile(r"\n{3,}")

NormalForm = Literal["NFC", "NFKC"]


def clean(text: str, *, form: NormalForm = "NFC") -> str:
    """Text in normal form with line feeds only, without control characters, outer or trailing white space."""
    if _ODD.search(text):
        text = _DROPPED.sub("", _BREAKS.sub("\n", text))
    text = "\n".join(map(str.rstrip, _normal(text, form).split("\n")))
    if "\n\n\n" in text:
        text = _BLANK_LINES.sub("\n\n", text)
    return text.strip()


def one_line(text: str, *, form: NormalForm = "NFC") -> str:
    """The same on one line, runs of white space as one space."""
    if not text.isprintable():
        text = clean(text, form=form)
    return " ".join(_normal(text, form).split())


def _normal(text: str, form: NormalForm) -> str:
    return text if text.isascii() else unicodedata.normalize(form, text)


def title_of(candidate: str | None) -> str | None:
    """A candidate as a title of at most ``MAX_TITLE`` characters, or ``None`` if nothing is left of it."""
    title = one_line(candidate or "", form="NFC")
    return title[:MAX_TITLE].rstrip() or None


def first_line_title(text: str) -> str | None:
    """The first line, if it is short enough to be a title."""
    line = text.lstrip().partition("\n")[0]
    return title_of(line) if len(line) <= _FIRST_LINE_TITLE else None
