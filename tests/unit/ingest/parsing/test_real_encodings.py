"""Sentences that people wrote come back exactly from every encoding, as text, as a page and as a table."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.parsing.cleaning import clean, one_line
from ingest.parsing.encodings import decode
from ingest.parsing.parsers import load_parsers
from rag.core.media import CSV, HEAD_BYTES, HTML, TEXT, detect

PARSERS = load_parsers()
NAMES = {TEXT: "a.txt", HTML: "a.html", CSV: "a.csv"}
WIDE = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
CODECS: Mapping[str, Sequence[str]] = {
    "Chinese": (*WIDE, "gb18030", "gbk"),
    "Traditional": ("utf-16-le", "utf-16-be", "big5", "gb18030"),
    "Japanese": ("utf-16-le", "utf-16-be", "shift_jis", "cp932", "euc_jp", "iso2022_jp"),
    "Korean": ("utf-16-le", "utf-16-be", "euc_kr", "cp949"),
    "Arabic": ("utf-16-le", "utf-32-be", "cp1256"),
    "Russian": ("utf-16-le", "koi8_r", "cp1251", "cp866", "iso8859_5"),
    "Ukrainian": ("koi8_u", "cp1251"),
    "Greek": ("cp1253", "iso8859_7"),
    "Hebrew": ("cp1255",),
    "German": ("utf-16-be", "cp1252", "iso8859_1"),
    "French": ("cp1252",),
    "Spanish": ("cp1252",),
    "Polish": ("cp1250", "iso8859_2"),
    "Czech": ("cp1250", "iso8859_2"),
    "Lithuanian": ("cp1257",),
    "Turkish": ("cp1254",),
}
OPENINGS = {
    "Traditional": "人人生而自由，在尊嚴", "Ukrainian": "Всі люди", "Greek": "Όλοι", "Hebrew": "כל בני",
    "German": "Alle Menschen", "French": "Tous les êtres", "Spanish": "Todos los seres", "Polish": "Wszyscy",
    "Czech": "Všichni", "Lithuanian": "Visi žmonės", "Turkish": "Bütün insanlar hür", "Russian": "Все люди",
}  # fmt: skip


@pytest.fixture(scope="module")
def sentences(shared: Path) -> dict[str, list[str]]:
    data = shared / "data"
    declaration = (data / "documents/text/UDHR_first_article_all.txt").read_text(encoding="utf-8").splitlines()
    found = {
        language: [next(line for line in declaration if line.startswith(opening))]
        for language, opening in OPENINGS.items()
    }
    texts = data / "documents/text"
    found["Chinese"] = _split(_corpus(data / "retrieval/cmrc2018_dev_zh"), "[^。！？\n]+[。！？]")
    found["Arabic"] = _split(_corpus(data / "retrieval/xquad_ar"), "[^.\n]+[.]")
    found["Japanese"] = _split((texts / "rashomon_shift_jis.txt").read_bytes().decode("cp932"), "[^A-Za-z。\r\n]+。")
    found["Korean"] = _split((texts / "north_korea_euc_kr.txt").read_bytes().decode("cp949"), "[^.\r\n]+[.]")
    found["Russian"] += _split((texts / "gymnasium_koi8_r.txt").read_bytes().decode("koi8_r"), "[^.\r\n]+[.]")
    return found


def _corpus(folder: Path, documents: int = 40) -> str:
    with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
        return "\n".join(json.loads(line)["text"] for line, _ in zip(lines, range(documents), strict=False))


def _split(text: str, pattern: str) -> list[str]:
    return [sentence.strip() for sentence in re.findall(pattern, text) if len(sentence.strip()) >= 12]


def parsed(content: bytes, media_type: str) -> str:
    """What is kept of a file that is accepted under its name and read in the encoding that is recorded."""
    assert detect(NAMES[media_type], content[:HEAD_BYTES], None) == media_type
    document = PARSERS[media_type].parse(content, source="file", media_type=media_type)
    assert document.encoding == decode(content).encoding
    return document.text


def encodable(sentences: Sequence[str], codec: str) -> list[str]:
    """Those in their normal form and in the encoding's repertoire, but for a few kana in UTF-16: they are ASCII too."""
    kept = []
    for sentence in sentences:
        try:
            encoded = sentence.encode(codec)
        except UnicodeEncodeError:
            continue
        ambiguous = codec.startswith("utf-16") and encoded.isascii() and b"\x00" not in encoded
        if encoded.decode(codec) == sentence == one_line(clean(sentence)) and not ambiguous:
            kept.append(sentence)
    return kept


@pytest.mark.parametrize(
    ("language", "codec"), [(language, codec) for language, codecs in CODECS.items() for codec in codecs]
)
def test_real_sentences_come_back_exactly(sentences: dict[str, list[str]], language: str, codec: str) -> None:
    usable = encodable(sentences[language], codec)

    @settings(max_examples=8, deadline=None, database=None)
    @given(chosen=st.lists(st.sampled_from(usable), min_size=1, max_size=3))
    def check(chosen: list[str]) -> None:
        page = "<title>x</title>" + "".join(f"<p>{escape(each)}</p>" for each in chosen)
        table = io.StringIO()
        csv.writer(table).writerows([["name", "text"], *(["x", each] for each in chosen)])

        plain, read, rows = (
            parsed(text.encode(codec), media)
            for text, media in (("\n\n".join(chosen), TEXT), (page, HTML), (table.getvalue(), CSV))
        )

        # A row that is too long for one line has a line for each cell.
        lines = rows.replace("\n\n", "\n").replace("name: x; text: ", "name: x\ntext: ")
        assert [plain, read, lines] == [
            "\n\n".join(chosen), "\n\n".join(chosen), "\n".join(f"name: x\ntext: {each}" for each in chosen),
        ]  # fmt: skip

    check()
