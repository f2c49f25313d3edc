"""A parser process is gone after its limit, whatever it does, and so is everything it made."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psutil
import pytest

from ingest.parsing import DocumentParseError, TierLimits, open_parser
from ingest.parsing.folders import remove_leftovers
from rag.core.ports import DocumentParser
from rag.core.types import Quality
from tests.unit.ingest.parsing.rogues import MEDIA

LIMIT = 1.5
PATIENCE = 30.0


def opened(*, seconds: float) -> AbstractAsyncContextManager[DocumentParser]:
    return open_parser(
        limits=TierLimits(full=seconds), memory_bytes=512 * 2**20, output_bytes=2**20, documents=1, parsers=MEDIA
    )


@pytest.fixture
async def parser() -> AsyncIterator[DocumentParser]:
    async with opened(seconds=PATIENCE) as parser:
        yield parser


@pytest.fixture
async def hasty_parser() -> AsyncIterator[DocumentParser]:
    async with opened(seconds=LIMIT) as parser:
        yield parser


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.01)


def gone(note: Path) -> bool:
    pids, folder = note.read_text().splitlines()
    alive = [pid for pid in map(int, pids.split()) if psutil.pid_exists(pid) and status(pid) != psutil.STATUS_ZOMBIE]
    return not alive and not Path(folder).exists()


def entries(folder: str) -> list[Path] | None:
    return list(Path(folder).iterdir()) if Path(folder).exists() else None


def status(pid: int) -> str:
    try:
        return psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("kind", ["Sleeper", "Spinner", "Deaf", "Forker", "Runaway"])
async def test_after_the_limit_no_process_and_no_folder_is_left(
    hasty_parser: DocumentParser, tmp_path: Path, kind: str
) -> None:
    note = tmp_path / "note"

    with pytest.raises(DocumentParseError) as caught:
        await hasty_parser.parse(str(note).encode(), source="a", media_type=kind)

    assert caught.value.reason == "parse_timeout"
    assert [attempt.outcome for attempt in caught.value.attempts] == ["timeout"]
    await until(lambda: gone(note))


@pytest.mark.parametrize(
    ("kind", "content", "reason", "outcome"),
    [
        ("Crasher", b"", "parser_killed", "killed"),
        ("Allocator", b"", "parse_memory", "killed"),
        ("Chatter", b"5000000", "output_too_large", "failed"),
        ("Family", b"", "parse_memory", "killed"),
        ("Hoarder", b"", "output_too_large", "failed"),
        ("Liar", b"x", "parser_killed", "killed"),
        ("Refuser", b"x", "encrypted", "failed"),
        ("Thrower", b"x", "parse_failed", "failed"),
        ("Silent", b"x", "empty_output", "empty"),
        ("Unknown", b"x", "unsupported_media_type", "failed"),
    ],
)
async def test_every_failure_has_a_stable_code_and_the_next_document_is_parsed(
    parser: DocumentParser, kind: str, content: bytes, reason: str, outcome: str
) -> None:
    with pytest.raises(DocumentParseError) as caught:
        await parser.parse(content, source="a", media_type=kind)
    after = await parser.parse(b"hello", source="b", media_type="Polite")

    assert caught.value.reason == reason
    assert caught.value.attempts[0].outcome == outcome
    assert "secret" not in caught.value.message
    assert after.text == "hello"
    assert after.attempts[0].outcome == "ok"


async def test_output_of_libraries_does_not_disturb_the_conversation(parser: DocumentParser) -> None:
    document = await parser.parse(b"1000", source="a", media_type="Chatter")

    assert document.text == "x" * 1000


async def test_the_folder_is_wiped_between_documents(parser: DocumentParser) -> None:
    document = await parser.parse(b"left behind", source="a", media_type="Writer")

    assert not entries(document.text)


async def test_cancelling_ends_the_process(parser: DocumentParser, tmp_path: Path) -> None:
    note = tmp_path / "note"
    running = asyncio.create_task(parser.parse(str(note).encode(), source="a", media_type="Sleeper"))
    await until(lambda: note.exists() and len(note.read_text().splitlines()) == 2)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert gone(note)


async def test_closing_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(psutil.Process().children())

    async with open_parser(
        limits=TierLimits(full=PATIENCE), memory_bytes=2**30, output_bytes=2**20, documents=2, parsers=MEDIA
    ) as parser:
        document = await parser.parse(b"x", source="a", media_type="Writer")

    await until(lambda: set(psutil.Process().children()) == before)
    assert entries(document.text) is None


async def test_closing_while_children_still_start_leaves_nothing_behind() -> None:
    before = set(psutil.Process().children())

    async with open_parser(
        limits=TierLimits(full=PATIENCE), memory_bytes=2**30, output_bytes=2**20, documents=2, parsers=MEDIA
    ):
        await asyncio.sleep(0)

    await until(lambda: set(psutil.Process().children()) == before)


async def test_nothing_of_the_owners_environment_reaches_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHORAGE_CATALOG__URL", "postgresql://secret")

    async with open_parser(
        limits=TierLimits(full=PATIENCE), memory_bytes=2**30, output_bytes=2**20, documents=1, parsers=MEDIA
    ) as parser:
        document = await parser.parse(b"x", source="a", media_type="Teller")

    assert "ANCHORAGE" not in document.text


async def test_names_and_text_of_any_language_pass_unchanged(parser: DocumentParser) -> None:
    document = await parser.parse("名字\n😀".encode(), source="名字.txt", media_type="Polite")

    assert (document.text, document.title, document.quality) == ("名字\n😀", "名字.txt", Quality.FULL)


async def test_several_documents_are_parsed_at_once_by_several_children(tmp_path: Path) -> None:
    async with open_parser(
        limits=TierLimits(full=PATIENCE), memory_bytes=2**30, output_bytes=2**20, documents=2, parsers=MEDIA
    ) as parser:
        documents = await asyncio.gather(
            *(parser.parse(str(number).encode(), source="a", media_type="Polite") for number in range(20))
        )

    assert [document.text for document in documents] == [str(number) for number in range(20)]


def test_folders_of_killed_owners_are_removed_and_those_of_living_ones_kept(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = (f"{ended.pid}-a", f"{os.getpid()}-b", "c", f"{os.getpid()}-d")
    left, living, foreign, older = folders = [tmp_path / f"anchorage-parse-{name}" for name in names]
    for folder in folders:
        (folder / "inner").mkdir(parents=True)
    os.utime(older, (0, 0))

    remove_leftovers(tmp_path)

    assert [folder.exists() for folder in (left, living, foreign, older)] == [False, True, True, False]
