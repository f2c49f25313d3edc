"""Word documents from their XML: headings by style or outline level, numbers, lists, tables, foot- and endnotes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from lxml import etree

from ingest.parsing.assembly import Assembly
from ingest.parsing.parsers.archive import Package
from ingest.parsing.parsers.numbering import BULLET, LEVELS, Level, List, Numbers, Place
from ingest.parsing.tables import MAX_SPAN, add_table
from rag.core.errors import ParseError
from rag.core.media import DOCX
from rag.core.types import ParsedDocument

MAX_TABLE_DEPTH = 16
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_DEEPEST_STYLE_CHAIN = 32
_HEADING_STYLE = re.compile(r"heading ([1-9])")
_RELATIONS = "_rels/.rels"
_DOCUMENT = "word/document.xml"
_STYLES = "word/styles.xml"
_NUMBERING = "word/numbering.xml"
_CONTAINERS = frozenset({"sdt", "sdtContent", "customXml", "smartTag", "ins", "moveTo", "hyperlink", "fldSimple"})
_UNPRINTED = frozenset({"del", "moveFrom", "Fallback", "pPr", "rPr"})
_MARKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "p": "\n"}
_LONGEST_NUMBER = 100
_NOTES = (("word/footnotes.xml", "footnote"), ("word/endnotes.xml", "endnote"))


class DocxParser:
    """Reads WordprocessingML; pictures and embedded files are left out."""

    name: ClassVar[str] = "docx"
    media_types: ClassVar[frozenset[str]] = frozenset({DOCX})

    def parse(self, content: bytes, *, source: str, media_type: str) -> ParsedDocument:  # noqa: ARG002  the port
        """Raises ``ParseError``: ``encrypted``, ``malformed``, ``archive_too_large``."""
        require_package(content)
        package = Package(content)
        body = next(_children(_xml(package, main_part(package)), "body"), None)
        if body is None:
            raise ParseError("the document has no body", code="malformed")
        assembly = Assembly()
        reader = _Reader(assembly, heading_levels(package), numbers(package))
        reader.read(body)
        _add_notes(package, assembly)
        return assembly.document(title=_property_title(package) or reader.title)


def require_package(content: bytes) -> None:
    """Raises ``ParseError`` with reason ``encrypted`` for what is no package but wraps one."""
    if content.startswith(_OLE):
        raise ParseError("the document is encrypted or in the old binary format", code="encrypted")


def main_part(package: Package) -> str:
    """The name of the part that holds the body. Raises ``ParseError``."""
    if _DOCUMENT in package:
        return _DOCUMENT
    for relation in _xml(package, _RELATIONS):
        if (relation.get("Type") or "").endswith("/officeDocument"):
            return (relation.get("Target") or "").lstrip("/")
    raise ParseError("the package is no Word document", code="malformed")


def _xml(package: Package, name: str) -> Any:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(package.read_xml(name), parser)
    except etree.XMLSyntaxError as error:
        raise ParseError(f"the part {name} is no valid XML", code="malformed") from error
    if root.getroottree().docinfo.internalDTD is not None:
        raise ParseError(f"the part {name} declares a document type", code="malformed")
    return root


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _children(element: Any, name: str) -> Iterator[Any]:
    return (child for child in element if _name(child) == name)


def _first(element: Any | None, *path: str) -> Any | None:
    for name in path:
        element = next(_children(element, name), None) if element is not None else None
    return element


def _value(element: Any | None) -> str | None:
    """The attribute ``w:val``, in either namespace."""
    if element is None:
        return None
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == "val"), None)


def _property_title(package: Package) -> str | None:
    if "docProps/core.xml" not in package:
        return None
    try:
        title = _first(_xml(package, "docProps/core.xml"), "title")
    except ParseError:
        return None
    return None if title is None else title.text


def heading_levels(package: Package) -> dict[str, int]:
    """Style id to heading level; 0 is the document's title."""
    styles = _styles(package)
    levels = {identity: _style_level(identity, styles) for identity in styles}
    return {identity: level for identity, level in levels.items() if level is not None}


def _styles(package: Package) -> dict[str, Any]:
    root = _optional_xml(package, _STYLES)
    return {} if root is None else {_attribute(style, "styleId"): style for style in _children(root, "style")}


