"""The engine over the SDK's client: a server, or the client's own local mode, which scans."""

from __future__ import annotations

import asyncio
import math
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import UUID

import httpx
import numpy as np
from qdrant_client import AsyncQdrantClient, grpc, models

from rag.core.errors import AnchorageError, CollectionNotFoundError, ConfigurationError, StoreError
from rag.core.records import Capabilities, CollectionSpec, Feature, Quantization, StoreStats
from stores.qdrant.batches import requests_of
from stores.qdrant.engine import DENSE, SPARSE, Condition, Effort, Found, Payload, Points, Query, Scored
from stores.qdrant.errors import store_errors
from stores.qdrant.models import (
    filter_of,
    grpc_points,
    optimizers,
    payload_indexes,
    point_structs,
    query_request,
    terms_of,
    vector_params,
)
from stores.qdrant.options import ClientOptions
from stores.qdrant.points import HIT_KEYS

_SPEC = "anchorage"
Answer = TypeVar("Answer")
OLDEST_SERVER = (1, 16)
"""The first that keeps metadata of a collection and weighs sparse vectors as they are given."""
_SETTLED_ANSWERS = 2
_POLL_SECONDS = 0.2
_LOCAL = Capabilities(
    features=frozenset({Feature.LEXICAL, Feature.EXACT}),
    reasons={
        Feature.INDEX: "the client's local mode scans",
        Quantization.HALF: "the client's local mode keeps float32",
        Quantization.INT8: "the client's local mode keeps float32",
    },
)
_SERVER = Capabilities(features=frozenset(Feature), quantizations=frozenset(Quantization))


@asynccontextmanager
async def open_client(options: ClientOptions) -> AsyncIterator[ClientEngine]:
    """Connections to the server, or the local mode's folder; raises ``ConfigurationError`` when that is in use."""
    client = _client(options)
    try:
        yield ClientEngine(client, options)
    finally:
        await client.close()


def _client(options: ClientOptions) -> AsyncQdrantClient:
    try:
        if options.url is None:
            where: dict[str, Any] = {"path": options.path} if options.path else {"location": ":memory:"}
            return AsyncQdrantClient(**where)
        return AsyncQdrantClient(
            url=options.url,
            api_key=options.api_key,
            prefer_grpc=options.prefer_grpc,
            grpc_port=options.grpc_port,
            timeout=math.ceil(options.timeout),
            check_compatibility=False,
            **_connections(options),
        )
    except (RuntimeError, ValueError, OSError) as exc:
        raise ConfigurationError(f"qdrant store: {exc}") from exc


def _connections(options: ClientOptions) -> dict[str, Any]:
    if options.prefer_grpc:
        return {"pool_size": options.pool_size}
    size = options.pool_size
    return {"limits": httpx.Limits(max_connections=size, max_keepalive_connections=size)}


