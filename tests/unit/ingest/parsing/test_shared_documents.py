"""Every shared document of the six formats is parsed, or fails with a stable code; known facts are found in it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ingest.parsing import DocumentParseError, TierLimits, open_parser
from rag.core.errors import UnsupportedMediaTypeError
from rag.core.media import detect
from rag.core.ports import DocumentParser
from rag.core.types import ParsedDocument, Quality

FAILURES = {
    "corrupt_184bytes_bug1020226.pdf": "malformed",
    "corrupt_REDHAT-1531897-0.pdf": "malformed",
    "corrupt_poppler-742-0-fuzzed.pdf": "malformed",
    "encrypted_2206.01062_pg3.pdf": "encrypted",
    "encrypted_password.pdf": "encrypted",
    "encrypted_testWORD_passtika.docx": "encrypted",
    "truncated_testWORD.docx": "malformed",
}
WITHOUT_TEXT = {
    "empty_page.pdf", "scan_loremipsum-flat.pdf", "scan_ocr_test.pdf", "scan_single_table.pdf", "scan_zh_small_ocr.pdf",
    "empty.txt",
}  # fmt: skip
ENCODINGS = {
    "rashomon_shift_jis.txt": "cp932",
    "wikipedia_big5.txt": "big5",
    "north_korea_euc_kr.txt": "cp949",
    "gymnasium_koi8_r.txt": "koi8_r",
    "fake-text-utf-16.txt": "utf-16",
    "fake-text-utf-16-be_no_bom.txt": "utf-16-be",
    "umlauts-non-utf8.md": "cp1252",
    "stanley-cups-utf-16.csv": "utf-16",
    "test_mskanji.csv": "cp932",
    "example-steelJIS-datasheet-utf-16.html": "utf-16",
    "fake-html-cp1252.html": "cp1252",
    "testArabicMisleadingCharset.html": "cp1256",
}
FACTS = {
    "tracemonkey.pdf": ["Trace-based Just-in-Time Type Specialization", "Andreas Gal", "compile"],
    "right_to_left_01.pdf": ["تحسين الإنتاجية وحل المشكلات من خلال البرمجة بلغة R", "الأدوات القوية", "فعالة للمشكلات"],
    "fake-memo.pdf": ["20,000 bottles of water, 10,000 blankets, and 200 laptops delivered on January 23, 2023"],
    "rotated-page-90.pdf": ["Hello World Test Text Second line of text here Rotated page fixture"],
    "corrupt_recoverable_helloworld-bad.pdf": ["Hello, world!"],
    "encrypted_owner_only_copy-protected.pdf": ["Unified Toolkit for Deep Learning Based Document Image Analysis"],
    "zh_nonembedded_gbk_XiaoBiaoSong.pdf": ["关于红军作战的原则", "对国防问题的意见"],
    "zh_chemistry_introduction.pdf": ["化学学科常用符号公式及其表示", "热化学方程式", "放热反应", "用"],
    "normal_4pages_ko.pdf": ["확진자는 9,661명, 사망자는 158명"],
    "SPARSE-2024-INV-1234_borderless_table.pdf": ["INVENTORY RECONCILIATION REPORT", "SKU-4563", "CRITICAL"],
    "REPAIR-2022-INV-001_multipage.pdf": ["SF-1008", "POL-2022-555", "1C4RJFBG2NC123456"],
    "2305.03393v1-pg9.pdf": ["AMD EPYC 7763 CPU @2.45 GHz"],
    "handbook-872p.docx": ["Chapter 13 Standing Trustees"],
    "zh_en_docx_01.docx": ["MinerU supports DOCX document parsing now", "MinerU支持docx解析了"],
    "minimal_teams_chat.docx": ["OK. Yeah."],
    "nested_test_recursive_embedded.docx": ["embed_0"],
    "rashomon_shift_jis.txt": ["或日の暮方の事である。一人の下人が、羅生門の下で雨やみを待っていた。"],
    "wikipedia_big5.txt": ["維基大典（Wikipedia）者，網路為礎"],
    "north_korea_euc_kr.txt": ["북조선 사람들은 흔히 자국을 조선(朝鮮)이나 공화국(共和國)이라고 부른다."],
    "gymnasium_koi8_r.txt": ["В гимназии он не был в числе первых учеников"],
    "fake-text-utf-16-be_no_bom.txt": ["Hamburgers are delicious"],
    "umlauts-non-utf8.md": ["können", "äöüß"],
    "stanley-cups-utf-16.csv": ["Team: Blues; Location: STL; Stanley Cups: 1"],
    "test_mskanji.csv": ["名前: 髙橋淳; 年齢: 35; 住所: 名古屋"],
    "fake-html-cp1252.html": ["Die schöne Frau hat einen Kaffee mit Kuchen"],
    "wiki_duck.html": ["Duck"],
}
PAGES = {"tracemonkey.pdf": 14, "GeoTopo-komprimiert.pdf": 117, "failure-after-repair.pdf": 76, "multi_page.pdf": 5}


@pytest.fixture(scope="module")
def documents(shared: Path) -> list[tuple[Path, str]]:
    found = []
    for path in sorted((shared / "data" / "documents").rglob("*")):
        if path.is_file():
            try:
                found.append((path, detect(path.name, path.read_bytes()[:4096], None)))
            except UnsupportedMediaTypeError:
                continue
    return found


@pytest.fixture
async def parser() -> AsyncIterator[DocumentParser]:
    async with open_parser(
        limits=TierLimits(full=60.0, summary=60.0), memory_bytes=2**31, output_bytes=64 * 2**20, documents=2
    ) as parser:
        yield parser


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


async def outcome(parser: DocumentParser, path: Path, media_type: str) -> ParsedDocument | str:
    try:
        return await parser.parse(await asyncio.to_thread(path.read_bytes), source=path.name, media_type=media_type)
    except DocumentParseError as error:
        return error.reason


async def test_every_document_is_parsed_or_fails_with_its_code(
    parser: DocumentParser, documents: list[tuple[Path, str]]
) -> None:
    results = {path.name: await outcome(parser, path, media_type) for path, media_type in documents}

    parsed = {name: result for name, result in results.items() if isinstance(result, ParsedDocument)}
    assert {name: result for name, result in results.items() if isinstance(result, str)} == FAILURES
    assert {name for name, result in parsed.items() if result.quality is Quality.NO_TEXT} == WITHOUT_TEXT
    assert {name: parsed[name].encoding for name in ENCODINGS} == ENCODINGS
    missing = {
        (name, fact)
        for name, facts in FACTS.items()
        for fact in facts
        if squeezed(fact) not in squeezed(parsed[name].text)
    }
    assert missing == set()
    assert {name: max(block.page or 0 for block in parsed[name].blocks) for name in PAGES} == PAGES
    assert parsed["normal_4pages_ko.pdf"].title == "코로나-19 관련 보험약관상 재해보험금 지급문제 및 개선과제"
    assert len({block.headings for block in parsed["handbook-872p.docx"].blocks}) > 140


async def test_the_largest_page_in_many_pieces_arrives_whole(parser: DocumentParser, shared: Path) -> None:
    path = shared / "data" / "documents" / "html" / "example-10k.html"

    parsed = await outcome(parser, path, "text/html")

    assert isinstance(parsed, ParsedDocument)
    assert sum(block.kind == "table" for block in parsed.blocks) >= 60
