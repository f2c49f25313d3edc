"""What the README of the shared documents says about each file of the six formats.

A fact that the reader of a document cannot see, such as its number of bytes, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SUFFIXES = frozenset({".pdf", ".docx", ".html", ".md", ".txt", ".csv"})
BESIDE = (".expected.md", ".truth.csv")
"""Endings of files that say what another file holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one document; each text counts as a fact of its own, white space and width of letters apart.

    ``order``: each text comes after the one before. ``rows``: the cells of a row of a table follow each other on one
    line. ``on_pages``: texts with the page they are on. ``tables``, ``lines`` and ``headings`` (sections) are the
    least that there are. ``partial``: some pages cannot be read.
    """

    texts: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    title: str | None = None
    pages: int | None = None
    on_pages: tuple[tuple[str, int], ...] = ()
    encoding: str | None = None
    tables: int | None = None
    lines: int | None = None
    headings: int | None = None
    code: str | None = None
    no_text: bool = False
    partial: bool = False


FACTS: Mapping[str, Facts] = {
    # PDF
    "tracemonkey.pdf": Facts(
        pages=14,
        on_pages=(("References [1] LuaJIT roadmap 2008", 14),),
        texts=("Trace-based Just-in-Time Type Specialization for Dynamic Languages", "Andreas Gal"),
        order=(
            "Abstract", "1. Introduction", "2. Overview: Example Tracing Run", "3. Trace Trees", "9. Conclusions",
            "References",
        ),
    ),
    "multi-column-2p.pdf": Facts(
        pages=2,
        texts=("Dense Passage Retrieval for Open-Domain Question Answering", "arXiv:2004.04906v3"),
        order=(
            "Open-domain question answering relies on efficient passage retrieval to select candidate contexts",
            "are the de facto method",
            "using dense representations alone, where embeddings are learned from a small number of questions",
            "1 Introduction",
            "Open-domain question answering (QA) (Voorhees, 1999) is a task that answers factoid questions",
        ),
    ),
    "layout-parser-paper-with-table.pdf": Facts(
        pages=1,
        texts=(
            "Table 1: Current layout detection models in the LayoutParser model zoo",
            "Base Model1 Large Model",
            "PubLayNet [38] F / M M",
        ),
    ),
    "2305.03393v1-pg9.pdf": Facts(
        pages=1,
        texts=(
            "AMD EPYC 7763 CPU @2.45 GHz",
            "6 6 OTSL 0.965 0.934 0.955 0.88 2.73 HTML 0.969 0.927 0.955 0.857 5.39",
            "4 2 OTSL 0.952 0.92 0.942 0.857 1.22 HTML 0.944 0.903 0.931 0.824 2",
        ),
    ),
    "multi_page.pdf": Facts(pages=5, title="The Evolution of the Word Processor"),
    "reliance.pdf": Facts(pages=3, texts=("Integrated Annual Report 2021-22",)),
    "GeoTopo-komprimiert.pdf": Facts(
        pages=117,
        on_pages=(("1 Topologische Grundbegriffe", 6),),
        texts=("Einführung in die Geometrie und Topologie", "Martin Thoma", "1 Topologische Grundbegriffe"),
    ),
    "failure-after-repair.pdf": Facts(pages=76, texts=("Understanding Breast Cancer", "Cancer Council Australia")),
    "fake-memo.pdf": Facts(
        pages=1,
        texts=(
            "There were 20,000 bottles of water, 10,000 blankets, and 200 laptops delivered on January 23, 2023.",
        ),
    ),
    "rotated-page-90.pdf": Facts(
        pages=1, texts=("Hello World Test Text Second line of text here Rotated page fixture",)
    ),
    "REPAIR-2022-INV-001_multipage.pdf": Facts(
        pages=3, texts=("Claim # SF-1008", "POL-2022-555", "1C4RJFBG2NC123456")
    ),
    "SPARSE-2024-INV-1234_borderless_table.pdf": Facts(
        pages=2,
        texts=("INVENTORY RECONCILIATION REPORT", "SPARSE-2024-INV-1234"),
        rows=(("SKU-4563", "D-22", "156", "CRITICAL"),),
    ),
    "right_to_left_01.pdf": Facts(
        pages=1,
        texts=("تحسين الإنتاجية وحل المشكلات من خلال البرمجة بلغة R", "الأدوات القوية", "فعالة للمشكلات"),
    ),
    "normal_4pages_ko.pdf": Facts(
        pages=4,
        title="코로나-19 관련 보험약관상 재해보험금 지급문제 및 개선과제",
        texts=("확진자는 9,661명, 사망자는 158명",),
    ),
    "zh_chemistry_introduction.pdf": Facts(
        pages=1, texts=("化学学科常用符号公式及其表示", "热化学方程式", "放热反应", "用")
    ),
    "zh_nonembedded_gbk_XiaoBiaoSong.pdf": Facts(pages=1, texts=("关于红军作战的原则", "对国防问题的意见")),
    "scan_zh_small_ocr.pdf": Facts(no_text=True),
    "scan_loremipsum-flat.pdf": Facts(no_text=True),
    "scan_single_table.pdf": Facts(no_text=True),
    "scan_ocr_test.pdf": Facts(no_text=True),
    "empty_page.pdf": Facts(no_text=True),
    # Its text layer is mostly wrong, so that little of the page is in it.
    "scan_bad_ocr_layer.pdf": Facts(pages=1, order=("(a)", "(d)", "(e)", "(f)")),
    "encrypted_password.pdf": Facts(code="encrypted"),
    "encrypted_2206.01062_pg3.pdf": Facts(code="encrypted"),
    "encrypted_owner_only_copy-protected.pdf": Facts(
        pages=2, texts=("Unified Toolkit for Deep Learning Based Document Image Analysis",)
    ),
    "corrupt_recoverable_helloworld-bad.pdf": Facts(pages=1, texts=("Hello, world!",)),
    "corrupt_REDHAT-1531897-0.pdf": Facts(code="malformed"),
    "corrupt_poppler-742-0-fuzzed.pdf": Facts(code="malformed"),
    # One of its two pages is outside the loop and can be read: the error is that the other cannot.
    "corrupt_cyclic_Pages-tree-refs.pdf": Facts(pages=1, partial=True, texts=("Pages loop",)),
    "corrupt_184bytes_bug1020226.pdf": Facts(code="malformed"),
    "package_testPDFPackage.pdf": Facts(
        pages=1, texts=("Multiple files are bound together in this PDF Package.",)
    ),
    # Word
    "handbook-872p.docx": Facts(
        texts=("Handbook for Chapter 13 Standing Trustees", "October 1, 2012"), lines=4750, headings=140, tables=2
    ),
    "word_tables.docx": Facts(
        tables=7,
        rows=(
            ("Header 0.0", "Header 0.1", "Header 0.2"),
            ("Cell 2.0", "Cell 2.1", "Cell 2.2"),
            ("Cell 2.0", "Merged Cell 2.1 2.2", "Cell 2.3"),
            ("Cell 2.0", "Merged Cell 1.1 2.1", "Cell 2.2"),
            ("Cell 4.0", "Merged Cell 3.1 4.1", "Cell 4.2", "Merged Cell 4.4 5.4"),
        ),
    ),
    "docx_rich_cells.docx": Facts(
        tables=7,
        rows=(
            ("This is a list:", "A First", "A Second", "A Third", "This is a formatted list:", "B Third"),
            ("A", "B", "C", "Cell 1", "Cell 2", "Cell 3", "Rich cell", "A nested table", "Cell 3"),
        ),
    ),
    "unit_test_headers_numbered.docx": Facts(
        title="Test Document",
        order=(
            "1. Section 1", "1.1. Section 1.1", "1.2.1. Section 1.2.3", "2. Section 2", "2.2. Section 2.1",
            "1.1.1. Detail A.1.1", "2.3.8. Resource", "2.3.8.3. Third sub-item", "REFERENCES",
        ),
        headings=7,
    ),
    "zh_en_docx_01.docx": Facts(
        texts=("MinerU supports DOCX document parsing now", "MinerU支持docx解析了", "2026 年03月04日"),
        tables=8,
    ),
    "nested_test_recursive_embedded.docx": Facts(texts=("embed_0",)),
    "truncated_testWORD.docx": Facts(code="malformed"),
    "encrypted_testWORD_passtika.docx": Facts(code="encrypted"),
    "minimal_teams_chat.docx": Facts(texts=("OK. Yeah.",), tables=1),
    # HTML
    "example-10k.html": Facts(
        tables=84, lines=533, rows=(("Common stock", "GLXZ", "OTCQB marketplace"), ("Item 1A.", "Risk Factors", "9"))
    ),
    # Its other table only links to other pages, which is left out.
    "wiki_duck.html": Facts(title="Duck - Wikipedia", tables=1, rows=(("Class:", "Aves"), ("Family:", "Anatidae"))),
    "html_rich_table_cells.html": Facts(
        tables=4,
        rows=(
            ("Mallard", "Ponds, lakes, rivers", "Quack"),
            ("Teal", "Pond", "Marsh", "Riverbank", "Fly south in winter", "Build nest on ground"),
            ("Quack", "Type", "Sound", "Short", "Long"),
            ("White-headed duck", "A small diving duck", "White-headed duck thumbnail"),
        ),
    ),
    "example-steelJIS-datasheet-utf-16.html": Facts(
        encoding="utf-16",
        texts=("© 2018-2022 All rights reserved",),
        rows=(("0.39 - 0.46", "0.2 - 0.35", "0.65 - 1.1", "max 0.025"), ("Bars", "890", "1000", "12", "40")),
        title="SNB22-3 - SteelJIS - Datasheet, Chemical composition, Standards and Properties",
    ),
    "fake-html-cp1252.html": Facts(encoding="cp1252", texts=("Die schöne Frau hat einen Kaffee mit Kuchen",)),
    "testArabicMisleadingCharset.html": Facts(encoding="cp1256", title="Test Arabic", texts=("رجل حكيم",)),
    # Text
    "rashomon_shift_jis.txt": Facts(
        encoding="cp932", texts=("或日の暮方の事である。一人の下人が、羅生門の下で雨やみを待っていた。",)
    ),
    "wikipedia_big5.txt": Facts(encoding="big5", texts=("維基大典（Wikipedia）者，網路為礎",)),
    "north_korea_euc_kr.txt": Facts(
        encoding="cp949", texts=("북조선 사람들은 흔히 자국을 조선(朝鮮)이나 공화국(共和國)이라고 부른다.",)
    ),
    "gymnasium_koi8_r.txt": Facts(encoding="koi8_r", texts=("В гимназии он не был в числе первых учеников",)),
    "fake-text-utf-16.txt": Facts(encoding="utf-16", texts=("Hamburgers are delicious",)),
    "fake-text-utf-16-be_no_bom.txt": Facts(encoding="utf-16-be", texts=("Hamburgers are delicious",)),
    "UDHR_first_article_all.txt": Facts(
        encoding="utf-8", lines=1007, texts=("人人生而自由", "Все люди", "يولد جميع الناس")
    ),
    "norwich-city.txt": Facts(encoding="utf-8", title="Iwan Roberts", lines=742),
    "umlauts-non-utf8.md": Facts(encoding="cp1252", title="können", texts=("äöüß",)),
    "wiki.md": Facts(title="IBM", headings=2),
    "empty.txt": Facts(no_text=True),
    # CSV
    "stanley-cups-utf-16.csv": Facts(
        encoding="utf-16",
        title="Stanley Cups",
        rows=(
            ("Team: Blues", "Location: STL", "Stanley Cups: 1"),
            ("Team: Flyers", "Location: PHI", "Stanley Cups: 2"),
            ("Team: Maple Leafs", "Location: TOR", "Stanley Cups: 13"),
        ),
    ),
    "test_mskanji.csv": Facts(encoding="cp932", rows=(("名前: 髙橋淳", "年齢: 35", "住所: 名古屋"),)),
    "csv-with-long-lines.csv": Facts(
        rows=(("1Freq CD161CD8TfrequencyUnstim: 1", "1Freq Ki67CD8frequencyUnstim: -0.285021097"),)
    ),
    "csv-too-many-columns.csv": Facts(rows=(("1", "2", "3", "4"), ("a", "b", "c", "d", "e"))),
}  # fmt: skip