def _optional_xml(package: Package, name: str) -> Any | None:
    """A part that only adds to the text: one that is missing or damaged is ``None``."""
    try:
        return _xml(package, name) if name in package else None
    except ParseError:
        return None


def numbers(package: Package) -> Numbers:
    """The rules by which the paragraphs of the document are numbered, and their count so far: none."""
    root = _optional_xml(package, _NUMBERING)
    if root is None:
        return Numbers({}, {}, {})
    kinds = {_attribute(each, "abstractNumId"): _levels(each) for each in _children(root, "abstractNum")}
    lists = {_attribute(each, "numId"): _list(each) for each in _children(root, "num")}
    styles = _styles(package)
    return Numbers(kinds, lists, {identity: _style_place(identity, styles) for identity in styles})


def _levels(kind: Any) -> dict[int, Level]:
    return {_whole(_attribute(each, "ilvl"), 0, most=LEVELS - 1): _level(each) for each in _children(kind, "lvl")}


def _level(rule: Any) -> Level:
    return Level(
        text=(_value(_first(rule, "lvlText")) or "")[:_LONGEST_NUMBER],
        format=_value(_first(rule, "numFmt")) or "decimal",
        start=_whole(_value(_first(rule, "start")), 1),
        style=_value(_first(rule, "pStyle")) or "",
    )


def _list(number: Any) -> List:
    starts = {}
    for override in _children(number, "lvlOverride"):
        start = _value(_first(override, "startOverride"))
        if start is not None:
            starts[_whole(_attribute(override, "ilvl"), 0, most=LEVELS - 1)] = _whole(start, 1)
    return List(kind=_value(_first(number, "abstractNumId")) or "", starts=starts)


def _style_place(identity: str, styles: dict[str, Any]) -> Place:
    """The place that a style, or one that it is based on, has in a list."""
    for _ in range(_DEEPEST_STYLE_CHAIN):
        style = styles.get(identity)
        if style is None:
            break
        place = _place(_first(style, "pPr"))
        if place.number is not None:
            return place
        identity = _value(_first(style, "basedOn")) or ""
    return Place()


def _place(properties: Any | None) -> Place:
    level = _value(_first(properties, "numPr", "ilvl"))
    return Place(
        number=_value(_first(properties, "numPr", "numId")),
        level=None if level is None else _whole(level, 0, most=LEVELS - 1),
    )


def _whole(value: str | None, default: int, *, most: int = 99_999) -> int:
    return min(int(value), most) if value is not None and value.isdecimal() and len(value) < 6 else default


def _attribute(element: Any, name: str) -> str:
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def _style_level(identity: str, styles: dict[str, Any]) -> int | None:
    for _ in range(_DEEPEST_STYLE_CHAIN):
        style = styles.get(identity)
        if style is None:
            return None
        name = (_value(_first(style, "name")) or "").lower()
        if name == "title":
            return 0
        found = _HEADING_STYLE.match(name)
        if found:
            return int(found[1])
        outline = _outline_level(_first(style, "pPr"))
        if outline is not None:
            return outline
        identity = _value(_first(style, "basedOn")) or ""
    return None


def _outline_level(properties: Any | None) -> int | None:
    level = _value(_first(properties, "outlineLvl")) if properties is not None else None
    return int(level) + 1 if level is not None and level.isdigit() and int(level) < 9 else None


class _Reader:
    def __init__(self, assembly: Assembly, styles: dict[str, int], numbers: Numbers) -> None:
        self._assembly = assembly
        self._styles = styles
        self._numbers = numbers
        self._items: list[str] = []
        self.title: str | None = None

    def read(self, body: Any) -> None:
        for element in _flat(body):
            if _name(element) == "p":
                self._paragraph(element)
            else:
                self._flush()
                add_table(self._assembly, _table_rows(element, self._numbers, depth=1))
        self._flush()

    def _paragraph(self, paragraph: Any) -> None:
        text, mark = paragraph_text(paragraph), _mark(paragraph, self._numbers)
        level = level_of(paragraph, self._styles)
        if level is None and mark is not None and text.strip():
            self._items.append(f"{mark} {text.strip()}")
            return
        self._flush()
        if mark not in (None, BULLET) and text.strip():
            text = f"{mark} {text.strip()}"
        if level == 0 and text.strip():
            self.title = self.title or text
        if level:
            self._assembly.heading(level, text)
        else:
            self._assembly.add(text)

    def _flush(self) -> None:
        self._assembly.add("\n".join(self._items))
        self._items.clear()


