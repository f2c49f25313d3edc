"""A document gets the best that is ready at each limit, and every attempt is told in order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from ingest.parsing import DocumentParseError, TierLimits, open_parser
from ingest.parsing.ways import Table
from rag.core.ports import DocumentParser
from rag.core.types import ParsedDocument, Quality
from tests.unit.ingest.parsing.rogues import MEDIA

KIND = "text/plain"
LIMITS = TierLimits(full=1.5, summary_start=0.3, summary=2.5, fragment=1.0, promotion=20.0)
QUICK = TierLimits(full=30.0, summary_start=30.0, summary=60.0, fragment=20.0)


def opened(
    full: list[str], summary: str = "", fragment: str = "", limits: TierLimits = LIMITS
) -> AbstractAsyncContextManager[DocumentParser]:
    return open_parser(
        limits=limits,
        memory_bytes=2**30,
        output_bytes=2**20,
        documents=1,
        parsers={KIND: [MEDIA[name] for name in full]},
        summaries=_table(summary),
        fragments=_table(fragment),
    )


def _table(name: str) -> Table:
    return {KIND: MEDIA[name]} if name else {}


def story(document: ParsedDocument | DocumentParseError) -> list[tuple[int, str, str | None]]:
    return [(attempt.tier, attempt.outcome, attempt.code) for attempt in document.attempts]


@pytest.fixture
async def slow() -> AsyncIterator[DocumentParser]:
    async with opened(["Late"], "Brief", "Polite") as parser:
        yield parser


async def test_a_full_parse_that_ends_in_time_wins_over_a_summary_that_is_ready(slow: DocumentParser) -> None:
    document = await slow.parse(b"0.9", source="a", media_type=KIND)

    assert (document.text, document.quality, document.fault) == ("whole text", Quality.FULL, None)
    assert (1, "ok", None) in story(document)


async def test_a_full_parse_that_is_late_gives_way_to_the_summary(slow: DocumentParser) -> None:
    document = await slow.parse(b"60", source="a", media_type=KIND)

    assert (document.text, document.quality, document.fault) == ("summary", Quality.SUMMARY, "parse_timeout")
    assert document.structure == {"pages": 3}
    assert story(document) == [(1, "timeout", "parse_timeout"), (2, "ok", None)]


async def test_a_promotion_has_the_longer_limit_and_no_lower_tier(slow: DocumentParser) -> None:
    document = await slow.parse_fully(b"2", source="a", media_type=KIND)

    assert (document.quality, story(document)) == (Quality.FULL, [(1, "ok", None)])


async def test_a_summary_that_is_late_too_gives_way_to_a_fragment() -> None:
    async with opened(["Late"], "Late", "Polite") as parser:
        document = await parser.parse(b"60", source="a", media_type=KIND)

    assert (document.text, document.quality, document.fault) == ("60", Quality.FRAGMENT, "parse_timeout")
    assert {tier for tier, *_ in story(document)} == {1, 2, 3}
    assert story(document)[-1] == (3, "ok", None)


@pytest.mark.parametrize(
    ("chain", "summary", "quality", "fault", "tiers"),
    [
        (["Crasher", "Polite"], "Brief", Quality.FULL, None, [1, 1]),
        (["Thrower", "Silent"], "Brief", Quality.SUMMARY, "empty_output", [1, 1, 2]),
        (["Crasher"], "Crasher", Quality.FRAGMENT, "parser_killed", [1, 2, 3]),
    ],
)
async def test_a_parser_that_fails_lets_the_next_begin_at_once(
    chain: list[str], summary: str, quality: Quality, fault: str | None, tiers: list[int]
) -> None:
    async with opened(chain, summary, "Polite", limits=QUICK) as parser, asyncio.timeout(25.0):
        document = await parser.parse(b"x", source="a", media_type=KIND)

    assert (document.quality, document.fault) == (quality, fault)
    assert [tier for tier, *_ in story(document)] == tiers


async def test_a_verdict_on_the_document_ends_it_at_once() -> None:
    async with opened(["Refuser", "Polite"], "Brief", "Polite", limits=QUICK) as parser:
        with pytest.raises(DocumentParseError) as caught:
            await parser.parse(b"x", source="a", media_type=KIND)

    assert (caught.value.reason, story(caught.value)) == ("encrypted", [(1, "failed", "encrypted")])


@pytest.mark.parametrize("source", ["../../etc/passwd", "a\x00b.txt", "\u202etxt.exe", "名" * 4000])
async def test_a_hostile_name_is_data(source: str) -> None:
    async with opened(["Brief"], limits=QUICK) as parser:
        document = await parser.parse(b"x", source=source.replace("\x00", ""), media_type=KIND)

    assert document.text == "summary"


async def test_a_parser_reaches_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with opened(["Caller"], limits=QUICK) as parser:
            with pytest.raises(DocumentParseError) as caught:
                await parser.parse(str(server.getsockname()[1]).encode(), source="a", media_type=KIND)

    assert caught.value.reason == "parse_failed"
