"""What is read of a document when a full parse takes too long: a summary, or the beginning of its raw text.

Both know when to stop: they read a bounded part of the document within a bounded time, so that there is something
to answer with. They are imported in the child processes only.
"""

from __future__ import annotations

from collections.abc import Mapping

from rag.core.media import CSV, DOCX, HTML, MARKDOWN, PDF, TEXT

SUMMARIES: Mapping[str, str] = {
    PDF: "ingest.parsing.fast.pdf:PdfSummary",
    DOCX: "ingest.parsing.fast.docx:DocxSummary",
    HTML: "ingest.parsing.fast.html:HtmlSummary",
    MARKDOWN: "ingest.parsing.fast.text:MarkdownSummary",
    TEXT: "ingest.parsing.fast.text:TextSummary",
    CSV: "ingest.parsing.fast.text:CsvSummary",
}
"""Media type to ``module:class``, as in ``PARSERS``."""

FRAGMENTS: Mapping[str, str] = {
    PDF: "ingest.parsing.fast.fragment:PdfFragment",
    DOCX: "ingest.parsing.fast.fragment:DocxFragment",
    HTML: "ingest.parsing.fast.fragment:HtmlFragment",
    MARKDOWN: "ingest.parsing.fast.fragment:TextFragment",
    TEXT: "ingest.parsing.fast.fragment:TextFragment",
    CSV: "ingest.parsing.fast.fragment:TextFragment",
}
