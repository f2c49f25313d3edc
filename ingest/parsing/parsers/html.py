"""HTML by its tree: headings, lists, tables and code; scripts, styles and navigation are left out.

libxml2 gives up on pages nested deeper than 256; those, and pages whose tree yields no text, are read by plain
tag stripping instead. Text that only scripts would show is no text: ``empty_output``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from lxml import etree, html

from ingest.parsing.assembly import Assembly
from ingest.parsing.cleaning import one_line
from ingest.parsing.encodings import decode
from ingest.parsing.parsers.markup import strip_markup
from ingest.parsing.tables import MAX_SPAN, add_table
from rag.core.errors import ParseError
from rag.core.media import HTML

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rag.core.types import ParsedDocument

_DECLARATION_BYTES = 4096
_CHARSET = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_TITLE = re.compile(r"<title\b[^<>]*>([^<]*)", re.IGNORECASE)
_SILENT = frozenset({
    "script", "style", "template", "noscript", "head", "nav", "iframe", "object", "svg", "math", "canvas", "audio",
    "video", "select", "button", "input", "textarea",
})  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div", "dl",
    "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "html", "li", "main", "ol",
    "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
})  # fmt: skip
_NO_ROWS = frozenset({"caption", "col", "colgroup"})
_APART = _BLOCKS | _HEADINGS.keys() | {"br"}
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_LAYOUT_CELL_CHARACTERS = 1500
_SPACES = re.compile(r"\s+")
_BREAK = "\u2028"
_ITEM = "- "


class HtmlParser:
    """Reads HTML 4 and 5 and XHTML as browsers send it: well formed or not."""

    name: ClassVar[str] = "html"
    media_types: ClassVar[frozenset[str]] = frozenset({HTML})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``undecodable``, ``empty_output``."""
        decoded = decode(content, declared=declared_charsets(content))
        assembly = Assembly()
        tree = _tree(decoded.text)
        if tree is not None:
            _Walk(assembly).read(tree)
        if assembly.empty:
            for line in strip_markup(decoded.text).splitlines():
                assembly.add(line)
        if assembly.empty and decoded.text.strip():
            raise ParseError("the page holds no readable text", code="empty_output")
        return assembly.document(title=_title(tree, decoded.text), encoding=decoded.encoding)


def declared_charsets(content: bytes) -> list[str]:
    """The encodings that the page says it is in."""
    return [name.decode("ascii") for name in _CHARSET.findall(content[:_DECLARATION_BYTES])]


def title_tag(text: str) -> str | None:
    """What stands in the first title tag."""
    found = _TITLE.search(text)
    return found[1] if found else None


def _tree(text: str) -> Any | None:
    parser = html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False, remove_comments=True, remove_pis=True)
    try:
        tree = html.document_fromstring(_XML_DECLARATION.sub("", text).encode(), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError):
        return None
    cut = any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log)
    return None if cut else tree


def _title(tree: Any | None, text: str) -> str | None:
    if tree is not None:
        title: str | None = tree.findtext(".//title")
        return title
    return title_tag(text)


