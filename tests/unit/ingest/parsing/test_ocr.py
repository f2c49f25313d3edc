"""Scans are read by tesseract where it is installed, within their own limit; otherwise they are kept without text."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psutil
import pypdfium2
import pytest

from ingest.parsing import DocumentParseError, TierLimits, open_parser
from ingest.parsing.ocr import find_tesseract
from ingest.parsing.parsers.ocr import MAX_PIXELS, OcrParser
from rag.core.errors import ConfigurationError, ParseError
from rag.core.media import PDF, TEXT
from rag.core.ports import DocumentParser
from rag.core.types import ParsedDocument, Quality
from tests.unit.ingest.parsing.making import pdf

PATIENCE = 60.0
needs_tesseract = pytest.mark.skipif(shutil.which("tesseract") is None, reason="needs tesseract on the PATH")

LISTING = 'if [ "$1" = --list-langs ]; then printf "Languages:\\neng\\nchi_sim\\nosd\\n"; exit 0; fi\n'
ROW = "5\\t1\\t1\\t1\\t1\\t%d\\t0\\t0\\t9\\t9\\t%d\\t%s\\n"


def scan(pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF of pictures of the pages that ``making.pdf`` makes."""
    drawn = pypdfium2.PdfDocument(pdf(pages))
    pictures = pypdfium2.PdfDocument.new()
    for number in range(len(drawn)):
        image = pypdfium2.PdfImage.new(pictures)
        image.set_bitmap(drawn[number].render(scale=200 / 72))
        image.set_matrix(pypdfium2.PdfMatrix().scale(612, 792))
        page = pictures.new_page(612, 792)
        page.insert_obj(image)
        page.gen_content()
    file = io.BytesIO()
    pictures.save(file)
    return file.getvalue()


def opened(
    *, seconds: float = PATIENCE, languages: str = "", promotion: float = PATIENCE
) -> AbstractAsyncContextManager[DocumentParser]:
    return open_parser(
        limits=TierLimits(full=PATIENCE, summary_start=PATIENCE, ocr=seconds, promotion=promotion),
        memory_bytes=2**31,
        output_bytes=2**20,
        documents=1,
        ocr_languages=languages,
    )


