"""Generated documents: English and Chinese sentences as plain text, HTML and PDF."""

from __future__ import annotations

import ctypes
import io
import random
from collections.abc import Iterator

import pypdfium2
from pypdfium2 import raw

_ENGLISH = [
    "harbour", "crane", "tide", "berth", "cargo", "anchor", "pilot", "vessel", "mooring", "lantern", "captain",
    "signal", "weather", "customs", "warehouse", "container", "schedule", "arrival", "departure", "notice", "tariff",
    "quay", "channel", "inspection", "manifest", "insurance", "northern",
]  # fmt: skip
_CHINESE = "港口潮汐泊位船舶信号起重机货物引航员系泊灯塔船长天气海关仓库集装箱航班到达离开通知费率航道检查保险北部"
_PAGE = (595.0, 842.0)
_MARGIN, _LEADING, _SIZE = 60.0, 18.0, 11.0
_LINE_WORDS = 9


def sentences(seed: int, *, chinese: float = 0.3) -> Iterator[str]:
    """Sentences without end; ``chinese`` is their share."""
    chance = random.Random(seed)
    while True:
        if chance.random() < chinese:
            yield "".join(chance.choices(_CHINESE, k=chance.randint(12, 30))) + "。"
        else:
            words = chance.choices(_ENGLISH, k=chance.randint(7, 18))
            yield " ".join(words).capitalize() + "."


def plain_text(size: int, *, seed: int) -> bytes:
    """At least ``size`` bytes of paragraphs in UTF-8."""
    return "\n\n".join(_paragraphs(size, seed)).encode()


def page(size: int, *, seed: int) -> bytes:
    """At least ``size`` bytes of HTML text in sections with paragraphs, lists and tables."""
    pieces = ["<!doctype html><html><head><title>Port handbook</title></head><body>"]
    for number, paragraph in enumerate(_paragraphs(size, seed)):
        match number % 8:
            case 0:
                pieces.append(f"<h2>Section {number}</h2>\n<p>{paragraph}</p>\n")
            case 3:
                pieces.append(f"<ul><li>{paragraph}</li><li>item <b>{number}</b></li></ul>\n")
            case 6:
                pieces.append(f"<table><tr><th>berth</th><th>note</th></tr><tr><td>{number}</td><td>{paragraph[:60]}")
                pieces.append("</td></tr></table>\n")
            case _:
                pieces.append(f'<p class="text">{paragraph}</p>\n')
    return "".join([*pieces, "</body></html>"]).encode()


def pdf(pages: int, *, seed: int) -> bytes:
    """A PDF with full pages of English text."""
    chance = random.Random(seed)
    document = pypdfium2.PdfDocument.new()
    font = raw.FPDFText_LoadStandardFont(document.raw, b"Helvetica")
    for _ in range(pages):
        sheet = document.new_page(*_PAGE)
        height = _PAGE[1] - _MARGIN
        while height > _MARGIN:
            _write_line(document, sheet, font, " ".join(chance.choices(_ENGLISH, k=_LINE_WORDS)), height)
            height -= _LEADING
        sheet.gen_content()
        sheet.close()
    raw.FPDFFont_Close(font)
    buffer = io.BytesIO()
    document.save(buffer)
    document.close()
    return buffer.getvalue()


def _write_line(document: pypdfium2.PdfDocument, sheet: pypdfium2.PdfPage, font: object, line: str, y: float) -> None:
    text = raw.FPDFPageObj_CreateTextObj(document.raw, font, _SIZE)
    encoded = ctypes.create_string_buffer((line + "\x00").encode("utf-16-le"))
    raw.FPDFText_SetText(text, ctypes.cast(encoded, raw.FPDF_WIDESTRING))
    raw.FPDFPageObj_Transform(text, 1, 0, 0, 1, _MARGIN, y)
    raw.FPDFPage_InsertObject(sheet.raw, text)


def _paragraphs(size: int, seed: int) -> Iterator[str]:
    """Paragraphs of five sentences until there are ``size`` bytes."""
    source, made = sentences(seed), 0
    while made < size:
        paragraph = " ".join(next(source) for _ in range(5))
        made += len(paragraph.encode())
        yield paragraph