class ClientEngine:
    """An ``Engine``. The spec of a collection is kept in its metadata."""

    def __init__(self, client: AsyncQdrantClient, options: ClientOptions) -> None:
        self._client = client
        self._options = options
        self._compatible = False

    @property
    def capabilities(self) -> Capabilities:
        """See ``Engine``."""
        return _LOCAL if self._options.local else _SERVER

    async def create(self, collection: str, spec: CollectionSpec) -> bool:
        """See ``Engine``; one that was left without its payload indexes gets them."""
        created = await self._call(None, lambda: self._create(collection, spec))
        if created or not self._options.local:
            for path, schema in payload_indexes(spec.filterable).items():
                await self._call(collection, lambda path=path, schema=schema: self._index(collection, path, schema))  # type: ignore[misc]
        return created

    async def drop(self, collection: str) -> None:
        """See ``Engine``."""
        await self._call(collection, lambda: self._client.delete_collection(collection))

    async def spec(self, collection: str) -> CollectionSpec:
        """See ``Engine``; a collection that something else made has none."""
        info = await self._call(collection, lambda: self._client.get_collection(collection))
        stored = (info.config.metadata or {}).get(_SPEC)
        if stored is None:
            raise CollectionNotFoundError(f"the collection {collection} is none of ours")
        return CollectionSpec.from_json(stored)

    async def upsert(self, collection: str, points: Points) -> None:
        """See ``Engine``; what is too much for one request goes in several, a few at a time."""
        slots = asyncio.Semaphore(self._options.pool_size)

        async def send(part: Points) -> None:
            async with slots:
                await self._call(collection, await asyncio.to_thread(self._upsert, collection, part))

        try:
            async with asyncio.TaskGroup() as group:
                for part in requests_of(points):
                    group.create_task(send(part))
        except* AnchorageError as errors:
            raise errors.exceptions[0] from None

    async def set_payload(self, collection: str, condition: Condition, payload: Payload) -> None:
        """See ``Engine``."""
        chosen = filter_of(condition)
        await self._call(
            collection, lambda: self._client.set_payload(collection, payload=dict(payload), points=chosen, wait=True)
        )

    async def delete(self, collection: str, condition: Condition) -> None:
        """See ``Engine``."""
        chosen = models.FilterSelector(filter=filter_of(condition))
        await self._call(collection, lambda: self._client.delete(collection, points_selector=chosen, wait=True))

    async def count(self, collection: str, condition: Condition) -> int:
        """See ``Engine``."""
        chosen = filter_of(condition)
        counted = await self._call(collection, lambda: self._client.count(collection, count_filter=chosen, exact=True))
        return int(counted.count)

    async def scroll(
        self, collection: str, condition: Condition, *, after: UUID | None, limit: int
    ) -> tuple[list[Found], UUID | None]:
        """See ``Engine``."""
        chosen = filter_of(condition)
        records, following = await self._call(
            collection,
            lambda: self._client.scroll(
                collection,
                scroll_filter=chosen,
                limit=limit,
                offset=str(after) if after else None,
                with_payload=True,
                with_vectors=True,
            ),
        )
        return [_record(record) for record in records], UUID(str(following)) if following is not None else None

    async def query(
        self, collection: str, queries: Sequence[Query], *, condition: Condition, limit: int, effort: Effort
    ) -> list[list[Scored]]:
        """See ``Engine``."""
        chosen, keys = filter_of(condition), list(HIT_KEYS)
        served = None if self._options.local else effort
        requests = [query_request(query, condition=chosen, limit=limit, effort=served, keys=keys) for query in queries]
        responses = await self._call(collection, lambda: self._client.query_batch_points(collection, requests))
        return [[(point.score, point.payload or {}) for point in response.points] for response in responses]

    async def wait_indexed(self, collection: str, *, timeout: float) -> None:
        """See ``Engine``; it has settled when two answers in a row say so."""
        try:
            async with asyncio.timeout(timeout):
                settled = 0
                while (settled := settled + 1 if await self._is_settled(collection) else 0) < _SETTLED_ANSWERS:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise StoreError(f"the index of {collection} was not built within {timeout:g} s") from None

    async def stats(self, collection: str) -> StoreStats:
        """See ``Engine``; bytes are those of the vectors, as a server tells no others."""
        spec = await self.spec(collection)
        info = await self._call(collection, lambda: self._client.get_collection(collection))
        rows = info.points_count or 0
        indexed = rows if await self._is_settled(collection) else min(rows, info.indexed_vectors_count or 0)
        return StoreStats(rows=rows, indexed=indexed, bytes=rows * spec.dimension * 4)

    async def ping(self) -> None:
        """See ``Engine``."""
        await self._call(None, self._client.get_collections)

    async def _is_settled(self, collection: str) -> bool:
        info = await self._call(collection, lambda: self._client.get_collection(collection))
        if self._options.local:
            return True
        behind = (info.points_count or 0) - (info.indexed_vectors_count or 0)
        return bool(
            info.status == models.CollectionStatus.GREEN
            and behind < self._options.indexing_threshold * max(1, info.segments_count)
        )

    async def _create(self, collection: str, spec: CollectionSpec) -> bool:
        if await self._client.collection_exists(collection):
            return False
        await self._client.create_collection(
            collection,
            vectors_config={DENSE: vector_params(spec)},
            sparse_vectors_config={SPARSE: models.SparseVectorParams()},
            optimizers_config=optimizers(spec, self._options.indexing_threshold),
            metadata={_SPEC: spec.to_json()},
        )
        return True

    async def _index(self, collection: str, path: str, schema: Any) -> None:
        if not self._options.local:
            await self._client.create_payload_index(collection, field_name=path, field_schema=schema, wait=True)

    def _upsert(self, collection: str, points: Points) -> Callable[[], Awaitable[Any]]:
        """The request, made here so that it can be made in a thread."""
        if self._options.local or not self._options.prefer_grpc:
            structs = point_structs(points)
            return lambda: self._client.upsert(collection, points=structs, wait=True)
        request = grpc.UpsertPoints(collection_name=collection, points=grpc_points(points), wait=True)
        return lambda: self._client.grpc_points.Upsert(request, timeout=self._options.timeout)

    async def _call(self, collection: str | None, call: Callable[[], Awaitable[Answer]]) -> Answer:
        with store_errors(collection):
            async with asyncio.timeout(self._options.timeout):
                if not self._compatible:
                    await self._check_version()
                return await call()

    async def _check_version(self) -> None:
        """Refuse a server that lacks what is asked of it; it would fail at one call and misread another."""
        if not self._options.local:
            version = (await self._client.info()).version
            if _release(version) < OLDEST_SERVER:
                oldest = ".".join(map(str, OLDEST_SERVER))
                raise ConfigurationError(f"qdrant store: the server is version {version}; {oldest} or newer is needed")
        self._compatible = True


def _release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version; a development build without any counts as the newest."""
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    return tuple(map(int, numbers.groups())) if numbers else (sys.maxsize,)


def _record(record: models.Record) -> Found:
    vectors: Any = record.vector or {}
    return Found(
        payload=record.payload or {},
        vector=np.asarray(vectors[DENSE], dtype=np.float32),
        terms=terms_of(vectors.get(SPARSE)),
    )
