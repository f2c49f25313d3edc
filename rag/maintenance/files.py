"""The blob folder and ``run/`` compared with what refers to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import psutil

from rag.blobs import BlobCondition, StoredBlob, folder_of
from rag.catalog.garbage import BLOB_GRACE_SECONDS
from rag.catalog.inspection import InspectedDocument
from rag.core.catalog import CollectionView
from rag.maintenance.findings import Fault, Outcome
from rag.maintenance.parts import Parts, service_of
from rag.maintenance.repairs import leave, set_original_aside, write_text_again

FOLDER = "data folder"
"""Where faults are that belong to no collection."""

_HASHES_AT_A_TIME = 1000


async def examine_blobs(
    parts: Parts, collection: CollectionView, page: Sequence[InspectedDocument]
) -> AsyncIterator[Fault]:
    """Whether the original of each document, and the parsed text of each that is served, are whole."""

    async def original(document: InspectedDocument) -> BlobCondition | None:
        parts.looked["blobs"] += 1
        return _unless_whole(await parts.blobs.condition(service_of(document.tenant), document.blob))

    async def text(document: InspectedDocument) -> BlobCondition | None:
        # Of equal bytes there is one blob, and the original's fault says it all.
        if document.text is None or not document.settled or document.text.sha256 == document.blob.sha256:
            return None
        parts.looked["blobs"] += 1
        return _unless_whole(await parts.blobs.condition(service_of(document.tenant), document.text))

    for document, condition in await parts.confirmed([each for each in page if await original(each)], original):
        damaged = condition is BlobCondition.DAMAGED
        mend = set_original_aside if damaged else leave
        yield Fault(
            code=f"original_{condition}",
            where=collection.name,
            example=document.source,
            mend=partial(mend, parts, document),
        )
    for document, condition in await parts.confirmed([each for each in page if await text(each)], text):
        yield Fault(
            code=f"text_{condition}",
            where=collection.name,
            example=document.source,
            mend=partial(write_text_again, parts, document, condition),
        )


def _unless_whole(condition: BlobCondition) -> BlobCondition | None:
    return None if condition is BlobCondition.WHOLE else condition


async def examine_unreferenced(parts: Parts) -> AsyncIterator[Fault]:
    """Whether something refers to each blob. Young ones are left out: an upload puts its bytes before its row."""
    tenants = {folder_of(tenant): tenant for tenant in await parts.catalog.tenants()}
    async for stored in parts.blobs.stored():
        old = [each for each in stored if each.age > BLOB_GRACE_SECONDS]
        for first in range(0, len(old), _HASHES_AT_A_TIME):
            for blob in await _unreferenced(parts, tenants, old[first : first + _HASHES_AT_A_TIME]):
                yield Fault(
                    code="blob_unreferenced",
                    where=FOLDER,
                    example=f"blobs/{blob.folder}/{blob.sha256[:2]}/{blob.sha256}",
                    mend=partial(_discard, parts, tenants, blob),
                )


async def _unreferenced(parts: Parts, tenants: Mapping[str, str], blobs: Sequence[StoredBlob]) -> list[StoredBlob]:
    """One tenant's, as they come from one folder."""
    tenant = tenants.get(blobs[0].folder)
    hashes = [each.sha256 for each in blobs]
    referred = set[str]() if tenant is None else await parts.catalog.referred_blobs(tenant, hashes)
    return [each for each in blobs if each.sha256 not in referred]


async def _discard(parts: Parts, tenants: Mapping[str, str], blob: StoredBlob) -> Outcome:
    """An upload of the same bytes makes the blob young first, and its row afterwards."""
    if await _unreferenced(parts, tenants, [blob]):
        await parts.blobs.discard_stored(blob, older_than=BLOB_GRACE_SECONDS)
    return Outcome.MENDED


async def examine_leftovers(parts: Parts) -> AsyncIterator[Fault]:
    """What a service that was killed left in ``run/``: addresses at which nobody is."""
    stale = await asyncio.to_thread(_stale_files, parts.data_dir / "run")
    if not stale:
        return
    await asyncio.sleep(parts.moment)
    for path in await asyncio.to_thread(_stale_files, parts.data_dir / "run"):
        yield Fault(code="leftover_file", where=FOLDER, example=f"run/{path.name}", mend=partial(_remove, path))


def _stale_files(run: Path) -> list[Path]:
    address, models = run / "service.json", run / "models.sock"
    if not _is_stale(address):
        return []
    return [path for path in (address, models) if path.exists()]


def _is_stale(address: Path) -> bool:
    try:
        pid = json.loads(address.read_text(encoding="utf-8"))["pid"]
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError):
        return True
    return not (isinstance(pid, int) and psutil.pid_exists(pid))


async def _remove(path: Path) -> Outcome:
    await asyncio.to_thread(path.unlink, missing_ok=True)
    return Outcome.MENDED
