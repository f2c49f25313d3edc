"""The parsers, one a format, in one table. They are imported in the child processes only."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from rag.core.media import CSV, DOCX, HTML, MARKDOWN, PDF, TEXT
from rag.core.ports import Parser

PARSERS: Mapping[str, str] = {
    PDF: "ingest.parsing.parsers.pdf:PdfParser",
    DOCX: "ingest.parsing.parsers.docx:DocxParser",
    HTML: "ingest.parsing.parsers.html:HtmlParser",
    MARKDOWN: "ingest.parsing.parsers.markdown:MarkdownParser",
    TEXT: "ingest.parsing.parsers.text:TextParser",
    CSV: "ingest.parsing.parsers.csv:CsvParser",
}
"""Media type to ``module:class``."""


def load_parsers(table: Mapping[str, str] = PARSERS) -> dict[str, Parser]:
    """Import and make every parser of ``table``; media type to parser."""
    parsers: dict[str, Parser] = {}
    for media_type, place in table.items():
        module, _, name = place.partition(":")
        parsers[media_type] = getattr(import_module(module), name)()
    return parsers
