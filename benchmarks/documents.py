"""Every shared document of the six formats through the parser processes, against what is known of it.

A file fails when a fact does not hold, when it ends with a code that it should not have, or when less than nine words
in ten of its source project's own reading are found. Words are counted as often as they occur; links, pictures and
marks of that reading are left out.
"""

from __future__ import annotations

import asyncio
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from benchmarks.datasets import shared_folder
from benchmarks.documents_facts import BESIDE, FACTS, SUFFIXES, Facts
from benchmarks.report import Bar, Report
from ingest.parsing import DocumentParseError, TierLimits, open_parser
from rag.core.errors import UnsupportedMediaTypeError
from rag.core.media import FORMATS, HEAD_BYTES, detect
from rag.core.ports import DocumentParser
from rag.core.types import Block, ParsedDocument, Quality

LEAST_SHARE = 0.9
MEMORY_BYTES = 2**31
OUTPUT_BYTES = 64 * 2**20
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r'!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s+"[^"]*")?\)')
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What became of one document: the parsed text or a code, and how long it took."""

    format: str
    seconds: float
    document: ParsedDocument | None = None
    code: str | None = None
    parser: str = "-"


async def measure(*, seed: int, quick: bool) -> Report:  # noqa: ARG001  it is quick
    """Parse every file with the tiers' default limits and check it."""
    rows, missed, shares, surprises, notes = [], 0, list[float](), 0, list[str]()
    async with open_parser(
        limits=TierLimits(), memory_bytes=MEMORY_BYTES, output_bytes=OUTPUT_BYTES, documents=1
    ) as parser:
        for file in await asyncio.to_thread(documents, shared_folder() / "data" / "documents"):
            reading = await read(parser, file)
            facts = FACTS.get(file.name, Facts(code="the README has no facts about it"))
            verdicts = list(check(facts, reading))
            failed = [name for name, held in verdicts if not held]
            share = await asyncio.to_thread(share_of_expected, file, reading)
            missed += len(failed)
            shares += [share] if share is not None else []
            surprises += reading.code != facts.code
            notes += [f"{file.name}: {name}" for name in failed]
            rows.append(_row(file, reading, held=len(verdicts) - len(failed), known=len(verdicts), share=share))
    return Report(
        name="documents",
        columns=("file", "format", "quality or code", "parser", "seconds", "facts held", "expected words"),
        rows=rows,
        bars=(
            Bar(name="facts that do not hold", value=missed if rows else None, bound=0, relation="<="),
            Bar(name="unexpected failures", value=surprises if rows else None, bound=0, relation="<="),
            Bar(
                name="lowest share of expected words", value=min(shares, default=None), bound=LEAST_SHARE, relation=">="
            ),
        ),
        seed=seed,
        parameters={"files": len(rows), "memory_bytes": MEMORY_BYTES, "output_bytes": OUTPUT_BYTES},
        notes=notes,
    )


def documents(folder: Path) -> list[Path]:
    """The files of the six formats by name."""
    found = (path for path in folder.rglob("*") if path.suffix in SUFFIXES and not path.name.endswith(BESIDE))
    return sorted(path for path in found if path.is_file())


async def read(parser: DocumentParser, file: Path) -> Reading:
    """Parse one file as an upload of its name would be."""
    content = await asyncio.to_thread(file.read_bytes)
    try:
        media_type = detect(file.name, content[:HEAD_BYTES], None)
    except UnsupportedMediaTypeError as error:
        return Reading(format="-", seconds=0.0, code=error.code)
    began = time.monotonic()
    try:
        document = await parser.parse(content, source=file.name, media_type=media_type)
    except DocumentParseError as error:
        seconds = time.monotonic() - began
        parsers = error.attempts
        return Reading(format=FORMATS[media_type], seconds=seconds, code=error.reason, parser=parsers[0].parser)
    seconds = time.monotonic() - began
    used = next((each.parser for each in document.attempts if each.outcome == "ok"), "-")
    return Reading(format=FORMATS[media_type], seconds=seconds, document=document, parser=used)


def check(facts: Facts, reading: Reading) -> Iterator[tuple[str, bool]]:
    """Every fact in words, and whether it holds."""
    document = reading.document
    if facts.code is not None or document is None:
        yield f"ends with {facts.code or 'a text'}, not {reading.code}", reading.code == facts.code
        return
    text = squeezed(document.text)
    quality = _quality(facts)
    yield f"its quality is {quality}, not {document.quality}", document.quality is quality
    yield from ((f"holds {each!r}", squeezed(each) in text) for each in facts.texts)
    if facts.order:
        yield f"has in this order: {', '.join(facts.order)}", follows(text, facts.order)
    lines = [squeezed(line) for line in document.text.split("\n") if line.strip()]
    yield from ((f"has the row {row}", any(follows(line, row) for line in lines)) for row in facts.rows)
    yield from _figures(facts, document, lines=len(lines))


def _figures(facts: Facts, document: ParsedDocument, *, lines: int) -> Iterator[tuple[str, bool]]:
    if facts.title is not None:
        yield f"its title is {facts.title!r}, not {document.title!r}", document.title == facts.title
    if facts.encoding is not None:
        yield f"is in {facts.encoding}, not {document.encoding}", document.encoding == facts.encoding
    if facts.pages is not None:
        last = max((block.page or 0 for block in document.blocks), default=0)
        yield f"its last page is {facts.pages}, not {last}", last == facts.pages
    for words, page in facts.on_pages:
        pages = {block.page for block in document.blocks if squeezed(words) in squeezed(_text_of(document, block))}
        yield f"{words!r} is on page {page}, not {sorted(filter(None, pages))}", page in pages
    for name, least, found in (
        ("tables", facts.tables, sum(block.kind == "table" for block in document.blocks)),
        ("lines", facts.lines, lines),
        ("sections", facts.headings, len({block.headings for block in document.blocks if block.headings})),
    ):
        if least is not None:
            yield f"has {least} {name}, not {found}", found >= least


def _text_of(document: ParsedDocument, block: Block) -> str:
    return document.text[block.start : block.end]


def _quality(facts: Facts) -> Quality:
    if facts.no_text:
        return Quality.NO_TEXT
    return Quality.FRAGMENT if facts.partial else Quality.FULL


def squeezed(text: str) -> str:
    """Text in one width of letters without white space."""
    return _SPACE.sub("", unicodedata.normalize("NFKC", text))


def follows(text: str, parts: Sequence[str]) -> bool:
    """Whether the parts are in the squeezed text, each after the one before."""
    place = 0
    for part in map(squeezed, parts):
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True


def share_of_expected(file: Path, reading: Reading) -> float | None:
    """The share of the words expected by the source project that are in the text; ``None`` if it says nothing."""
    expected = file.with_name(file.name + BESIDE[0])
    if reading.document is None or not expected.exists():
        return None
    return share_of_words(expected.read_text(encoding="utf-8"), reading.document.text)


def share_of_words(markdown: str, text: str) -> float:
    """The share of the words of ``markdown`` that ``text`` has too, each as often as it occurs."""
    plain = unescape(_TAG.sub(" ", _LINK.sub(r"\1", _COMMENT.sub(" ", markdown))))
    expected, found = _words(plain), _words(text)
    return (expected & found).total() / max(1, expected.total())


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _row(file: Path, reading: Reading, *, held: int, known: int, share: float | None) -> tuple[str | float | None, ...]:
    ended = reading.code or (str(reading.document.quality) if reading.document else "-")
    shown = None if share is None else round(share, 3)
    return file.name, reading.format, ended, reading.parser, round(reading.seconds, 3), f"{held}/{known}", shown