def story(document: ParsedDocument | DocumentParseError) -> list[tuple[str, int, str, str | None]]:
    return [(attempt.parser, attempt.tier, attempt.outcome, attempt.code) for attempt in document.attempts]


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a ``tesseract`` before all others on the ``PATH``."""
    program = folder / "bin" / "tesseract"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{LISTING}{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def running(note: Path) -> list[int]:
    """Which of the noted processes still run."""
    found = []
    for pid in map(int, note.read_text().split()):
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found


async def until_gone(note: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while running(note):
        assert time.monotonic() < deadline, "it never ended"
        await asyncio.sleep(0.01)


@needs_tesseract
async def test_a_scan_is_read_page_by_page_and_its_attempts_are_told() -> None:
    content = scan([["The crane lifts forty tonnes."], ["Shore power", "at berth seven."]])

    async with opened(languages="eng") as parser:
        document = await parser.parse(content, source="scan.pdf", media_type=PDF)

    assert "The crane lifts forty tonnes." in document.text
    assert "Shore power" in document.text
    assert [block.page for block in document.blocks] == sorted(block.page or 0 for block in document.blocks)
    assert {block.page for block in document.blocks} == {1, 2}
    assert (document.quality, document.fault) == (Quality.FULL, None)
    assert story(document) == [("pdf", 1, "ok", None), ("tesseract", 4, "ok", None)]


@needs_tesseract
@pytest.mark.parametrize(
    ("name", "language", "facts"),
    [
        ("scan_ocr_test.pdf", "eng", ["Docling bundles PDF document conversion to JSON and Markdown"]),
        ("scan_loremipsum-flat.pdf", "eng", ["Lorem ipsum dolor sit amet, consectetur", "Phasellus ornare quis diam"]),
        ("scan_single_table.pdf", "eng", ["64,058", "32,051", "16,046", "20,843"]),
    ],
)
async def test_real_scans_give_what_the_eye_reads(shared: Path, name: str, language: str, facts: list[str]) -> None:
    content = (shared / "data" / "documents" / "pdf" / name).read_bytes()

    async with opened(languages=language) as parser:
        document = await parser.parse(content, source=name, media_type=PDF)

    text = " ".join(document.text.split())
    assert [fact for fact in facts if fact not in text] == []


@needs_tesseract
async def test_a_chinese_book_is_read_without_spaces_between_its_characters(shared: Path) -> None:
    try:
        tesseract = await find_tesseract("chi_sim")
    except ConfigurationError as error:
        pytest.skip(error.message)
    assert tesseract is not None
    book = pypdfium2.PdfDocument(shared / "data" / "documents" / "pdf" / "scan_zh_small_ocr.pdf")
    page, file = pypdfium2.PdfDocument.new(), io.BytesIO()
    page.import_pages(book, [0])
    page.save(file)

    async with opened(languages="chi_sim") as parser:
        document = await parser.parse(file.getvalue(), source="scan.pdf", media_type=PDF)

    assert "物的有用性使物成为使用价值。" in document.text
    assert document.quality is Quality.FULL


@needs_tesseract
async def test_a_page_without_anything_on_it_stays_without_text_and_without_fault() -> None:
    async with opened(languages="eng") as parser:
        document = await parser.parse(pdf([[]], title="Blank"), source="a", media_type=PDF)

    assert (document.text, document.quality, document.title, document.fault) == ("", Quality.NO_TEXT, "Blank", None)
    assert [parser for parser, *_ in story(document)] == ["pdf", "tesseract"]


async def test_the_limit_ends_tesseract_and_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "note"
    fake(tmp_path, monkeypatch, f"sleep 3600 &\necho $$ $! > {note}\nwait")

    async with opened(seconds=1.5) as parser:
        document = await parser.parse(pdf([[]]), source="a", media_type=PDF)
        await until_gone(note)

    assert (document.quality, document.fault) == (Quality.NO_TEXT, "parse_timeout")
    assert story(document) == [("pdf", 1, "ok", None), ("tesseract", 4, "timeout", "parse_timeout")]


async def test_a_promotion_reads_a_scan_within_its_longer_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, f"cat > /dev/null\nsleep 1.5\nprintf '{ROW}' 1 90 found")

    async with opened(seconds=0.5) as parser:
        hasty = await parser.parse(pdf([[]]), source="a", media_type=PDF)
        patient = await parser.parse_fully(pdf([[]]), source="a", media_type=PDF)

    assert (hasty.quality, patient.text, patient.quality) == (Quality.NO_TEXT, "found", Quality.FULL)


async def test_without_tesseract_a_scan_is_kept_without_text_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    async with opened() as parser:
        document = await parser.parse(pdf([[]]), source="a", media_type=PDF)
        blank = await parser.parse(b" \n", source="a", media_type=TEXT)

    assert (document.quality, document.fault) == (Quality.NO_TEXT, "ocr_not_installed")
    assert document.structure["ocr"].startswith("OCR is not installed")
    assert (blank.quality, blank.fault) == (Quality.NO_TEXT, None)


async def test_a_limit_of_nothing_turns_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "note"
    fake(tmp_path, monkeypatch, f"echo called > {note}")

    async with opened(seconds=0.0) as parser:
        document = await parser.parse(pdf([[]]), source="a", media_type=PDF)

    assert (document.quality, document.fault, story(document)) == (Quality.NO_TEXT, None, [("pdf", 1, "ok", None)])
    assert not note.exists()


async def test_a_document_with_text_on_some_pages_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "note"
    fake(tmp_path, monkeypatch, f"echo called > {note}")

    async with opened() as parser:
        document = await parser.parse(pdf([[], ["A line of text."]]), source="a", media_type=PDF)

    assert (document.text, document.quality) == ("A line of text.", Quality.FULL)
    assert not note.exists()


async def test_pages_that_tesseract_fails_on_make_a_fragment_which_is_no_full_parse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = f"[ -e {tmp_path}/once ] && exit 1\n: > {tmp_path}/once\n"
    fake(tmp_path, monkeypatch, f"cat > /dev/null\n{once}printf '{ROW}' 1 90 first 2 80 page")

    async with opened() as parser:
        document = await parser.parse(pdf([[], []]), source="a", media_type=PDF)
        (tmp_path / "once").unlink()
        with pytest.raises(DocumentParseError) as caught:
            await parser.parse_fully(pdf([[], []]), source="a", media_type=PDF)

    assert (document.text, document.quality, document.fault) == ("first page", Quality.FRAGMENT, "parse_failed")
    assert document.structure == {"pages": 2, "pages_read": 1}
    assert caught.value.reason == "parse_failed"


async def test_a_program_that_reads_no_page_leaves_the_document_without_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, "exit 1")

    async with opened() as parser:
        document = await parser.parse(pdf([[]]), source="a", media_type=PDF)

    assert (document.quality, document.fault) == (Quality.NO_TEXT, "parse_failed")
    assert story(document)[-1] == ("tesseract", 4, "failed", "parse_failed")


def test_unlikely_lines_are_left_out_and_chinese_is_closed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "1 10 '|~' 1 20 ';'"
    second = ROW.replace("\\t1\\t%d", "\\t2\\t%d")
    fake(
        tmp_path, monkeypatch, f"cat > /dev/null\nprintf '{ROW}' {rows}\nprintf '{second}' 1 90 海 2 90 港 3 90 Harbour"
    )
    program = shutil.which("tesseract")
    assert program is not None

    document = OcrParser(program=program, languages="eng").parse(pdf([[]]), source="a", media_type=PDF)

    assert document.text == "海港 Harbour"


def test_a_page_of_any_size_is_drawn_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "sizes"
    fake(tmp_path, monkeypatch, f"head -c 20 | head -n 1 >> {note}\ncat > /dev/null")
    program = shutil.which("tesseract")
    assert program is not None
    parser = OcrParser(program=program, languages="eng")

    for box in ("0 0 14400 14400", "0 0 14400 3", "0 0 612 792"):
        parser.parse(pdf([[]]).replace(b"0 0 612 792", box.encode()), source="a", media_type=PDF)

    sizes = [tuple(map(int, line.split()[1:3])) for line in note.read_text().splitlines()]
    assert sizes[-1] == (1700, 2200)
    assert all(width * height <= 1.01 * MAX_PIXELS for width, height in sizes)
    assert all(max(size) <= 20_001 for size in sizes)


async def test_a_few_of_the_installed_languages_are_chosen_and_others_can_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, "exit 1")

    by_default, asked = await find_tesseract(""), await find_tesseract("eng")
    with pytest.raises(ConfigurationError) as caught:
        await find_tesseract("eng+deu")

    assert by_default is not None
    assert asked is not None
    assert (list(by_default.languages), list(asked.languages)) == (["chi_sim", "eng"], ["eng"])
    assert "OCR_LANGUAGES: tesseract has no deu; installed are eng, chi_sim" in caught.value.message


async def test_a_tesseract_that_does_not_start_counts_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "tesseract"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    assert await find_tesseract("") is None


def test_an_encrypted_document_is_not_drawn(shared: Path) -> None:
    content = (shared / "data" / "documents" / "pdf" / "encrypted_password.pdf").read_bytes()

    with pytest.raises(ParseError) as caught:
        OcrParser(program="tesseract", languages="eng").parse(content, source="a", media_type=PDF)

    assert caught.value.reason == "encrypted"
