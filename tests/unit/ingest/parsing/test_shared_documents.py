"""Every shared document of the six formats is parsed, or fails with a stable code; what is known of it holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.documents import LEAST_SHARE, check, documents, read, share_of_expected
from benchmarks.documents_facts import FACTS
from ingest.parsing import TierLimits, open_parser
from rag.core.ports import DocumentParser


@pytest.fixture
async def parser() -> AsyncIterator[DocumentParser]:
    async with open_parser(
        limits=TierLimits(full=60.0, summary_start=60.0, summary=60.0),
        memory_bytes=2**31,
        output_bytes=64 * 2**20,
        documents=1,
    ) as parser:
        yield parser


def test_something_is_known_of_every_shared_document(shared: Path) -> None:
    names = [file.name for file in documents(shared / "data" / "documents")]

    assert len(names) == len(set(names))
    assert set(names) == set(FACTS)


async def test_what_is_known_of_every_shared_document_holds(parser: DocumentParser, shared: Path) -> None:
    readings = [(file, await read(parser, file)) for file in documents(shared / "data" / "documents")]

    broken = [
        f"{file.name}: {name}"
        for file, reading in readings
        for name, held in check(FACTS[file.name], reading)
        if not held
    ]
    shares = {file.name: share_of_expected(file, reading) for file, reading in readings}
    assert broken == []
    assert {name: share for name, share in shares.items() if share is not None and share < LEAST_SHARE} == {}