def _mark(paragraph: Any, numbers: Numbers) -> str | None:
    properties = _first(paragraph, "pPr")
    return numbers.next(_place(properties), _value(_first(properties, "pStyle")) or "")


def level_of(paragraph: Any, styles: Mapping[str, int]) -> int | None:
    """The heading level of a paragraph, 0 for the document's title, ``None`` for text."""
    properties = _first(paragraph, "pPr")
    if properties is None:
        return None
    outline = _outline_level(properties)
    return outline if outline is not None else styles.get(_value(_first(properties, "pStyle")) or "")


def _flat(container: Any) -> Iterator[Any]:
    """Paragraphs and tables in order, out of content controls and tracked insertions."""
    stack = [iter(container)]
    while stack:
        element = next(stack[-1], None)
        if element is None:
            stack.pop()
        elif _name(element) in ("p", "tbl"):
            yield element
        elif _name(element) in _CONTAINERS:
            stack.append(iter(element))


def paragraph_text(paragraph: Any) -> str:
    """The text of a paragraph as it prints: deleted text, field codes and alternative drawings left out."""
    parts: list[str] = []
    skipped: Any | None = None
    for event, element in etree.iterwalk(paragraph, events=("start", "end")):
        if skipped is not None:
            skipped = None if event == "end" and element is skipped else skipped
        elif event == "start" and _name(element) in _UNPRINTED:
            skipped = element
        elif event == "start" and element is not paragraph:
            parts.append((element.text or "") if _name(element) == "t" else _MARKS.get(_name(element), ""))
    return "".join(parts)


def _table_rows(table: Any, numbers: Numbers, *, depth: int) -> list[list[str]]:
    """Cells in their columns: one merged downwards is repeated in each row, one over columns leaves the others empty.

    A nested table is flattened into its cell.
    """
    rows: list[list[str]] = []
    above: dict[int, str] = {}
    for row in _rows_of(table):
        cells = [""] * _skipped(row)
        for cell in _cells_of(row):
            properties = _first(cell, "tcPr")
            merged = _first(properties, "vMerge") if properties is not None else None
            text = _cell_text(cell, numbers, depth=depth)
            if merged is not None and _value(merged) != "restart":
                text = above.get(len(cells), "")
            above[len(cells)] = text
            cells.extend((text, *[""] * (_span(properties, "gridSpan") - 1)))
        rows.append(cells)
    return rows


def _rows_of(table: Any) -> Iterator[Any]:
    for child in table:
        if _name(child) == "tr":
            yield child
        elif _name(child) in _CONTAINERS:
            yield from (row for row in child.iter() if _name(row) == "tr")


def _cells_of(row: Any) -> Iterator[Any]:
    for child in row:
        if _name(child) == "tc":
            yield child
        elif _name(child) in _CONTAINERS:
            yield from (cell for cell in child.iter() if _name(cell) == "tc")


def _skipped(row: Any) -> int:
    """How many columns the row begins late."""
    properties = _first(row, "trPr")
    return _span(properties, "gridBefore") if _first(properties, "gridBefore") is not None else 0


def _span(properties: Any | None, name: str) -> int:
    span = _value(_first(properties, name)) if properties is not None else None
    return min(max(int(span), 1), MAX_SPAN) if span is not None and span.isdecimal() and len(span) < 6 else 1


def _cell_text(cell: Any, numbers: Numbers, *, depth: int) -> str:
    parts = []
    for element in _flat(cell):
        if _name(element) == "p":
            text, mark = paragraph_text(element).strip(), _mark(element, numbers)
            parts.append(f"{mark} {text}" if text and mark not in (None, BULLET) else text)
        elif depth < MAX_TABLE_DEPTH:
            parts.extend(" / ".join(filter(None, row)) for row in _table_rows(element, numbers, depth=depth + 1))
    return "\n".join(filter(None, (part.strip() for part in parts)))


def _add_notes(package: Package, assembly: Assembly) -> None:
    for part, name in _NOTES:
        if part not in package:
            continue
        for note in _children(_xml(package, part), name):
            if _attribute(note, "type") in ("", "normal"):
                assembly.add("\n".join(paragraph_text(paragraph) for paragraph in _children(note, "p")))
