"""The catalog compared with itself: the statistics of its collections, the jobs of its documents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from rag.catalog.inspection import JoblessDocument, StatisticsDifference
from rag.core.catalog import CollectionView
from rag.maintenance.findings import Fault, Outcome
from rag.maintenance.parts import Parts

_MOST_JOBLESS = 10_000


async def examine_statistics(parts: Parts, collection: CollectionView) -> AsyncIterator[Fault]:
    """Whether chunks, terms and the count of each term are what the served documents add up to."""
    difference = await parts.catalog.statistics_difference(collection.id)
    if difference.size:
        yield Fault(
            code="statistics_differ",
            where=collection.name,
            example=_described(difference),
            mend=partial(_recount, parts, collection),
            count=difference.size,
        )


def _described(difference: StatisticsDifference) -> str:
    figures = [f"{name} {kept}, should be {right}" for name, (kept, right) in difference.figures.items()]
    terms = [f"{difference.terms} terms with a wrong count"] if difference.terms else []
    stale = [f"{difference.stale} generations that are not served"] if difference.stale else []
    return "; ".join([*figures, *terms, *stale])


async def _recount(parts: Parts, collection: CollectionView) -> Outcome:
    await parts.catalog.recount(collection.id)
    return Outcome.MENDED


async def examine_jobs(parts: Parts, collection: CollectionView) -> AsyncIterator[Fault]:
    """Whether each document that waits has a job."""
    suspects = {each.id for each in await parts.catalog.jobless_documents(collection.id, limit=_MOST_JOBLESS)}
    if not suspects:
        return
    await asyncio.sleep(parts.moment)
    for document in await parts.catalog.jobless_documents(collection.id, limit=_MOST_JOBLESS):
        if document.id in suspects:
            yield Fault(
                code="document_jobless",
                where=collection.name,
                example=document.source,
                mend=partial(_give_job, parts, document),
            )


async def _give_job(parts: Parts, document: JoblessDocument) -> Outcome:
    await parts.catalog.give_job(document)
    return Outcome.QUEUED
