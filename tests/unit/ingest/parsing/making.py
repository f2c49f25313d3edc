"""Small files of each format, made by hand."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import docx

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def pdf(
    pages: Sequence[Sequence[str]],
    *,
    title: str | None = None,
    rotate: int = 0,
    outline: Mapping[str, int] | None = None,
) -> bytes:
    """A PDF of one line of Latin text after the other; ``outline`` maps titles to page indexes."""
    objects: list[str] = []

    def add(body: str) -> int:
        objects.append(body)
        return len(objects)

    catalog, tree, font = add(""), add(""), add("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    kids = []
    for lines in pages:
        shown = " ".join(f"({line}) Tj T*" for line in lines)
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET"
        content = add(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        kids.append(
            add(
                f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 612 792] /Rotate {rotate} "
                f"/Resources << /Font << /F1 {font} 0 R >> >> /Contents {content} 0 R >>"
            )
        )
    references = " ".join(f"{kid} 0 R" for kid in kids)
    objects[tree - 1] = f"<< /Type /Pages /Kids [{references}] /Count {len(kids)} >>"
    marks = ""
    if outline:
        root = add("")
        first = len(objects) + 1
        for number, (name, page) in enumerate(outline.items()):
            following = f"/Next {first + number + 1} 0 R" if number + 1 < len(outline) else ""
            add(f"<< /Title ({name}) /Parent {root} 0 R /Dest [{kids[page]} 0 R /Fit] {following} >>")
        objects[root - 1] = f"<< /Type /Outlines /First {first} 0 R /Last {len(objects)} 0 R /Count {len(outline)} >>"
        marks = f"/Outlines {root} 0 R"
    objects[catalog - 1] = f"<< /Type /Catalog /Pages {tree} 0 R {marks} >>"
    info = add(f"<< /Title ({title}) >>") if title else None
    return _written(objects, catalog, info)


def _written(objects: Sequence[str], catalog: int, info: int | None) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    for offset in offsets:
        out += f"{offset:010} 00000 n \n".encode()
    extra = f"/Info {info} 0 R" if info else ""
    out += f"trailer\n<< /Size {len(objects) + 1} /Root {catalog} 0 R {extra} >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def word(fill: Callable[[Any], object]) -> bytes:
    """A DOCX that ``fill`` wrote with python-docx."""
    document = docx.Document()
    fill(document)
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def package(parts: Mapping[str, bytes]) -> bytes:
    """A zip of parts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def word_xml(body: str, *, prologue: str = "", beside: Mapping[str, bytes] | None = None) -> bytes:
    """A DOCX of one part with the body given in XML, and of the parts ``beside`` it."""
    xml = f'<?xml version="1.0"?>{prologue}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    return package({"word/document.xml": xml.encode(), **(beside or {})})


def paragraph(text: str) -> str:
    """A paragraph of a DOCX in XML."""
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def with_declared_size(archive: bytes, size: int) -> bytes:
    """A zip of one part that says that it inflates to ``size`` bytes, in its own header and in the directory."""
    content = bytearray(archive)
    for mark, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = content.index(mark) + place
        content[start : start + 4] = size.to_bytes(4, "little")
    return bytes(content)


def pdf_with_object_stream_in_itself() -> bytes:
    """A PDF whose catalog is in an object stream that is in itself, and extends itself."""
    catalog = b"1 0 << /Type /Catalog /Pages 3 0 R >>"
    objects = {
        3: b"<< /Type /Pages /Kids [] /Count 1 >>",
        4: b"<< /Type /ObjStm /N 1 /First 4 /Extends 4 0 R /Length %d >>\nstream\n%s\nendstream"
        % (len(catalog), catalog),
    }
    out, places = b"%PDF-1.5\n", dict[int, int]()
    for number, body in objects.items():
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    entries = [(0, 0, 65535), (2, 4, 0), (2, 2, 0), (1, places[3], 0), (2, 4, 0), (1, start, 0)]
    table = b"".join(struct.pack(">BIH", *entry) for entry in entries)
    reference = b"<< /Type /XRef /Size 6 /W [1 4 2] /Root 1 0 R /Length %d >>" % len(table)
    out += b"5 0 obj\n%s\nstream\n%s\nendstream\nendobj\n" % (reference, table)
    return out + b"startxref\n%d\n%%%%EOF\n" % start
