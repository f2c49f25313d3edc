"""Plain tag stripping: what is left of a page when nothing better can be had. Linear, depth does not matter."""

from __future__ import annotations

import re
from html import unescape

_SILENT = re.compile(
    r"<(script|style|template|noscript|head|title|svg)\b[^<>]*>.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_BREAK = re.compile(
    r"<(?:/?(?:p|div|li|ul|ol|tr|table|h[1-6]|section|article|blockquote|pre)|br|hr)\b[^<>]*>", re.IGNORECASE
)
_CELL = re.compile(r"</t[dh]\s*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z!?][^<>]*>")
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def strip_markup(markup: str) -> str:
    """The visible text of HTML, one line a block element."""
    text = _SILENT.sub(" ", _COMMENT.sub("", markup))
    text = _BREAK.sub("\n", _CELL.sub(" | ", text))
    return _LINES.sub("\n", _SPACES.sub(" ", unescape(_TAG.sub("", text)))).strip()
