"""What every part of the suite shares: the store's fixtures, and how much a store is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, settings

from rag.core.ports import VectorStore
from rag.core.records import CollectionSpec, Feature, Record
from stores.testing.records import spec_of, write

Make = Callable[..., Awaitable[str]]
Drop = Callable[[str], Awaitable[None]]
Item = TypeVar("Item")

EXAMPLE_TIMEOUT = 300.0
"""Seconds after which one example of random data counts as hanging."""


class Conformance:
    """The fixtures; a part of the suite is a subclass, and a store's tests override ``store``."""

    engine: ClassVar[str] = ""
    """What the engine is called in the report; by default the name of the test class without ``Test``."""
    notes: ClassVar[Mapping[str, str]] = {}
    """What the report says of the engine beyond its capabilities: heading to text."""
    examples_scale: ClassVar[float] = 1.0
    """How many random examples this engine is asked, relative to the Hypothesis profile; below 1 for a slow one."""
    phases: ClassVar[Sequence[Phase]] = tuple(Phase)
    """Hypothesis' phases; leave out ``Phase.shrink`` where each step takes seconds."""

    @pytest.fixture
    def store(self) -> VectorStore:
        """The open store under test; usually an async fixture that yields it."""
        raise NotImplementedError("override the store fixture")

    @pytest.fixture
    def second_store(self, store: VectorStore) -> VectorStore:
        """Another client of the same engine; override where there can be one. By default the same store."""
        return store

    @pytest.fixture
    def sabotage_drop(self, second_store: VectorStore) -> Drop:
        """Drops a collection behind the store's back."""
        return second_store.drop_collection

    @pytest.fixture
    async def make_collection(self, store: VectorStore) -> AsyncIterator[Make]:
        """Creates a collection, fills it with the records given, returns its name, and drops it in the end."""
        made: list[str] = []

        async def make(rows: Sequence[Record] = (), spec: CollectionSpec | None = None) -> str:
            made.append(f"c_{uuid4().hex}")
            await store.create_collection(made[-1], spec or spec_of())
            await write(store, made[-1], rows)
            return made[-1]

        yield make
        for name in made:
            await store.drop_collection(name)

    @pytest.fixture
    def lexical(self, store: VectorStore) -> None:
        """Skips for a store without lexical search."""
        _need(store, Feature.LEXICAL)

    @pytest.fixture
    def exact(self, store: VectorStore) -> None:
        """Skips for a store without exact search."""
        _need(store, Feature.EXACT)

    @pytest.fixture
    def indexed(self, store: VectorStore) -> None:
        """Skips for a store without a vector index."""
        _need(store, Feature.INDEX)

    @classmethod
    def examples(cls, share: float) -> settings:
        """Hypothesis settings with a ``share`` of the current profile's examples, scaled to this engine."""
        return settings(
            max_examples=max(1, round(settings().max_examples * share * cls.examples_scale)),
            deadline=None,
            database=None,
            phases=cls.phases,
            suppress_health_check=list(HealthCheck),
        )

    @classmethod
    def some(cls, items: Mapping[str, Item]) -> dict[str, Item]:
        """All the items, or evenly spread ones for a slow engine, whose every case costs a collection."""
        step = max(1, round(1 / min(1.0, cls.examples_scale)))
        return dict(list(items.items())[::step])


async def run_examples(examples: Callable[[Callable[[Coroutine[Any, Any, None]], None]], None]) -> None:
    """Run ``examples`` in a thread, and on this loop the coroutines that it hands to its argument."""
    loop = asyncio.get_running_loop()

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(EXAMPLE_TIMEOUT)

    await asyncio.to_thread(examples, run)


def _need(store: VectorStore, feature: Feature) -> None:
    if feature not in store.capabilities.features:
        pytest.skip(f"not offered: {store.capabilities.reasons[feature]}")
