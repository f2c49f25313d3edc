"""Markdown by its tokens: headings, lists, code, tables, and the title of a front matter.

What is nested deeper than ``MAX_NESTING`` would be left out without a word; such a text is read as it stands.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from markdown_it import MarkdownIt

from ingest.parsing.assembly import SEPARATOR, Assembly
from ingest.parsing.cleaning import clean
from ingest.parsing.encodings import decode_plain
from ingest.parsing.parsers.markup import strip_markup
from ingest.parsing.tables import add_table
from rag.core.media import MARKDOWN
from rag.core.types import ParsedDocument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_INDENT = "  "
MAX_NESTING = 64


class MarkdownParser:
    """Reads CommonMark with tables; markup characters are dropped, what they mean is kept."""

    name: ClassVar[str] = "markdown"
    media_types: ClassVar[frozenset[str]] = frozenset({MARKDOWN})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``undecodable``, ``malformed``."""
        decoded = decode_plain(content)
        text = clean(decoded.text)
        assembly = Assembly()
        title, body = _front_matter(text, assembly)
        tokens = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable("table").parse(body)
        if any(token.nesting == 1 and token.level >= MAX_NESTING - 1 for token in tokens):
            for paragraph in body.split(SEPARATOR):
                assembly.add_clean(paragraph)
        else:
            _Reader(assembly).read(tokens)
        return assembly.document(title=title, encoding=decoded.encoding)


def _front_matter(text: str, assembly: Assembly) -> tuple[str | None, str]:
    found = _FRONT_MATTER.match(text)
    if found is None:
        return None, text
    assembly.add(found[1])
    title = _TITLE.search(found[1])
    return title[1].strip("\"'") if title else None, text[found.end() :]


class _Reader:
    """Walks the flat token list, keeping track of lists, headings and tables."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._lists: list[int | None] = []
        self._lines: list[str] = []
        self._marker: str | None = None
        self._heading: int | None = None
        self._rows: list[list[str]] | None = None

    def read(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            if token.type == "inline":
                self._inline(_plain(token))
            elif token.type in ("fence", "code_block"):
                self._flush()
                self._assembly.add(token.content, kind="code")
            elif token.type == "html_block":
                self._inline(strip_markup(token.content))
            else:
                self._structure(token)
        self._flush()

    def _inline(self, text: str) -> None:
        if self._rows is not None:
            self._rows[-1].append(text)
        elif self._heading is not None:
            self._assembly.heading(self._heading, text)
        elif self._lists:
            indent = _INDENT * (len(self._lists) - 1)
            self._lines.append(indent + (self._marker or _INDENT) + text)
            self._marker = None
        else:
            self._assembly.add(text)

    def _structure(self, token: Token) -> None:
        match token.type:
            case "heading_open":
                self._flush()
                self._heading = int(token.tag[1])
            case "heading_close":
                self._heading = None
            case "bullet_list_open" | "ordered_list_open":
                self._lists.append(int(token.attrGet("start") or 1) if token.type.startswith("ordered") else None)
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                if not self._lists:
                    self._flush()
            case "list_item_open":
                self._marker = self._next_marker()
            case _:
                self._table(token)

    def _table(self, token: Token) -> None:
        if token.type == "table_open":
            self._flush()
            self._rows = []
        elif token.type == "tr_open" and self._rows is not None:
            self._rows.append([])
        elif token.type == "table_close" and self._rows is not None:
            add_table(self._assembly, self._rows)
            self._rows = None

    def _next_marker(self) -> str:
        number = self._lists[-1]
        if number is None:
            return "- "
        self._lists[-1] = number + 1
        return f"{number}. "

    def _flush(self) -> None:
        self._assembly.add("\n".join(self._lines))
        self._lines.clear()


def _plain(inline: Token) -> str:
    parts = []
    for token in inline.children or ():
        match token.type:
            case "text" | "code_inline" | "text_special":
                parts.append(token.content)
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "image":
                parts.append(_plain(token))
            case "html_inline" if token.content.lower().startswith("<br"):
                parts.append("\n")
    return "".join(parts)