class _Walk:
    """Goes through the tree without recursion, gathering inline text until a block element ends it."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._inline: list[str] = []
        self._items: list[str] = []
        self._heading: int | None = None

    def read(self, root: Any) -> None:
        events = etree.iterwalk(root, events=("start", "end"))
        skipped: Any | None = None
        for event, element in events:
            if skipped is not None:
                if event == "end" and element is skipped:
                    skipped = None
                    self._inline.append(element.tail or "")
                continue
            if event == "start":
                if self._start(element):
                    skipped = element
            else:
                self._end(element)
        self._flush()
        self._flush_items()

    def _start(self, element: Any) -> bool:
        """Whether the element is dealt with, so that what is in it is skipped."""
        tag = _tag(element)
        if _hidden(element, tag):
            return True
        if tag in _BLOCKS or tag in _HEADINGS:
            self._flush()
        if tag in _HEADINGS:
            self._heading = _HEADINGS[tag]
        if tag == "table" and not _layout(element):
            self._flush_items()
            self._assembly.add(_caption(element))
            add_table(self._assembly, _rows(element))
            return True
        if tag == "pre":
            self._flush_items()
            self._assembly.add("".join(element.itertext()), kind="code")
            return True
        if tag == "li":
            self._inline.append(_ITEM)
        if tag == "br":
            self._inline.append(_BREAK)
        self._inline.append(_own_text(element))
        return False

    def _end(self, element: Any) -> None:
        tag = _tag(element)
        if tag in _BLOCKS or tag in _HEADINGS:
            self._flush()
        self._inline.append(element.tail or "")

    def _flush(self) -> None:
        text = _collapse("".join(self._inline))
        self._inline.clear()
        if text.startswith(_ITEM) and self._heading is None:
            self._items.append(text)
            return
        if text in ("", _ITEM.strip()):
            return
        self._flush_items()
        if self._heading is not None:
            self._assembly.heading(self._heading, text.removeprefix(_ITEM))
            self._heading = None
        else:
            self._assembly.add(text)

    def _flush_items(self) -> None:
        self._assembly.add("\n".join(self._items))
        self._items.clear()


def _own_text(element: Any) -> str:
    """What an element says before those in it: a picture by the words that stand for it."""
    if _tag(element) == "img" and (element.get("alt") or "").strip():
        return f" {element.get('alt')} "
    return element.text or ""


def _collapse(text: str) -> str:
    return "\n".join(_SPACES.sub(" ", line).strip() for line in text.split(_BREAK)).strip()


def _tag(element: Any) -> str:
    return element.tag if isinstance(element.tag, str) else ""


def _hidden(element: Any, tag: str) -> bool:
    if not tag or tag in _SILENT:
        return True
    attributes = element.attrib
    if attributes.get("role") == "navigation" or "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    return _HIDDEN_STYLE.search(attributes.get("style") or "") is not None


def _layout(table: Any) -> bool:
    """Whether a table only places things: it holds headings, other tables of many rows, or very long cells."""
    if next(table.iter("h1", "h2", "h3", "h4", "pre"), None) is not None:
        return True
    if any(len(nested.findall(".//tr")) > 1 for nested in table.iterdescendants("table")):
        return len(table.findall("./tr")) + len(table.findall("./tbody/tr")) <= 1
    return any(len(one_line(_text(cell))) > _LAYOUT_CELL_CHARACTERS for cell in table.iter("td", "th"))


def _rows(table: Any) -> Iterator[list[str]]:
    """Cells in their columns: one over several rows is repeated in each, one over columns leaves the others empty."""
    above: dict[int, tuple[int, str]] = {}
    for row in _own_rows(table):
        cells: list[str] = []
        for cell in row:
            _spanned(cells, above)
            if isinstance(cell, str):
                cells.append(cell)
            else:
                _place(cells, above, cell)
        _spanned(cells, above)
        yield cells


def _spanned(cells: list[str], above: dict[int, tuple[int, str]]) -> None:
    """Put the cells that reach down from the rows above into the next columns, as far as they follow."""
    while len(cells) in above:
        column = len(cells)
        rows, text = above.pop(column)
        cells.append(text)
        if rows > 1:
            above[column] = (rows - 1, text)


def _place(cells: list[str], above: dict[int, tuple[int, str]], cell: Any) -> None:
    text = _text(cell)
    rows, columns = _span(cell, "rowspan"), _span(cell, "colspan")
    for number in range(columns):
        if rows > 1:
            above[len(cells)] = (rows - 1, "" if number else text)
        cells.append("" if number else text)


def _span(cell: Any, name: str) -> int:
    span = (cell.get(name) or "1").strip()
    return min(max(int(span), 1), MAX_SPAN) if span.isdecimal() and len(span) < 6 else 1


def _own_rows(table: Any) -> Iterator[list[Any]]:
    """The rows with their cells. What stands between cells or rows, element or text, is a cell or row too."""
    if (table.text or "").strip():
        yield [table.text]
    for child in table:
        if _tag(child) == "tr":
            yield list(_cells(child))
        elif _tag(child) in ("thead", "tbody", "tfoot"):
            yield from _own_rows(child)
        elif _tag(child) not in _NO_ROWS and not _hidden(child, _tag(child)):
            yield [child]
        if (child.tail or "").strip():
            yield [child.tail]


def _cells(row: Any) -> Iterator[Any]:
    if (row.text or "").strip():
        yield row.text
    for child in row:
        if _tag(child) in ("td", "th") or not _hidden(child, _tag(child)):
            yield child
        if (child.tail or "").strip():
            yield child.tail


def _caption(table: Any) -> str:
    caption = table.find("caption")
    return "" if caption is None else _collapse(_text(caption))


def _text(cell: Any) -> str:
    """The visible text of a cell on one line; what is in nested elements is kept apart by spaces."""
    if not len(cell):
        return _own_text(cell)
    parts: list[str] = []
    hidden: Any | None = None
    for event, element in etree.iterwalk(cell, events=("start", "end")):
        if hidden is None and event == "start" and element is not cell and _hidden(element, _tag(element)):
            hidden = element
        if hidden is None:
            parts.append(" " if _tag(element) in _APART else "")
            parts.append(_own_text(element) if event == "start" else "")
        if event == "end" and element is not cell and hidden in (None, element):
            hidden = None
            parts.append(element.tail or "")
    return "".join(parts)
