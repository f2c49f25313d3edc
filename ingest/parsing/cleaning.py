"""What every parser does to text before it is kept: one normal form, one line break, no control characters."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

MAX_TITLE = 200
_FIRST_LINE_TITLE = 120

_BREAKS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Controls, surrogates, non-characters, and what has no width and no meaning outside layout.
_DROPPED = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200b\u2060\ufeff\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_TRAILING = re.compile(r"[^\S\n]+\n")
_BLANK_LINES = re.compile(r"\n{3,}")
_SPACES = re.compile(r"\s+")

NormalForm = Literal["NFC", "NFKC"]


def clean(text: str, *, form: NormalForm = "NFC") -> str:
    """Text in normal form with line feeds only, without control characters, outer or trailing white space."""
    text = _DROPPED.sub("", _BREAKS.sub("\n", text))
    text = unicodedata.normalize(form, text)
    return _BLANK_LINES.sub("\n\n", _TRAILING.sub("\n", text + "\n")).strip()


def one_line(text: str, *, form: NormalForm = "NFC") -> str:
    """The same on one line, runs of white space as one space."""
    return _SPACES.sub(" ", clean(text, form=form))


def title_of(candidate: str | None) -> str | None:
    """A candidate as a title of at most ``MAX_TITLE`` characters, or ``None`` if nothing is left of it."""
    title = one_line(candidate or "", form="NFC")
    return title[:MAX_TITLE].rstrip() or None


def first_line_title(text: str) -> str | None:
    """The first line, if it is short enough to be a title."""
    line = text.lstrip().partition("\n")[0]
    return title_of(line) if len(line) <= _FIRST_LINE_TITLE else None
