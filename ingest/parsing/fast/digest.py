"""A summary without a model: title, headings, the first and last paragraph of each section, dates and counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ingest.parsing.assembly import Assembly
from ingest.parsing.cleaning import NormalForm, clean, one_line, title_of
from rag.core.types import ParsedDocument
from rag.lexical.scripts import script_language

MAX_SECTIONS = 200
MAX_PARAGRAPH = 1200
MAX_DATES = 20
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_DATE = re.compile(
    r"\b(?:19|20)\d\d-[01]\d-[0-3]\d\b"
    r"|(?:19|20)\d\d\s?年\s?\d{1,2}\s?月(?:\s?\d{1,2}\s?日)?"
    rf"|\b\d{{1,2}} (?:{_MONTHS})[a-z]* (?:19|20)\d\d\b"
    rf"|\b(?:{_MONTHS})[a-z]* \d{{1,2}}, (?:19|20)\d\d\b"
)


@dataclass(slots=True)
class _Section:
    level: int
    title: str
    page: int | None
    first: str = ""
    first_page: int | None = None
    last: str = ""
    last_page: int | None = None


class Digest:
    """Takes a document's headings and paragraphs in order and keeps little of it."""

    def __init__(self, *, form: NormalForm = "NFC") -> None:
        self._form = form
        self._sections = [_Section(level=0, title="", page=None)]
        self._paragraphs = 0
        self._characters = 0
        self._dates: dict[str, None] = {}

    @property
    def full(self) -> bool:
        """Whether there is no room for a further section."""
        return len(self._sections) > MAX_SECTIONS

    def heading(self, level: int, text: str, *, page: int | None = None) -> None:
        """Open a section; beyond ``MAX_SECTIONS`` the last one goes on."""
        title = one_line(text, form=self._form)
        if title and not self.full:
            self._sections.append(_Section(level=level, title=title, page=page))

    def paragraph(self, text: str, *, page: int | None = None) -> None:
        """Count a paragraph, and keep it if it is the first or, so far, the last of its section."""
        text = clean(text, form=self._form)
        if not text:
            return
        self._paragraphs += 1
        self._characters += len(text)
        if len(self._dates) < MAX_DATES:
            self._dates.update(dict.fromkeys(_DATE.findall(text)))
        section, kept = self._sections[-1], text[:MAX_PARAGRAPH]
        if section.first:
            section.last, section.last_page = kept, page
        else:
            section.first, section.first_page = kept, page

    def document(
        self, *, title: str | None = None, encoding: str | None = None, structure: Mapping[str, Any] | None = None
    ) -> ParsedDocument:
        """The summary; ``structure`` is added to what was counted."""
        assembly = Assembly(form=self._form)
        for section in self._sections:
            if section.title:
                assembly.heading(section.level, section.title, page=section.page)
            assembly.add(section.first, page=section.first_page)
            assembly.add(section.last, page=section.last_page)
        document = assembly.document(title=title, encoding=encoding)
        counted = {
            "headings": [section.title for section in self._sections if section.title],
            "paragraphs_read": self._paragraphs,
            "characters_read": self._characters,
            "dates": list(self._dates)[:MAX_DATES],
            "language": script_language(document.text),
        }
        return ParsedDocument(
            text=document.text,
            blocks=document.blocks,
            title=title_of(document.title),
            encoding=encoding,
            structure={**counted, **(structure or {})},
        )
