"""Puts a parsed document together: cleaned pieces become one text, tiled by blocks with headings and pages."""

from __future__ import annotations

from typing import Literal

from ingest.parsing.cleaning import NormalForm, clean, first_line_title, one_line, title_of
from rag.core.types import Block, ParsedDocument, Quality

SEPARATOR = "\n\n"
_DEEPEST_HEADING = 9

Kind = Literal["text", "table", "code"]


class Assembly:
    """Collects pieces in reading order. Offsets are code points into the text as it will be."""

    def __init__(self, *, form: NormalForm = "NFC") -> None:
        self._form = form
        self._pieces: list[str] = []
        self._size = 0
        self._blocks: list[tuple[int, tuple[str, ...], int | None, Kind]] = []
        self._path: list[tuple[int, str]] = []
        self._headings: tuple[str, ...] = ()
        self._first_heading: str | None = None

    def heading(self, level: int, text: str, *, page: int | None = None) -> None:
        """Open a section with a heading that becomes a block of its own."""
        self.section(level, text)
        self.add(one_line(text, form=self._form), page=page)

    def section(self, level: int, title: str) -> None:
        """Open a section without a block: sections of the same or a deeper level end."""
        title = title_of(one_line(title, form=self._form)) or ""
        if not title:
            return
        level = min(max(level, 1), _DEEPEST_HEADING)
        self._path = [entry for entry in self._path if entry[0] < level]
        self._path.append((level, title))
        self._headings = tuple(title for _, title in self._path)
        self._first_heading = self._first_heading or title

    def add(self, text: str, *, page: int | None = None, kind: Kind = "text") -> None:
        """Append a piece under the headings in force; one without visible text is left out."""
        self.add_clean(clean(text, form=self._form), page=page, kind=kind)

    def add_clean(self, text: str, *, page: int | None = None, kind: Kind = "text") -> None:
        """The same for what has been through ``clean``, perhaps as part of something longer."""
        piece = text.strip()
        if not piece:
            return
        if self._pieces:
            self._pieces.append(SEPARATOR)
            self._size += len(SEPARATOR)
        self._blocks.append((self._size, self._headings, page, kind))
        self._pieces.append(piece)
        self._size += len(piece)

    @property
    def empty(self) -> bool:
        """Whether nothing was added yet."""
        return not self._pieces

    def document(self, *, title: str | None = None, encoding: str | None = None) -> ParsedDocument:
        """The document; without a ``title`` its first heading or a short first line serves."""
        text = "".join(self._pieces)
        ends = [*(start for start, *_ in self._blocks), len(text)][1:]
        return ParsedDocument(
            text=text,
            blocks=tuple(
                Block(start=start, end=end, headings=headings, page=page, kind=kind)
                for (start, headings, page, kind), end in zip(self._blocks, ends, strict=True)
            ),
            title=title_of(title) or title_of(self._first_heading) or first_line_title(text),
            quality=Quality.FULL if text else Quality.NO_TEXT,
            encoding=encoding,
        )
