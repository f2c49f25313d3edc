"""Small files of each format, made by hand."""

from __future__ import annotations

import io
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


def word_xml(body: str, *, prologue: str = "") -> bytes:
    """A DOCX of one part with the body given in XML."""
    xml = f'<?xml version="1.0"?>{prologue}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    return package({"word/document.xml": xml.encode()})
