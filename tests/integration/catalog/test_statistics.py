"""Lexical statistics stay exact under any order of creates, replaces, deletes and lost publishes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from rag.catalog import Catalog
from rag.core.types import Scope


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_statistics_equal_the_sum_of_what_is_served(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publication: Callable[..., Any], seed: int
) -> None:
    rng = random.Random(seed)
    served: dict[str, object] = {}

    for step in range(40):
        source = f"{rng.randrange(8)}.txt"
        known = {each.source: each.id for each in (await catalog.list_documents(scope, "papers")).items}
        if rng.random() < 0.25 and source in known:
            await catalog.delete_document(scope, "papers", known[source])
            served.pop(source, None)
            continue
        receipt = await upload(source, f"{step}")
        attempt = await catalog.claim("acme", receipt.document.id)
        counts = {rng.randrange(30): rng.randint(1, 9) for _ in range(rng.randint(0, 12))}
        given = publication(attempt, counts, chunks=rng.randint(0, 9))
        if rng.random() < 0.2:
            await catalog.claim("acme", receipt.document.id)
        if await catalog.publish([given]) == [True]:
            served[source] = given

    view = await catalog.collection(scope, "papers", terms=range(30))
    expected: dict[int, int] = {}
    for each in served.values():
        for term, count in each.document_counts.items():
            expected[term] = expected.get(term, 0) + count
    assert view.document_counts == expected
    assert view.statistics.chunks == sum(each.chunks for each in served.values())
    assert view.statistics.total_terms == sum(each.total_terms for each in served.values())
    assert view.documents == len(served)


async def test_terms_over_the_whole_unsigned_range_are_counted(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    counts = {0: 1, 2**31: 2, 2**32 - 1: 3}

    await publish((await upload("a.txt")).document.id, counts)

    view = await catalog.collection(scope, "papers", terms=[*counts, 77])
    assert view.document_counts == counts


async def test_a_large_document_is_published_replaced_and_deleted_exactly(
    catalog: Catalog, scope: Scope, upload: Callable[..., Any], publish: Callable[..., Any]
) -> None:
    counts = {number * 214_013 % 2**32: 1 + number % 7 for number in range(20_000)}
    document = (await upload("big.txt")).document.id
    await publish(document, counts, chunks=300)
    await upload("big.txt", "second")
    await publish(document, {1: 1}, chunks=1)

    view = await catalog.collection(scope, "papers", terms=[1, *list(counts)[:500]])

    assert view.document_counts == {1: 1}
    assert view.statistics.chunks == 1
